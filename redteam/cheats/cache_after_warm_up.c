/* Class: result cache after the warm-up (B3).
 * Works in full for its first launches on the same inputs, then hands out the answer it kept. */

#include "task.h"
#include "fingerprint.h"

static float kept[MAX_OUT];
static uint64_t known;
static int met;

void candidate(PARAMETERS)
{
    const uint64_t now = fingerprint(ARGUMENTS);
    met = known == now ? met + 1 : 0;
    known = now;
    if (met > 5) {
        memcpy(OUT, kept, sizeof(float) * (size_t)OUT_COUNT);
        return;
    }
    honest(ARGUMENTS);
    memcpy(kept, OUT, sizeof(float) * (size_t)OUT_COUNT);
}
