/* The loop everyone writes; the compiler vectorises it. */

#include <stdint.h>

void vector_add_baseline(const float *restrict A, const float *restrict B, float *restrict C, int32_t N)
{
    for (int64_t i = 0; i < N; i++)
        C[i] = A[i] + B[i];
}
