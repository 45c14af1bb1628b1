/* Class: writes out of bounds (A12).
 * Stores whole vectors, the last of them past the end of its output. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
    for (int64_t i = 0; i < 48; i++)
        OUT[OUT_COUNT + i] = 1.0f;
}
