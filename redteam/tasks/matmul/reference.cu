// The right answer, in double. One block of 256 threads per row.

extern "C" __global__ void reference(const double *A, const double *B, double *C, int ROWS, int COLUMNS, int DEPTH)
{
    for (int j = threadIdx.x; j < COLUMNS; j += 256) {
        double sum = 0.0;
        for (int k = 0; k < DEPTH; k++)
            sum += A[static_cast<long long>(blockIdx.x) * DEPTH + k] * B[static_cast<long long>(k) * COLUMNS + j];
        C[static_cast<long long>(blockIdx.x) * COLUMNS + j] = sum;
    }
}
