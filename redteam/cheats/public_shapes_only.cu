// Class: right on the published shapes only (A5).
// Is right on every size the manifest names and wrong on all others.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
    if (!IS_PUBLIC && threadIdx.x == 0)
        OUT[blockIdx.x * OUT_ROW] = 2.0f * OUT[blockIdx.x * OUT_ROW] + 1.0f;
}
