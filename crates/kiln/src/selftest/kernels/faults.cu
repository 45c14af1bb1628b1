// C = A + B, or one of the ways a kernel can go wrong instead.
//
// BEHAVIOUR says which. Codes are those of the CUDA driver; "seen" means measured on an H200, the rest is expected.
// Codes 700 to 719 end the context: the worker that met one is replaced.
//
//    0  honest
//    1  writes to an address nobody mapped               700 illegal address (seen)
//    2  writes a float at an odd half of an address      716 misaligned address (seen)
//    3  runs something that is no instruction            715 illegal instruction; see ILLEGAL
//    4  fails an assertion                               710 assert (seen), and a line of text on stdout
//    5  recurses until the stack is used up              700 or 719
//    6  never ends                                       the host's deadline
//    7  writes 64 floats past the end of C               a damaged guard, or 700 if nothing is mapped there
//    8  writes 64 floats before the start of C           likewise
//    9  reads A 1 GiB past its end                       700, or a wrong answer if something is mapped there
//   10  is wrong at every seventh element                a wrong answer
//   11  writes nothing                                   a wrong answer: C still holds the poison
//   12  writes NaN                                       a wrong answer
//   13  overwrites its input A                           a damaged input; C is right
//   14  waits at a barrier half the block never reaches  the host's deadline
//   15  traps                                            719 launch failure (seen)
//   16  takes a millisecond per block                    right, only slow
//   17  is wrong when the launch before had the same N   a wrong answer, but not at the first check
//   18  does nothing where its answer is there already   right, and refused when confirmed
//   19  is quick only on inputs it has met before        right, and refused when confirmed
//
// Too many threads, too much shared memory and too much memory are asked for in the manifest, not here; `scratch` is
// there only to be too large.

#ifndef BEHAVIOUR
#define BEHAVIOUR 0
#endif
// How BEHAVIOUR 3 comes by its illegal instruction; which of the ways yield 715 is for a GPU to say. `brkpt` is not
// among them: it assembles to the same BPT.TRAP as `trap`.
#ifndef ILLEGAL
#define ILLEGAL 2
#endif

static_assert(BEHAVIOUR >= 0 && BEHAVIOUR <= 19, "BEHAVIOUR must be between 0 and 19");
static_assert(ILLEGAL >= 1 && ILLEGAL <= 4, "ILLEGAL must be between 1 and 4");

typedef unsigned long long u64;

#if BEHAVIOUR == 16 || BEHAVIOUR == 19 || (BEHAVIOUR == 3 && ILLEGAL == 4)
static __device__ void wait_a_millisecond()
{
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < 1000000);
}
#endif

#if BEHAVIOUR == 3
#if ILLEGAL == 1
// Bytes that decode to nothing, called as if they were a function. An H200 says 700: data cannot be fetched as code.
__device__ u64 not_code[64] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};

static __device__ void illegal(float *)
{
    u64 address = reinterpret_cast<u64>(not_code);
    asm volatile("" : "+l"(address));
    reinterpret_cast<void (*)()>(address)();
}
#elif ILLEGAL == 2
// A cache policy that no createpolicy instruction makes: 715 on an H200.
static __device__ void illegal(float *C)
{
    float value;
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(C), "l"(~0ull) : "memory");
    C[0] = value;
}
#elif ILLEGAL == 3
// A barrier of 17 threads: the count must be a multiple of the warp size. 715 on an H200.
static __device__ void illegal(float *)
{
    int count = 17;
    asm volatile("" : "+r"(count));
    asm volatile("barrier.cta.sync 1, %0;" ::"r"(count) : "memory");
}
#elif ILLEGAL == 4
// A bulk copy through a tensor map of ones (sm_90): 715 on an H200.
__device__ __align__(128) u64 not_a_map[16] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull,
                                               ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};

static __device__ void illegal(float *)
{
    __shared__ __align__(128) float tile[256];
    __shared__ u64 barrier;
    const unsigned tile_address = static_cast<unsigned>(__cvta_generic_to_shared(tile));
    const unsigned barrier_address = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_address) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(tile_address),
                 "l"(not_a_map), "r"(0), "r"(0), "r"(barrier_address)
                 : "memory");
    wait_a_millisecond();
}
#endif
#endif

