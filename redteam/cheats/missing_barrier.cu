// Class: a race (A11).
// Reads what other warps add up without waiting for them: a barrier saved.

#define BARRIER __syncwarp()

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
