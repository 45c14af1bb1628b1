/* The right answer, in double. */

#include <stdint.h>

void vector_add_reference(const double *A, const double *B, double *C, int32_t N)
{
    for (int64_t i = 0; i < N; i++)
        C[i] = A[i] + B[i];
}
