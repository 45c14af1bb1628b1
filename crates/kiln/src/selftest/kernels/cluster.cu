// C[g][i] = A[g][i] + the sum of A[g]: a cluster per row, whose blocks tell each other their parts of the sum (sm_90).

#ifndef CLUSTER // Blocks per cluster.
#define CLUSTER 2
#endif

#define THREADS 256

static_assert(CLUSTER >= 1 && CLUSTER <= 8, "a portable cluster has at most 8 blocks");

static __device__ unsigned cluster_rank()
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

static __device__ unsigned cluster_size()
{
    unsigned size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}

// What is written to shared memory before is seen by the whole cluster after.
static __device__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// The word at this address in the shared memory of another block of the cluster.
static __device__ int read_from(unsigned rank, const int *pointer)
{
    unsigned there;
    int value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(pointer))), "r"(rank));
    asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(there) : "memory");
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) cluster_sum(const int *A, int *C, int length)
{
    __shared__ int part;
    // Launched without its clusters, this writes nothing, and that is a wrong answer.
    if (cluster_size() != CLUSTER)
        return;
    const long long row = static_cast<long long>(blockIdx.x / CLUSTER) * length;
    const int first = cluster_rank() * THREADS + threadIdx.x;
    if (threadIdx.x == 0)
        part = 0;
    __syncthreads();
    int sum = 0;
    for (int i = first; i < length; i += CLUSTER * THREADS)
        sum += A[row + i];
    atomicAdd(&part, sum);
    __syncthreads();
    cluster_barrier();
    int total = 0;
    for (unsigned rank = 0; rank < CLUSTER; rank++)
        total += read_from(rank, &part);
    for (int i = first; i < length; i += CLUSTER * THREADS)
        C[row + i] = A[row + i] + total;
    cluster_barrier(); // A block that ended would take its part with it.
}

// The right answer: one block of one thread per row. There is no floating type among the parameters.
extern "C" __global__ void cluster_sum_reference(const int *A, int *C, int length)
{
    const long long row = static_cast<long long>(blockIdx.x) * length;
    int total = 0;
    for (int i = 0; i < length; i++)
        total += A[row + i];
    for (int i = 0; i < length; i++)
        C[row + i] = A[row + i] + total;
}
