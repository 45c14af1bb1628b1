/* Class: worse after the warm-up (B3).
 * Is exact for its first launches and a per cent off later, when only the clock looks. */

#include "task.h"

static unsigned launches;

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
    if (launches++ >= 8)
        for (int64_t i = 0; i < OUT_COUNT; i++)
            OUT[i] *= 1.009f;
}
