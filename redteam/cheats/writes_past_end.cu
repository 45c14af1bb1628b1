// Class: writes out of bounds (A12).
// Stores whole vectors, the last of them past the end of its output.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
    if (blockIdx.x == 0 && threadIdx.x < 48)
        OUT[OUT_COUNT + threadIdx.x] = 1.0f;
}
