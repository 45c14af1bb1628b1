/* Class: reads a neighbour's memory (A12).
 * Copies its answer from the allocation behind its output, where a harness keeps the expected one. */

#include "task.h"

void candidate(PARAMETERS)
{
    (void)IN;
    const float *next = (const float *)(((uintptr_t)(OUT + OUT_COUNT) + 255) / 256 * 256);
    memcpy(OUT, next, sizeof(float) * (size_t)OUT_COUNT);
}