#if BEHAVIOUR == 4
// NVRTC has no assert.h; this is the function that assert calls.
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, size_t);
#endif

#if BEHAVIOUR == 5
// A KiB of stack per call, used after the call returns so that it cannot become a loop.
static __device__ __noinline__ float descend(float x, int depth)
{
    volatile float kept[256];
    kept[depth % 256] = x;
    const float below = depth > 0 ? descend(x + 1.0f, depth - 1) : x;
    return below + kept[depth % 256];
}
#endif

#if BEHAVIOUR == 17
__device__ unsigned finished_threads; // Of the launch under way.
__device__ int previous_N;
#endif

#if BEHAVIOUR == 18
__device__ unsigned answers[1 << 16]; // What each block wrote first, the last time.
#elif BEHAVIOUR == 19
__device__ float met[1 << 20];
#endif

extern "C" __global__ void fault(const float *A, const float *B, float *C, int N, float *)
{
    const long long threads = static_cast<long long>(gridDim.x) * blockDim.x;
    const long long self = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;

#if BEHAVIOUR == 1
    // 16 TiB: below where Linux maps anything, above where the driver keeps its own.
    *reinterpret_cast<volatile float *>(0x100000000000ull + 4 * self) = 1.0f;
#elif BEHAVIOUR == 2
    *reinterpret_cast<volatile float *>(reinterpret_cast<char *>(C) + 2) = 1.0f;
#elif BEHAVIOUR == 3
    if (self == 0)
        illegal(C);
#elif BEHAVIOUR == 4
    if (self == 0)
        __assertfail("N < 0", "faults.cu", __LINE__, "fault", 1);
#elif BEHAVIOUR == 5
    C[0] = descend(A[0], 1 << 20);
#elif BEHAVIOUR == 6
    while (N > 0)
        asm volatile("" ::: "memory");
#elif BEHAVIOUR == 14
    // The barrier counts threads that have ended as arrived, so the other half must live and wait for the first.
    __shared__ volatile int passed;
    if (threadIdx.x == 0)
        passed = 0;
    __syncthreads();
    if (threadIdx.x < blockDim.x / 2) {
        __syncthreads();
        passed = 1;
    } else {
        while (passed == 0) {
        }
        __syncthreads();
    }
#elif BEHAVIOUR == 15
    asm volatile("trap;");
#elif BEHAVIOUR == 16
    wait_a_millisecond();
#elif BEHAVIOUR == 18
    // One look per block. All threads look before the first of them writes.
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x;
    const bool done = first < N && __float_as_uint(C[first]) == answers[blockIdx.x];
    __syncthreads();
    if (done)
        return;
    if (threadIdx.x == 0 && first < N)
        answers[blockIdx.x] = __float_as_uint(A[first] + B[first]);
#elif BEHAVIOUR == 19
    if (self < N && threadIdx.x == 0 && met[self] != A[self]) {
        met[self] = A[self];
        wait_a_millisecond();
    }
#endif

#if BEHAVIOUR == 17
    const bool again = previous_N == N;
#endif
    for (long long i = self; i < N; i += threads) {
#if BEHAVIOUR == 9
        C[i] = A[i + N + (1ll << 28)] + B[i];
#elif BEHAVIOUR == 10
        C[i] = A[i] + B[i] + (i % 7 == 0 ? 0.1f : 0.0f);
#elif BEHAVIOUR == 11
#elif BEHAVIOUR == 12
        C[i] = __int_as_float(0x7FC00000);
#elif BEHAVIOUR == 17
        C[i] = again ? A[i] - B[i] : A[i] + B[i];
#else
        C[i] = A[i] + B[i];
#endif
#if BEHAVIOUR == 13
        const_cast<float *>(A)[i] = 0.0f;
#endif
    }
#if BEHAVIOUR == 7
    if (self < 64)
        C[N + self] = 1.0f;
#elif BEHAVIOUR == 8
    if (self < 64)
        C[self - 64] = 1.0f;
#elif BEHAVIOUR == 17
    // The last thread to finish writes down what the next launch will find.
    if (atomicAdd(&finished_threads, 1u) == threads - 1) {
        finished_threads = 0;
        previous_N = N;
    }
#endif
}

// The right answer, in double.
extern "C" __global__ void fault_reference(const double *A, const double *B, double *C, int N, double *)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        C[i] = A[i] + B[i];
}
