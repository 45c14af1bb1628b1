/* Class: tail left out (A2).
 * Leaves out the last row, where nobody looks and errors average away. */

#include "task.h"

void candidate(PARAMETERS)
{
    for (int64_t row = 0; row + 1 < ROWS; row++)
        honest_row(ARGUMENTS, row);
}
