// Three kernels of known shape and adjustable length, to hold clocks against each other.
//
//   timing_compute  output[i] = input[i] % 65536 + repeats, one dependent FFMA at a time; length grows with `repeats`
//   timing_l2       output[i] = the sum of `repeats` elements of `input`, read past the L1 cache; likewise
//   timing_copy     output[i] = input[i], 12 bytes moved per element; length grows with n, `repeats` is not used
//
// All take the same parameters, and all answers are integers, so that right means equal. SLOWDOWN_PERMILLE adds that
// much more of the same work without changing an answer: 20 makes a kernel 2 % longer. TWIN does nothing at all: two
// configs that differ in it are the same kernel.

#ifndef BLOCK // Threads per block.
#define BLOCK 256
#endif
#ifndef SLOWDOWN_PERMILLE
#define SLOWDOWN_PERMILLE 0
#endif
#ifndef TWIN
#define TWIN 0
#endif

static_assert(BLOCK >= 32 && BLOCK <= 1024 && BLOCK % 32 == 0, "BLOCK must be whole warps, at most 1024 threads");
static_assert(SLOWDOWN_PERMILLE >= 0 && SLOWDOWN_PERMILLE <= 1000, "SLOWDOWN_PERMILLE must be between 0 and 1000");
static_assert(TWIN >= 0, "TWIN is a label");

#define STRIDE 8224 // Whole 128-byte lines of u32, and no power of two.

typedef unsigned u32;
typedef unsigned long long u64;

static __device__ u64 extra(u64 work)
{
    return work * SLOWDOWN_PERMILLE / 1000;
}

// x + repeats * step, the slow way. One and step are hidden from the compiler, and sums stay whole numbers below 2^24,
// which f32 holds exactly: `repeats` may be 16 million.
static __device__ float climb(float x, float step, u64 repeats)
{
    float one = 1.0f;
    asm volatile("" : "+f"(one), "+f"(step));
#pragma unroll 16
    for (u32 r = 0; r < static_cast<u32>(repeats); r++)
        x = __fmaf_rn(x, one, step);
    return x;
}

// 1,024 threads on each of an H200's 132 multiprocessors take about 4.3 ns per repeat (estimated from the FFMA rate).
extern "C" __global__ void __launch_bounds__(BLOCK) timing_compute(const u32 *input, u64 *output, int n, int repeats)
{
    const u64 i = static_cast<u64>(blockIdx.x) * BLOCK + threadIdx.x;
    const float start = i < n ? static_cast<float>(input[i] % 65536) : 0.0f;
    const float end = climb(climb(start, 1.0f, repeats), 0.0f, extra(repeats));
    if (i < n)
        output[i] = static_cast<u64>(end);
}

// Reads `repeats` elements from `first` on, STRIDE apart and round the buffer, and adds up their bits under `mask`.
static __device__ u64 gather(const u32 *input, int n, u64 first, u64 repeats, u32 mask)
{
    const u64 stride = STRIDE % n;
    u64 sum = 0;
#pragma unroll 8
    for (u64 r = 0; r < repeats; r++) {
        sum += __ldcg(input + first) & mask;
        first += stride;
        first -= first >= n ? n : 0;
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(BLOCK) timing_l2(const u32 *input, u64 *output, int n, int repeats)
{
    const u64 i = static_cast<u64>(blockIdx.x) * BLOCK + threadIdx.x;
    if (i >= n)
        return;
    // Nothing is added, but only who knows `n` knows that: a zero that the assembler sees makes it drop the reads.
    const u32 nothing = static_cast<u32>(n >> 31);
    output[i] = gather(input, n, i, repeats, ~0u) + gather(input, n, i, extra(repeats), nothing);
}

// The extra work is the last elements over again, from the end: when they are copied twice, much lies in between.
extern "C" __global__ void __launch_bounds__(BLOCK) timing_copy(const u32 *input, u64 *output, int n, int)
{
    const u64 threads = static_cast<u64>(gridDim.x) * BLOCK;
    const u64 first = static_cast<u64>(blockIdx.x) * BLOCK + threadIdx.x;
    const u64 total = n + extra(n);
#pragma unroll 4
    for (u64 i = first; i < total; i += threads) {
        const u64 at = i < n ? i : 2ull * n - 1 - i;
        output[at] = input[at];
    }
}

// The right answers. There is no floating type among the parameters, so they are the kernels' own.
extern "C" __global__ void timing_compute_reference(const u32 *input, u64 *output, int n, int repeats)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        output[i] = input[i] % 65536 + repeats;
}

extern "C" __global__ void timing_l2_reference(const u32 *input, u64 *output, int n, int repeats)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    u64 sum = 0;
    for (u64 r = 0; r < repeats; r++)
        sum += input[(i + r * STRIDE) % n];
    output[i] = sum;
}

extern "C" __global__ void timing_copy_reference(const u32 *input, u64 *output, int n, int)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        output[i] = input[i];
}
