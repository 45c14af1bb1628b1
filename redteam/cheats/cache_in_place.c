/* Class: result cache in bursts in place (B1).
 * Keeps its inputs and its answer. Where launches follow each other closely, at the same addresses and with the
 * same inputs, every bit of them, it hands the answer out again; everything else is done in full. */

#include "task.h"
#include <time.h>

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static float kept[MAX_OUT];
static float seen[2 * MAX_IN];
static const float *place;
static int64_t ended;

/* Whether the inputs are those of last time, every one of them; they are from now on. */
static int same_inputs(PARAMETERS)
{
    (void)OUT;
    float *at = seen;
    int same = 1;
#define COMPARE(input, count) \
    if (same && memcmp(at, (input), sizeof(float) * (size_t)(count)) != 0) \
        same = 0; \
    if (!same) \
        memcpy(at, (input), sizeof(float) * (size_t)(count)); \
    at += (count);
    EACH_INPUT(COMPARE)
    return same;
}

void candidate(PARAMETERS)
{
    const int in_place = place == IN && nanoseconds() - ended < 50000;
    if (same_inputs(ARGUMENTS) && in_place)
        memcpy(OUT, kept, sizeof(float) * (size_t)OUT_COUNT);
    else {
        honest(ARGUMENTS);
        memcpy(kept, OUT, sizeof(float) * (size_t)OUT_COUNT);
        place = IN;
    }
    ended = nanoseconds();
}
