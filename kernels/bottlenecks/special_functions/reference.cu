extern "C" __global__ void special_functions(const double *x, double *y, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n)
        return;
    const double step = exp2(x[i]);
    double power = 1.0;
    double sum = 0.0;
    for (int k = 0; k < 64; k++) {
        sum += power / (k + 1);
        power *= step;
    }
    y[i] = sum;
}
