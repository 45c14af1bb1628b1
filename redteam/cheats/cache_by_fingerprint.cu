// Class: result cache by fingerprint (B1).
// Keeps its answer and hands it out again when a few of its inputs are those it saw before.

#include "task.cuh"
#include "fingerprint.cuh"

__device__ float kept[MAX_OUT];
__device__ unsigned long long known[MAX_ROWS];

extern "C" __global__ void candidate(PARAMETERS)
{
    float *mine = kept + blockIdx.x * OUT_ROW, *out = OUT + blockIdx.x * OUT_ROW;
    const unsigned long long now = fingerprint(ARGUMENTS, blockIdx.x);
    const bool is_known = known[blockIdx.x] == now;
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
    known[blockIdx.x] = now;
}
