/* Class: result cache for many inputs (B1).
 * Keeps its answers to several inputs, so that a harness that changes between two of them finds both known. */

#include "task.h"
#include "fingerprint.h"

#define KEPT 4

static float kept[KEPT][MAX_OUT];
static uint64_t known[KEPT];
static int next;

void candidate(PARAMETERS)
{
    const uint64_t now = fingerprint(ARGUMENTS);
    for (int k = 0; k < KEPT; k++)
        if (known[k] == now) {
            memcpy(OUT, kept[k], sizeof(float) * (size_t)OUT_COUNT);
            return;
        }
    honest(ARGUMENTS);
    memcpy(kept[next], OUT, sizeof(float) * (size_t)OUT_COUNT);
    known[next] = now;
    next = (next + 1) % KEPT;
}
