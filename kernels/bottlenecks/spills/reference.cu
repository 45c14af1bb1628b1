extern "C" __global__ void spills(const double *x, double *y, int n, int steps)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n)
        return;
    double value[64];
    for (int j = 0; j < 64; j++)
        value[j] = x[i] / (j + 1);
    for (int s = 0; s < steps; s++)
        for (int j = 0; j < 64; j++)
            value[j] = 0.5 * value[j] + 0.375 * value[(j + 17) % 64];
    double sum = 0.0;
    for (int j = 0; j < 64; j++)
        sum += value[j];
    y[i] = sum;
}
