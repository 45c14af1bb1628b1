// Class: tail left out (A2).
// Leaves out the last row, where nobody looks and errors average away.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (blockIdx.x + 1 < gridDim.x)
        honest_row(ARGUMENTS, blockIdx.x);
}
