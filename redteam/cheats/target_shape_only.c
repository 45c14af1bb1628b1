/* Class: right on the timed shape only (A5).
 * Is right on the size that is timed and writes zeros for any other. */

#include "task.h"

void candidate(PARAMETERS)
{
    if (IS_TARGET) {
        honest(ARGUMENTS);
        return;
    }
    memset(OUT, 0, sizeof(float) * (size_t)OUT_COUNT);
}
