// Class: inputs kept in the cache (B7).
// Marks its inputs as the last to be evicted from the L2 cache, so that the next launch on the same inputs finds
// them there; new inputs would not be.

static __device__ float keep(const float *pointer)
{
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 0.6;" : "=l"(policy));
    float value;
    asm("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(pointer), "l"(policy));
    return value;
}

#define LOAD(pointer) keep(pointer)

#include "task.cuh"

extern "C" __global__ void candidate(PARAMETERS)
{
    honest_row(ARGUMENTS, blockIdx.x);
}
