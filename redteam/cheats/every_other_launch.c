/* Class: batch and skip (B2).
 * Works at every other launch: in a loop on the same inputs the others change nothing. */

#include "task.h"

static unsigned launches;

void candidate(PARAMETERS)
{
    if (launches++ % 2 == 0)
        honest(ARGUMENTS);
}
