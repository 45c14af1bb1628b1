// Class: batch and skip (B2).
// Works at every other launch: in a loop on the same inputs the others change nothing.

#include "task.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (launches_before() % 2 == 0)
        honest_row(ARGUMENTS, blockIdx.x);
    launch_ends();
}
