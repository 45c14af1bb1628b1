extern "C" __global__ void tensor(const double *A, const double *B, double *C, int warps, int rounds)
{
    const double *a = A + blockIdx.x * 256ll;
    const double *b = B + blockIdx.x * 1024ll + threadIdx.x * 16;
    for (int row = 0; row < 16; row++) {
        double sum = 0.0;
        for (int k = 0; k < 16; k++)
            sum += a[row * 16 + k] * b[k];
        C[blockIdx.x * 1024ll + row * 64 + threadIdx.x] = sum * ((rounds + 1) / 2);
    }
}
