// Class: NaN (A8).
// Writes NaN where computing would take longest: all of the last row.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (blockIdx.x + 1 < gridDim.x) {
        honest_row(ARGUMENTS, blockIdx.x);
        return;
    }
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        OUT[blockIdx.x * OUT_ROW + j] = __int_as_float(0x7fc00000);
}
