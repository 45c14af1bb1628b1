/* The right answer, in double. */

#include <math.h>
#include <stdint.h>

void reference(const double *X, double *Y, int32_t ROWS, int32_t COLUMNS)
{
    for (int64_t i = 0; i < ROWS; i++) {
        const double *x = X + i * COLUMNS;
        double *y = Y + i * COLUMNS;
        double top = x[0], sum = 0.0;
        for (int64_t j = 1; j < COLUMNS; j++)
            top = x[j] > top ? x[j] : top;
        for (int64_t j = 0; j < COLUMNS; j++)
            sum += y[j] = exp(x[j] - top);
        for (int64_t j = 0; j < COLUMNS; j++)
            y[j] /= sum;
    }
}
