// Class: slow in the warm-up (B3).
// Dawdles at first, so that a harness plans few launches, and then works at one launch of four.

#include "task.cuh"
#include "clock.cuh"
#include "launches.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    const unsigned before = launches_before();
    const unsigned long long start = nanoseconds();
    while (before < 4 && nanoseconds() - start < 200000) {
    }
    if (before % 4 == 0 || before < 4)
        honest_row(ARGUMENTS, blockIdx.x);
    launch_ends();
}
