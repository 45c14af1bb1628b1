/* Class: result cache in bursts only (B1).
 * Keeps its answer, and hands it out only while launches follow each other closely, as in a loop that times
 * them; a launch by itself is done in full. */

#include "task.h"
#include "fingerprint.h"
#include <time.h>

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static float kept[MAX_OUT];
static uint64_t known;
static int64_t ended;

void candidate(PARAMETERS)
{
    const uint64_t now = fingerprint(ARGUMENTS);
    if (known == now && nanoseconds() - ended < 50000)
        memcpy(OUT, kept, sizeof(float) * (size_t)OUT_COUNT);
    else {
        honest(ARGUMENTS);
        memcpy(kept, OUT, sizeof(float) * (size_t)OUT_COUNT);
        known = now;
    }
    ended = nanoseconds();
}
