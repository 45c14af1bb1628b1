// Class: worse after the warm-up (B3).
// Is exact for its first launches and a per cent off later, when only the clock looks.

#include "task.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    if (launches_before() >= 8)
        for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
            OUT[blockIdx.x * OUT_ROW + j] *= 1.009f;
    launch_ends();
}
