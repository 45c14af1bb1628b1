/* Class: stops after the warm-up (B3).
 * Works for as many launches as a warm-up and a check take, and not at all afterwards. */

#include "task.h"

static unsigned launches;

void candidate(PARAMETERS)
{
    if (launches++ < 8)
        honest(ARGUMENTS);
}
