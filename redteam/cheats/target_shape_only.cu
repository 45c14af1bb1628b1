// Class: right on the timed shape only (A5).
// Is right on the size that is timed and writes zeros for any other.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    if (IS_TARGET) {
        honest_row(ARGUMENTS, blockIdx.x);
        return;
    }
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        OUT[blockIdx.x * OUT_ROW + j] = 0.0f;
}
