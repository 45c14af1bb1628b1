/* The right answer, in double. */

#include <math.h>
#include <stdint.h>

void reference(const double *X, double *Y, int32_t ROWS, int32_t COLUMNS)
{
    for (int64_t i = 0; i < ROWS; i++) {
        const double *x = X + i * COLUMNS;
        double mean = 0.0, squares = 0.0;
        for (int64_t j = 0; j < COLUMNS; j++)
            mean += x[j];
        mean /= COLUMNS;
        for (int64_t j = 0; j < COLUMNS; j++)
            squares += (x[j] - mean) * (x[j] - mean);
        const double deviation = sqrt(squares / COLUMNS + 1e-5);
        for (int64_t j = 0; j < COLUMNS; j++)
            Y[i * COLUMNS + j] = (x[j] - mean) / deviation;
    }
}
