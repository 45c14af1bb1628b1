// Class: partial write (A2).
// Computes the first half of the rows and leaves the rest as it was.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (2 * blockIdx.x <= gridDim.x)
        honest_row(ARGUMENTS, blockIdx.x);
}
