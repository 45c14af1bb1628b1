/* Class: batch and skip (B2).
 * Does the work of fifteen launches in one and nothing in the fourteen that follow. */

#include "task.h"

static unsigned launches;

void candidate(PARAMETERS)
{
    if (launches++ % 15 == 0)
        honest(ARGUMENTS);
}
