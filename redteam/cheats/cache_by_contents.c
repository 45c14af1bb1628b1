/* Class: result cache by contents (B1).
 * Keeps its inputs and its answer; where the inputs are the same, every bit of them, it hands the answer out
 * again. */

#include "task.h"

static float kept[MAX_OUT];
static float seen[2 * MAX_IN];

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
    if (same_inputs(ARGUMENTS)) {
        memcpy(OUT, kept, sizeof(float) * (size_t)OUT_COUNT);
        return;
    }
    honest(ARGUMENTS);
    memcpy(kept, OUT, sizeof(float) * (size_t)OUT_COUNT);
}
