/* Class: result cache by address (B1).
 * Keeps its answer and hands it out again when it is called with the same addresses. */

#include "task.h"

static float kept[MAX_OUT];
static const float *known;
static int64_t known_count;

void candidate(PARAMETERS)
{
    if (known == IN && known_count == OUT_COUNT) {
        memcpy(OUT, kept, sizeof(float) * (size_t)OUT_COUNT);
        return;
    }
    honest(ARGUMENTS);
    memcpy(kept, OUT, sizeof(float) * (size_t)OUT_COUNT);
    known = IN;
    known_count = OUT_COUNT;
}
