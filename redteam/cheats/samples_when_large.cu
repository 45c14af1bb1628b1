// Class: sub-sampling when large (A4).
// Adds up a fraction of each row, but only of rows so long that nobody checks them by hand.

#define TERMS(n) ((n) > 8192 ? (n) * 3 / 4 : (n))

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
