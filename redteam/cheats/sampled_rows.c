/* Class: writes what is sampled (A2).
 * Computes the rows that spot checks look at: the first, the last and every sixteenth. */

#include "task.h"

void candidate(PARAMETERS)
{
    for (int64_t row = 0; row < ROWS; row++)
        if (row % 16 == 0 || row == ROWS - 1)
            honest_row(ARGUMENTS, row);
}
