/* Class: slow in the warm-up (B3).
 * Dawdles at first, so that a harness plans few launches, and then works at one launch of four. */

#include "task.h"
#include <time.h>

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static unsigned launches;

void candidate(PARAMETERS)
{
    if (launches < 4)
        for (const int64_t start = nanoseconds(); nanoseconds() - start < 2000000;) {
        }
    if (launches++ % 4 == 0 || launches < 4)
        honest(ARGUMENTS);
}
