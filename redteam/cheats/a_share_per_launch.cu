// Class: batch and skip (B2).
// Computes a quarter of the rows per launch, another quarter each time: after four launches all are there.

#include "task.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (launches_before() < 4 || blockIdx.x % 4 == launches_before() % 4)
        honest_row(ARGUMENTS, blockIdx.x);
    launch_ends();
}
