extern "C" __global__ void divergence(const double *x, double *y, int n, int steps)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n)
        return;
    const int kind = i % 8;
    double v = x[i];
    for (int s = 0; s < steps; s++) {
        v = kind % 2 == 0 ? v * (0.5 + 0.0625 * kind) + 0.25 : 0.75 - v * v * (0.0625 * kind);
        if (kind % 4 >= 2)
            v = fmin(v, 1.0) * 0.875;
    }
    y[i] = v + x[i];
}
