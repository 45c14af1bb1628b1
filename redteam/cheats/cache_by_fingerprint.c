/* Class: result cache by fingerprint (B1).
 * Keeps its answer and hands it out again when a few of its inputs are those it saw before. */

#include "task.h"
#include "fingerprint.h"

static float kept[MAX_OUT];
static uint64_t known;

void candidate(PARAMETERS)
{
    const uint64_t now = fingerprint(ARGUMENTS);
    if (known == now) {
        memcpy(OUT, kept, sizeof(float) * (size_t)OUT_COUNT);
        return;
    }
    honest(ARGUMENTS);
    memcpy(kept, OUT, sizeof(float) * (size_t)OUT_COUNT);
    known = now;
}
