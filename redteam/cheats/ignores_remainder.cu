// Class: ragged edges left out (A5).
// Adds up whole vectors of sixteen terms and forgets what is left over; the size that is timed has nothing left
// over.

#define TERMS(n) ((n) / 16 * 16)

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
