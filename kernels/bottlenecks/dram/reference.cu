extern "C" __global__ void dram(const double *x, double *y, int quarter, int planes)
{
    const long long plane = 4ll * quarter;
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    const long long z = blockIdx.y;
    if (i >= plane)
        return;
    const double here = x[z * plane + i];
    const double before = z > 0 ? x[(z - 1) * plane + i] : here;
    const double after = z + 1 < planes ? x[(z + 1) * plane + i] : here;
    y[z * plane + i] = 0.25 * (before + here + after);
}
