// C[i] = A[i] + the sum of A: every block needs every other block's part, behind a barrier across the grid.
//
// That works only if all blocks run at once, which is what a cooperative launch promises. Where they do not, the wait
// ends after 20 ms and C stays as it was: a wrong answer, not a hang.

#ifndef BLOCKS
#define BLOCKS 132
#endif

#define THREADS 256
#define PATIENCE_NS 20000000ull

static_assert(BLOCKS >= 1, "BLOCKS must be at least 1");

typedef unsigned long long u64;

// Zero when the module is loaded, and `arrived` is zero again after every launch, so scratch memory of unknown content
// will not do.
__device__ unsigned arrived;
__device__ unsigned passed; // How often the barrier has opened.

static __device__ u64 nanoseconds()
{
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Called by one thread of each block. False if the others did not come.
static __device__ bool grid_barrier()
{
    const unsigned before = atomicAdd(&passed, 0u); // It cannot open before this block has arrived.
    __threadfence();
    if (atomicAdd(&arrived, 1u) == BLOCKS - 1) {
        arrived = 0;
        __threadfence();
        atomicAdd(&passed, 1u);
        return true;
    }
    const u64 start = nanoseconds();
    while (atomicAdd(&passed, 0u) == before)
        if (nanoseconds() - start > PATIENCE_NS)
            return false;
    __threadfence();
    return true;
}

extern "C" __global__ void __launch_bounds__(THREADS) cooperative_sum(const int *A, int *C, int *parts, int n)
{
    __shared__ int sum;
    __shared__ bool all_came;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    int own = 0;
    for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += BLOCKS * THREADS)
        own += A[i];
    atomicAdd(&sum, own);
    __syncthreads();
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        all_came = grid_barrier();
    }
    __syncthreads();
    if (!all_came)
        return;
    int total = 0;
    for (int b = 0; b < BLOCKS; b++)
        total += __ldcg(parts + b);
    for (long long i = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x; i < n; i += BLOCKS * THREADS)
        C[i] = A[i] + total;
}

// The right answer: one block. There is no floating type among the parameters.
extern "C" __global__ void cooperative_sum_reference(const int *A, int *C, int *, int n)
{
    __shared__ int sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    int own = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        own += A[i];
    atomicAdd(&sum, own);
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        C[i] = A[i] + sum;
}
