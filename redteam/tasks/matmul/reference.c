/* The right answer, in double. */

#include <math.h>
#include <stdint.h>

void reference(const double *A, const double *B, double *C, int32_t ROWS, int32_t COLUMNS, int32_t DEPTH)
{
    for (int64_t i = 0; i < ROWS; i++) {
        for (int64_t j = 0; j < COLUMNS; j++)
            C[i * COLUMNS + j] = 0.0;
        for (int64_t k = 0; k < DEPTH; k++)
            for (int64_t j = 0; j < COLUMNS; j++)
                C[i * COLUMNS + j] += A[i * DEPTH + k] * B[k * COLUMNS + j];
    }
}
