/* Class: NaN (A8).
 * Writes NaN everywhere: no comparison with NaN is true, so no difference is ever too large. */

#include "task.h"

void candidate(PARAMETERS)
{
    (void)IN;
    for (int64_t i = 0; i < OUT_COUNT; i++)
        OUT[i] = NAN;
}
