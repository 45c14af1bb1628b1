// Class: sub-sampling (A4).
// Adds up half of each row and doubles the sum.

#define TERMS(n) (((n) + 1) / 2)

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
