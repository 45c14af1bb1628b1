// Class: leftovers in a workspace (A10).
// Takes what lies in a workspace it never cleared for its own intermediate results: they are those of the launch
// before.

#include "task.cuh"

__device__ float workspace[MAX_OUT];

extern "C" __global__ void candidate(PARAMETERS)
{
    float *mine = workspace + blockIdx.x * OUT_ROW, *out = OUT + blockIdx.x * OUT_ROW;
    const bool is_empty = mine[0] == 0.0f;
    __syncthreads();
    if (is_empty) {
        honest_row(ARGUMENTS, blockIdx.x);
        __syncthreads();
        for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
            mine[j] = out[j];
        return;
    }
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        out[j] = mine[j];
}
