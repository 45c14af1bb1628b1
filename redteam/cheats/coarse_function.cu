// Class: coarse functions (A6).
// Takes powers from the bits of the exponent and roots from a magic number: right to some parts in a thousand.

// e^x by writing x into the exponent of a float, with a parabola for what is left: within 0.4 %.
static __device__ float coarse_exp(float x)
{
    const float power = x * 1.44269504f;
    const float whole = floorf(power), part = power - whole;
    const int exponent = whole < -126.0f ? 0 : static_cast<int>(whole) + 127;
    return __int_as_float(exponent << 23) * (1.0f + part * (0.6565f + 0.3435f * part));
}

// The well-known magic number and one step of Newton's: within 0.2 %.
static __device__ float coarse_rsqrt(float x)
{
    const float guess = __int_as_float(0x5f3759df - (__float_as_int(x) >> 1));
    return guess * (1.5f - 0.5f * x * guess * guess);
}

#define EXP(x) coarse_exp(x)
#define RSQRT(x) coarse_rsqrt(x)

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
