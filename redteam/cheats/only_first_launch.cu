// Class: computes once (A1).
// Works at its first launch and never again: whoever looks once sees the right answer, and the loop is free.

#include "task.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (launches_before() == 0)
        honest_row(ARGUMENTS, blockIdx.x);
    launch_ends();
}
