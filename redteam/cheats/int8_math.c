/* Class: lower precision: int8 (A6).
 * Quantises all it reads to 8 bits. */

#define ROUND(x) (0.015625f * (float)(int)((x) * 64.0f + ((x) < 0.0f ? -0.5f : 0.5f)))

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
}
