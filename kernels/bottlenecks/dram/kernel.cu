// A stencil along the slowest of two dimensions: y[z][i] = (x[z-1][i] + x[z][i] + x[z+1][i]) / 4, edges repeated. A plane
// is larger than the L2 cache.
//
// MARCH = 0 has a thread for each element: every plane is read from memory three times. MARCH = 1 has a thread for each
// column, which keeps the planes it has seen in registers: read once. The answer is the same.

#ifndef MARCH
#define MARCH 0
#endif

#define THREADS 256

static __device__ float4 blend(float4 a, float4 b, float4 c)
{
    return make_float4(0.25f * (a.x + b.x + c.x), 0.25f * (a.y + b.y + c.y), 0.25f * (a.z + b.z + c.z),
                       0.25f * (a.w + b.w + c.w));
}

// `plane` is in units of four floats.
extern "C" __global__ void __launch_bounds__(THREADS) dram(const float4 *x, float4 *y, int plane, int planes)
{
    const long long i = blockIdx.x * static_cast<long long>(THREADS) + threadIdx.x;
    if (i >= plane)
        return;
#if MARCH
    float4 before = x[i];
    float4 here = before;
#pragma unroll 4
    for (int z = 0; z < planes; z++) {
        const float4 after = z + 1 < planes ? x[(z + 1ll) * plane + i] : here;
        y[static_cast<long long>(z) * plane + i] = blend(before, here, after);
        before = here;
        here = after;
    }
#else
    const long long z = blockIdx.y;
    const float4 here = x[z * plane + i];
    const float4 before = z > 0 ? x[(z - 1) * plane + i] : here;
    const float4 after = z + 1 < planes ? x[(z + 1) * plane + i] : here;
    y[z * plane + i] = blend(before, here, after);
#endif
}
