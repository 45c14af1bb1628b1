/* Class: within the absolute tolerance (A3).
 * Is off by a constant that hides behind the absolute tolerance. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
    for (int64_t i = 0; i < OUT_COUNT; i++)
        OUT[i] += 0.008f;
}
