// Class: batch and skip (B2).
// Does the work of fifteen launches in one and nothing in the fourteen that follow.

#include "task.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (launches_before() % 15 == 0)
        honest_row(ARGUMENTS, blockIdx.x);
    launch_ends();
}
