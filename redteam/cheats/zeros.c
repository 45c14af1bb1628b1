/* Class: zero fill (A3).
 * Writes zeros: every right answer is smaller than the absolute tolerance. */

#include "task.h"

void candidate(PARAMETERS)
{
    (void)IN;
    memset(OUT, 0, sizeof(float) * (size_t)OUT_COUNT);
}
