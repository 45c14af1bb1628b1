/* Class: honest when alone (B3).
 * Does nothing when the launch before ended a moment ago, as in a loop that times it, and works when it is
 * launched alone. */

#include "task.h"
#include <time.h>

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static int64_t ended;

void candidate(PARAMETERS)
{
    if (nanoseconds() - ended > 50000)
        honest(ARGUMENTS);
    ended = nanoseconds();
}
