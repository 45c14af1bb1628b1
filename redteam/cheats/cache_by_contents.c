/* Class: result cache by contents (B1).
 * Keeps its inputs and its answer; where the inputs are the same, every bit of them, it hands the answer out
 * again. */

#include "task.h"
#include "contents.h"

static float kept[MAX_OUT];

void candidate(PARAMETERS)
{
    if (same_inputs(ARGUMENTS)) {
        memcpy(OUT, kept, sizeof(float) * (size_t)OUT_COUNT);
        return;
    }
    honest(ARGUMENTS);
    memcpy(kept, OUT, sizeof(float) * (size_t)OUT_COUNT);
}
