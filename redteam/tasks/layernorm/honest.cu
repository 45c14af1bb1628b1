// Every row less its mean, over its standard deviation: a candidate that does what it should.

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
