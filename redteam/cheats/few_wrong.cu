// Class: a few elements wrong (A7).
// Gets every fortieth element wrong: a check that asks for 95 per cent of them is content.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    for (int j = 40 * threadIdx.x; j < OUT_ROW; j += 40 * THREADS)
        OUT[blockIdx.x * OUT_ROW + j] = 7.0f;
}
