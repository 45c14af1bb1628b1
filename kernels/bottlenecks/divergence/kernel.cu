// Eight kinds of element, told by the index modulo 8, each with a recurrence of its own to be run `steps` times.
//
// GROUPED = 0 gives neighbouring threads neighbouring elements, so that each warp has all eight kinds and runs eight loops one
// after the other with 4 of its 32 threads. GROUPED = 1 gives a warp elements of one kind. The answer is the same.

#ifndef GROUPED
#define GROUPED 0
#endif

#define THREADS 256

template <int KIND> static __device__ float run(float v, int steps)
{
    // Differs in more than constants, so that no compiler makes one loop of them.
#pragma unroll 4
    for (int s = 0; s < steps; s++) {
        if (KIND % 2 == 0)
            v = v * (0.5f + 0.0625f * KIND) + 0.25f;
        else
            v = 0.75f - v * v * (0.0625f * KIND);
        if (KIND % 4 >= 2)
            v = fminf(v, 1.0f) * 0.875f;
    }
    return v;
}

extern "C" __global__ void __launch_bounds__(THREADS) divergence(const float *x, float *y, int n, int steps)
{
#if GROUPED
    const int within = (threadIdx.x % 32) * 8 + threadIdx.x / 32;
#else
    const int within = threadIdx.x;
#endif
    const int i = blockIdx.x * THREADS + within;
    if (i >= n)
        return;
    const float v = x[i];
    float result = 0.0f;
    switch (i % 8) {
    case 0: result = run<0>(v, steps); break;
    case 1: result = run<1>(v, steps); break;
    case 2: result = run<2>(v, steps); break;
    case 3: result = run<3>(v, steps); break;
    case 4: result = run<4>(v, steps); break;
    case 5: result = run<5>(v, steps); break;
    case 6: result = run<6>(v, steps); break;
    case 7: result = run<7>(v, steps); break;
    }
    // What it began with: otherwise all of a kind would end alike.
    y[i] = result + v;
}
