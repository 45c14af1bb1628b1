// Class: writes out of bounds (A12).
// Keeps notes in the memory in front of its output.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
    if (blockIdx.x == 0 && threadIdx.x < 48)
        OUT[-1 - static_cast<long long>(threadIdx.x)] = 1.0f;
}
