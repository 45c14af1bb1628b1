extern "C" __global__ void uncoalesced(const double *x, double *y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        y[i] = 2.0 * x[i] + 1.0;
}
