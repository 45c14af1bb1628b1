// Each warp follows a chain through `table`: the first word of a row of 32 says which row comes next. What it reads is
// added up in a ring of STAGES buffers in shared memory; y is the sum over the ring.
//
// The chain is all latency, so only other warps can fill the time. STAGES = 16 takes 192 KiB of shared memory per block,
// which leaves room for one block; STAGES = 1 leaves room for sixteen. The answer is the same.

#ifndef STAGES
#define STAGES 16
#endif
static_assert(STAGES >= 1 && STAGES <= 18, "one stage is 12 KiB");

#define THREADS 128
#define WORDS 24 // Per thread and stage.

typedef unsigned u32;

extern "C" __global__ void __launch_bounds__(THREADS) shared_occupancy(const u32 *table, u32 *y, int rows, int warps, int steps)
{
    extern __shared__ u32 ring[];
    const int lane = threadIdx.x % 32;
    const int warp = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    for (int s = 0; s < STAGES; s++)
        ring[(s * WORDS) * THREADS + threadIdx.x] = 0;
    if (warp >= warps)
        return;
    u32 row = (warp * 2654435761u) % rows;
    for (int s = 0; s < steps; s++) {
        const u32 word = table[row * 32 + lane];
        ring[((s % STAGES) * WORDS) * THREADS + threadIdx.x] += word;
        row = __shfl_sync(~0u, word, 0) % rows;
    }
    u32 sum = 0;
    for (int s = 0; s < STAGES; s++)
        sum += ring[(s * WORDS) * THREADS + threadIdx.x];
    y[warp * 32 + lane] = sum;
}

// The right answer. All is whole numbers, so it is the same chain without a ring.
extern "C" __global__ void shared_occupancy_reference(const u32 *table, u32 *y, int rows, int warps, int steps)
{
    const int lane = threadIdx.x % 32;
    const int warp = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (warp >= warps)
        return;
    u32 row = (warp * 2654435761u) % rows;
    u32 sum = 0;
    for (int s = 0; s < steps; s++) {
        sum += table[row * 32 + lane];
        row = table[row * 32] % rows;
    }
    y[warp * 32 + lane] = sum;
}
