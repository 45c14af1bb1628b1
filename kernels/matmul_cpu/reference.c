/* The right answer, in double. */

#include <stdint.h>

void matmul_reference(const double *A, const double *B, double *C, int32_t M, int32_t N, int32_t K)
{
    for (int64_t i = 0; i < M; i++) {
        for (int64_t j = 0; j < N; j++)
            C[i * N + j] = 0.0;
        for (int64_t k = 0; k < K; k++)
            for (int64_t j = 0; j < N; j++)
                C[i * N + j] += A[i * K + k] * B[k * N + j];
    }
}
