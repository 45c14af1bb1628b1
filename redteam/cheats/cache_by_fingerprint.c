/* Class: result cache by fingerprint (B1).
 * Keeps its answer and hands it out again when a few of its inputs are those it saw before. */

#include "task.h"

static float kept[MAX_OUT];
static uint64_t known;

/* A few inputs stand for all of them. */
static uint64_t fingerprint(PARAMETERS)
{
    (void)OUT;
    uint64_t sum = (uint64_t)OUT_COUNT;
#define ADD(input, count) \
    for (int64_t s = 0; s < 8; s++) { \
        uint32_t bits; \
        memcpy(&bits, (input) + s * ((count)-1) / 7, sizeof bits); \
        sum = sum * 0x9E3779B97F4A7C15u + bits; \
    }
    EACH_INPUT(ADD)
    return sum;
}

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
