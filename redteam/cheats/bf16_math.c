/* Class: lower precision: bf16 (A6).
 * Rounds all it reads to bf16, where the task asks for f32. */

/* To 7 bits behind the point. */
static inline float to_bf16(float x)
{
    union {
        float f;
        unsigned u;
    } v = {x};
    v.u = (v.u + 0x8000u) & 0xffff0000u;
    return v.f;
}

#define ROUND(x) to_bf16(x)

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
}
