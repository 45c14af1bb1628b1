// Class: within the absolute tolerance (A3).
// Is off by a constant that hides behind the absolute tolerance.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        OUT[blockIdx.x * OUT_ROW + j] += 0.008f;
}
