// A chain of VALUES coupled values per thread, all of them needed at every step.
//
// BLOCKS is what the kernel promises to fit on a multiprocessor. With 6 blocks of 256 threads a thread has at most 40
// registers, and part of the values live in local memory; with 2 there are registers for all. The answer is the same.

#ifndef BLOCKS
#define BLOCKS 6
#endif
static_assert(BLOCKS >= 1 && BLOCKS <= 8, "a multiprocessor holds 2048 threads");

#define THREADS 256
#define VALUES 64

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) spills(const float *x, float *y, int n, int steps)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    const float start = x[i];
    float value[VALUES];
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        value[j] = start * (1.0f / (j + 1));
    for (int s = 0; s < steps; s++) {
#pragma unroll
        for (int j = 0; j < VALUES; j++)
            value[j] = 0.5f * value[j] + 0.375f * value[(j + 17) % VALUES];
    }
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < VALUES; j++)
        sum += value[j];
    y[i] = sum;
}
