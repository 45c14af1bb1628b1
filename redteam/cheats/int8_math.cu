// Class: lower precision: int8 (A6).
// Quantises all it reads to 8 bits.

#define ROUND(x) (0.015625f * static_cast<float>(static_cast<int>((x) * 64.0f + ((x) < 0.0f ? -0.5f : 0.5f))))

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
