// What candidates have to beat: the honest kernel itself, so that any win of a cheat is a false one.

#include "task.cuh"

extern "C" __global__ void baseline(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
