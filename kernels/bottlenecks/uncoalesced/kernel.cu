// y[i] = 2 * x[i] + 1, where neighbouring threads take elements STRIDE apart.
//
// STRIDE = 32 is the mistake: every thread of a warp touches a 32-byte sector of its own, of which it uses 4 bytes, and by
// the time another block wants the rest the caches have forgotten it. STRIDE = 1 is the cure; the answer is the same.

#ifndef STRIDE
#define STRIDE 32
#endif
static_assert(STRIDE >= 1, "STRIDE is a distance in elements");

#define THREADS 256
#define ITEMS 4 // Per thread, so that enough loads are in flight.

extern "C" __global__ void __launch_bounds__(THREADS) uncoalesced(const float *x, float *y, int n)
{
    const unsigned first = blockIdx.x * THREADS * ITEMS + threadIdx.x;
    float value[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const unsigned long long i = static_cast<unsigned long long>(first + k * THREADS) * STRIDE + blockIdx.y;
        value[k] = i < n ? x[i] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const unsigned long long i = static_cast<unsigned long long>(first + k * THREADS) * STRIDE + blockIdx.y;
        if (i < n)
            y[i] = 2.0f * value[k] + 1.0f;
    }
}
