extern "C" __global__ void bank_conflicts(const double *x, double *y, int tiles, int rounds)
{
    const double *row = x + blockIdx.x * 1024ll + threadIdx.x * 32;
    double sum = 0.0;
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < 32; c++)
            sum = sum * 0.5 + row[(c + r) % 32];
    y[blockIdx.x * 32ll + threadIdx.x] = sum;
}
