// Class: a constant factor off (A6).
// Is half a per cent too large everywhere, as a wrong constant makes it.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        OUT[blockIdx.x * OUT_ROW + j] *= 1.005f;
}
