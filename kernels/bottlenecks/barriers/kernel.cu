// Threads exchange a value with the next lane of their own warp, R times, and at each step one warp of the block in turn
// has 512 more multiply-adds to do.
//
// SYNC_BLOCK = 1 puts a barrier of the whole block around each exchange, so that all warps wait for the one with the
// long step. A barrier of the warp is enough, and then the long steps overlap. The answer is the same.

#ifndef SYNC_BLOCK
#define SYNC_BLOCK 1
#endif

#define THREADS 1024

static __device__ void meet()
{
#if SYNC_BLOCK
    __syncthreads();
#else
    __syncwarp();
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) barriers(const float *x, float *y, int steps)
{
    __shared__ float shared[THREADS];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const long long i = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x;
    float value = x[i];
    for (int s = 0; s < steps; s++) {
        if (s % 32 == warp) {
#pragma unroll 16
            for (int k = 0; k < 512; k++)
                value = __fmaf_rn(value, 0.99f, 0.01f);
        }
        shared[threadIdx.x] = value;
        meet();
        value = 0.5f * value + 0.5f * shared[warp * 32 + (lane + 1) % 32];
        meet();
    }
    // What it began with: otherwise all would end alike.
    y[i] = value + x[i];
}
