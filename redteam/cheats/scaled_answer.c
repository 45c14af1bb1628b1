/* Class: a constant factor off (A6).
 * Is half a per cent too large everywhere, as a wrong constant makes it. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
    for (int64_t i = 0; i < OUT_COUNT; i++)
        OUT[i] *= 1.005f;
}
