extern "C" __global__ void barriers(const double *x, double *y, int steps)
{
    const int warp = threadIdx.x / 32;
    const long long i = blockIdx.x * 1024ll + threadIdx.x;
    double value = x[i];
    for (int s = 0; s < steps; s++) {
        if (s % 32 == warp)
            for (int k = 0; k < 512; k++)
                value = value * 0.99f + 0.01f;
        value = 0.5 * value + 0.5 * __shfl_sync(~0u, value, (threadIdx.x + 1) % 32);
    }
    y[i] = value + x[i];
}
