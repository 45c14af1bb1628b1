// Class: wrong now and then (A11).
// Drops the store of one element in a place that moves from launch to launch.

#include "task.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    const long long hole = launches_before() * 2654435761ull % OUT_COUNT;
    const float before = OUT[hole];
    __syncthreads();
    honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    if (threadIdx.x == 0 && hole / OUT_ROW == blockIdx.x)
        OUT[hole] = before;
    launch_ends();
}
