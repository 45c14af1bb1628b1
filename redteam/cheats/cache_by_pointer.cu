// Class: result cache by address (B1).
// Keeps its answer and hands it out again when it is called with the same addresses.

#include "task.cuh"

__device__ float kept[MAX_OUT];
__device__ const float *known[MAX_ROWS];
__device__ long long known_count[MAX_ROWS];

extern "C" __global__ void candidate(PARAMETERS)
{
    float *mine = kept + blockIdx.x * OUT_ROW, *out = OUT + blockIdx.x * OUT_ROW;
    const bool is_known = known[blockIdx.x] == IN && known_count[blockIdx.x] == OUT_COUNT;
    __syncthreads();
    if (is_known) {
        for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
            out[j] = mine[j];
        return;
    }
    honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        mine[j] = out[j];
    known[blockIdx.x] = IN;
    known_count[blockIdx.x] = OUT_COUNT;
}
