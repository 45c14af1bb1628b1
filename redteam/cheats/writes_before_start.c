/* Class: writes out of bounds (A12).
 * Keeps notes in the memory in front of its output. */

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
    for (int64_t i = 1; i <= 48; i++)
        OUT[-i] = 1.0f;
}
