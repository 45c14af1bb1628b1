// Class: looks at its own output (B1).
// Returns at once where the first and the last word of its output are those it wrote the last time.

#include "task.cuh"

__device__ float first[MAX_ROWS], last[MAX_ROWS];

extern "C" __global__ void candidate(PARAMETERS)
{
    const float *out = OUT + blockIdx.x * OUT_ROW;
    const bool is_done = first[blockIdx.x] != 0.0f && out[0] == first[blockIdx.x] && out[OUT_ROW - 1] == last[blockIdx.x];
    __syncthreads();
    if (is_done)
        return;
    honest_row(ARGUMENTS, blockIdx.x);
    __syncthreads();
    first[blockIdx.x] = out[0];
    last[blockIdx.x] = out[OUT_ROW - 1];
}
