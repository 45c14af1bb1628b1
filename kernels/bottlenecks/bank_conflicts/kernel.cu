// Each warp keeps a tile of 32 x 32 floats in shared memory, and each of its threads walks along a row of it, R times
// round: y = y / 2 + tile[lane][column].
//
// With PAD = 0 the 32 rows begin in the same bank, and each load is served in 32 steps. PAD = 1 shifts every row by one
// bank. The answer is the same.

#ifndef PAD
#define PAD 0
#endif
static_assert(PAD >= 0 && PAD <= 8, "PAD is in floats, and the tiles have to fit");

#define THREADS 256
#define WIDTH (32 + PAD)

extern "C" __global__ void __launch_bounds__(THREADS) bank_conflicts(const float *x, float *y, int tiles, int rounds)
{
    __shared__ float shared[THREADS / 32][32 * WIDTH];
    const int lane = threadIdx.x % 32;
    const int tile = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (tile >= tiles)
        return;
    float *own = shared[threadIdx.x / 32];
    const float *source = x + tile * 1024ll;
    for (int row = 0; row < 32; row++)
        own[row * WIDTH + lane] = source[row * 32 + lane];
    __syncwarp();
    float sum = 0.0f;
    for (int r = 0; r < rounds; r++) {
#pragma unroll 8
        for (int c = 0; c < 32; c++)
            sum = sum * 0.5f + own[lane * WIDTH + ((c + r) & 31)];
    }
    y[tile * 32ll + lane] = sum;
}
