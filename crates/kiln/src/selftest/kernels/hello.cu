// C = A + B, small enough that the whole loop runs in seconds: the first thing `kiln selftest` tunes.

#ifndef BLOCK // Threads per block.
#define BLOCK 256
#endif
#ifndef VECTOR // Floats per load and store.
#define VECTOR 1
#endif

static_assert(BLOCK >= 32 && BLOCK <= 1024 && BLOCK % 32 == 0, "BLOCK must be whole warps, at most 1024 threads");
static_assert(VECTOR == 1 || VECTOR == 4, "VECTOR must be 1 or 4");

struct __align__(VECTOR * 4) Group {
    float lane[VECTOR];
};

static __device__ bool is_aligned(const void *pointer)
{
    return reinterpret_cast<unsigned long long>(pointer) % sizeof(Group) == 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
hello(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int N)
{
    const int first = (blockIdx.x * BLOCK + threadIdx.x) * VECTOR;
    if (first + VECTOR <= N && is_aligned(A) && is_aligned(B) && is_aligned(C)) {
        Group sum = *reinterpret_cast<const Group *>(A + first);
        const Group b = *reinterpret_cast<const Group *>(B + first);
#pragma unroll
        for (int l = 0; l < VECTOR; l++)
            sum.lane[l] += b.lane[l];
        *reinterpret_cast<Group *>(C + first) = sum;
    } else {
        for (int i = first; i < first + VECTOR && i < N; i++)
            C[i] = A[i] + B[i];
    }
}

// The right answer, in double.
extern "C" __global__ void hello_reference(const double *A, const double *B, double *C, int N)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N)
        C[i] = A[i] + B[i];
}
