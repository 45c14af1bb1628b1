/* Three plain loops, in the order that runs along memory, so that the compiler vectorises the inner one. */

#include <stdint.h>

void matmul_baseline(const float *restrict A, const float *restrict B, float *restrict C, int32_t M, int32_t N,
                     int32_t K)
{
    for (int64_t i = 0; i < M; i++) {
        for (int64_t j = 0; j < N; j++)
            C[i * N + j] = 0.0f;
        for (int64_t k = 0; k < K; k++)
            for (int64_t j = 0; j < N; j++)
                C[i * N + j] += A[i * K + k] * B[k * N + j];
    }
}
