/* Class: NaN (A8).
 * Writes NaN where computing would take longest: all of the last row. */

#include "task.h"

void candidate(PARAMETERS)
{
    for (int64_t row = 0; row + 1 < ROWS; row++)
        honest_row(ARGUMENTS, row);
    for (int64_t i = OUT_COUNT - OUT_ROW; i < OUT_COUNT; i++)
        OUT[i] = NAN;
}
