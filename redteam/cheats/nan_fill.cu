// Class: NaN (A8).
// Writes NaN everywhere: no comparison with NaN is true, so no difference is ever too large.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        OUT[blockIdx.x * OUT_ROW + j] = __int_as_float(0x7fc00000);
}
