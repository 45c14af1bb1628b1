/* Class: wrong now and then (A11).
 * Gets one element wrong at one launch of sixteen, as a race does: whoever looks once is most likely content. */

#include "task.h"

static unsigned launches;

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
    if (launches++ % 16 == 11)
        OUT[OUT_COUNT / 2] += 1.0f;
}
