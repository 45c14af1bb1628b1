extern "C" __global__ void launch(const double *x, double *y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        y[i] = 2.0 * x[i] + 1.0;
}
