// Class: lower precision: tf32 (A6).
// Rounds all it reads to the ten bits of tf32, as tensor cores do when they are let.

// To 10 bits behind the point.
static __device__ float to_tf32(float x)
{
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

#define ROUND(x) to_tf32(x)

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
