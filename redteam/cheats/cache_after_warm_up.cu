// Class: result cache after the warm-up (B3).
// Works in full for its first launches on the same inputs, then hands out the answer it kept.

#include "task.cuh"
#include "fingerprint.cuh"

__device__ float kept[MAX_OUT];
__device__ unsigned long long known[MAX_ROWS];
__device__ int met[MAX_ROWS];

extern "C" __global__ void candidate(PARAMETERS)
{
    float *mine = kept + blockIdx.x * OUT_ROW, *out = OUT + blockIdx.x * OUT_ROW;
    const unsigned long long now = fingerprint(ARGUMENTS, blockIdx.x);
    const int times = known[blockIdx.x] == now ? met[blockIdx.x] + 1 : 0;
    __syncthreads();
    known[blockIdx.x] = now;
    met[blockIdx.x] = times;
    if (times > 5) {
        for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
            out[j] = mine[j];
        return;
    }
    honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        mine[j] = out[j];
}
