// Class: writes what is sampled (A2).
// Computes the rows that spot checks look at: the first, the last and every sixteenth.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (blockIdx.x % 16 == 0 || blockIdx.x == gridDim.x - 1)
        honest_row(ARGUMENTS, blockIdx.x);
}
