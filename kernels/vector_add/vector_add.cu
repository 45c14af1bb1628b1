// C = A + B in f32 on a GPU: the twin of vector_add.c, as a grid-stride loop.
//
// Each thread takes UNROLL groups of VECTOR floats per step, the groups one grid apart so that neighbouring threads
// touch neighbouring memory. Any N is right; what is left over is done one float at a time.

#ifndef BLOCK // Threads per block.
#define BLOCK 256
#endif
#ifndef VECTOR // Floats per load and store.
#define VECTOR 4
#endif
#ifndef UNROLL // Loads in flight per thread and input.
#define UNROLL 1
#endif

static_assert(BLOCK >= 32 && BLOCK <= 1024 && BLOCK % 32 == 0, "BLOCK must be whole warps, at most 1024 threads");
static_assert(VECTOR == 1 || VECTOR == 2 || VECTOR == 4, "VECTOR must be 1, 2 or 4: a load is at most 16 bytes");
static_assert(UNROLL >= 1 && UNROLL <= 16, "UNROLL must be between 1 and 16");

struct __align__(VECTOR * 4) Group {
    float lane[VECTOR];
};

// Wide accesses need all three buffers aligned to them; device allocations are, pieces of them may not be.
static __device__ bool is_aligned(const void *pointer)
{
    return reinterpret_cast<unsigned long long>(pointer) % sizeof(Group) == 0;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
vector_add(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int N)
{
    const long long threads = static_cast<long long>(gridDim.x) * BLOCK;
    const long long self = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
    const long long groups = is_aligned(A) && is_aligned(B) && is_aligned(C) ? N / VECTOR : 0;
    const Group *a = reinterpret_cast<const Group *>(A);
    const Group *b = reinterpret_cast<const Group *>(B);
    Group *c = reinterpret_cast<Group *>(C);

    for (long long first = self; first < groups; first += threads * UNROLL) {
        Group x[UNROLL], y[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const long long g = first + u * threads;
            if (g < groups) {
                x[u] = a[g];
                y[u] = b[g];
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const long long g = first + u * threads;
            if (g < groups) {
#pragma unroll
                for (int l = 0; l < VECTOR; l++)
                    x[u].lane[l] += y[u].lane[l];
                c[g] = x[u];
            }
        }
    }
    for (long long i = groups * VECTOR + self; i < N; i += threads)
        C[i] = A[i] + B[i];
}
