/* Class: lower precision: tf32 (A6).
 * Rounds all it reads to the ten bits of tf32, as tensor cores do when they are let. */

/* To 10 bits behind the point. */
static inline float to_tf32(float x)
{
    union {
        float f;
        unsigned u;
    } v = {x};
    v.u = (v.u + 0x1000u) & 0xffffe000u;
    return v.f;
}

#define ROUND(x) to_tf32(x)

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
}
