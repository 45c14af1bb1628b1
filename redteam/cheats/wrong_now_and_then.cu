// Class: wrong now and then (A11).
// Gets one element wrong at one launch of sixteen, as a race does: whoever looks once is most likely content.

#include "task.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
    if (launches_before() % 16 == 11 && threadIdx.x == 0)
        OUT[blockIdx.x * OUT_ROW] += 1.0f;
    launch_ends();
}
