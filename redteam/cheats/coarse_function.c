/* Class: coarse functions (A6).
 * Takes powers from the bits of the exponent and roots from a magic number: right to some parts in a thousand. */

/* e^x by writing x into the exponent of a float, with a parabola for what is left: within 0.4 %. */
static inline float coarse_exp(float x)
{
    const float power = x * 1.44269504f;
    const int whole = (int)power - (power < 0.0f);
    const float part = power - (float)whole;
    union {
        int i;
        float f;
    } v = {(whole < -126 ? 0 : whole + 127) << 23};
    return v.f * (1.0f + part * (0.6565f + 0.3435f * part));
}

/* The well-known magic number and one step of Newton's: within 0.2 %. */
static inline float coarse_rsqrt(float x)
{
    union {
        float f;
        int i;
    } v = {x};
    v.i = 0x5f3759df - (v.i >> 1);
    return v.f * (1.5f - 0.5f * x * v.f * v.f);
}

#define EXP(x) coarse_exp(x)
#define RSQRT(x) coarse_rsqrt(x)

#include "task.h"

void candidate(PARAMETERS)
{
    honest(ARGUMENTS);
}
