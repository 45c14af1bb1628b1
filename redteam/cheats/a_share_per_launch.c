/* Class: batch and skip (B2).
 * Computes a quarter of the rows per launch, another quarter each time: after four launches all are there. */

#include "task.h"

static unsigned launches;

void candidate(PARAMETERS)
{
    for (int64_t row = 0; row < ROWS; row++)
        if (launches < 4 || row % 4 == launches % 4)
            honest_row(ARGUMENTS, row);
    launches++;
}
