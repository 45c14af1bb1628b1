/* The right answer, in double. */

#include <stdint.h>

void row_sum_reference(const double *x, double *y, int32_t r, int32_t c)
{
    for (int64_t row = 0; row < r; row++) {
        double sum = 0;
        for (int64_t column = 0; column < c; column++)
            sum += x[row * c + column];
        y[row] = sum;
    }
}
