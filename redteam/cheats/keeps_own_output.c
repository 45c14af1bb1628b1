/* Class: looks at its own output (B1).
 * Returns at once where the first and the last word of its output are those it wrote the last time. */

#include "task.h"

static float first, last;

void candidate(PARAMETERS)
{
    if (first != 0.0f && OUT[0] == first && OUT[OUT_COUNT - 1] == last)
        return;
    honest(ARGUMENTS);
    first = OUT[0];
    last = OUT[OUT_COUNT - 1];
}
