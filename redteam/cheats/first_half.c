/* Class: partial write (A2).
 * Computes the first half of the rows and leaves the rest as it was. */

#include "task.h"

void candidate(PARAMETERS)
{
    for (int64_t row = 0; row < (ROWS + 1) / 2; row++)
        honest_row(ARGUMENTS, row);
}
