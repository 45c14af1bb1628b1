// Class: stops after the warm-up (B3).
// Works for as many launches as a warm-up and a check take, and not at all afterwards.

#include "task.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (launches_before() < 8)
        honest_row(ARGUMENTS, blockIdx.x);
    launch_ends();
}
