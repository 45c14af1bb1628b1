// Class: honest when alone (B3).
// Does nothing when the launch before ended a moment ago, as in a loop that times it, and works when it is
// launched alone.

#include "task.cuh"
#include "clock.cuh"

__device__ unsigned long long ended[MAX_ROWS];

extern "C" __global__ void candidate(PARAMETERS)
{
    const bool is_alone = nanoseconds() - ended[blockIdx.x] > 20000;
    __syncthreads();
    if (is_alone)
        honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    ended[blockIdx.x] = nanoseconds();
}
