// Class: changes its inputs (A9).
// Sets its input to zeros and writes the answer to zeros; a reference that runs afterwards agrees.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    for (long long j = threadIdx.x; j < IN_ROW; j += THREADS)
        const_cast<float *>(IN)[blockIdx.x * IN_ROW + j] = 0.0f;
    for (int j = threadIdx.x; j < OUT_ROW; j += THREADS)
        OUT[blockIdx.x * OUT_ROW + j] = ANSWER_TO_ZEROS;
}
