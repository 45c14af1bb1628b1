// C = A, each block through one box of the tensor memory accelerator (sm_90).
//
// The map says where A is, how wide it is and how a box is laid out in shared memory; this kernel is right only if the
// host encoded all of that as the manifest says. Two maps describe the same A, one plain and one with the 128-byte
// swizzle; SWIZZLE says which is used. The maps come last, so that the reference can do without them.

#ifndef TILE_M // Rows of a box.
#define TILE_M 64
#endif
#ifndef TILE_N // Columns of a box.
#define TILE_N 32
#endif
#ifndef SWIZZLE // 1: through the swizzled map.
#define SWIZZLE 1
#endif

#define THREADS 128

static_assert(TILE_M >= 1 && TILE_M <= 256 && TILE_N >= 1 && TILE_N <= 256, "a box has at most 256 elements a side");
static_assert(TILE_N * 4 % 16 == 0, "a row of a box must be a multiple of 16 bytes");
static_assert(SWIZZLE == 0 || TILE_N == 32, "un-swizzling below expects rows of exactly 128 bytes");
static_assert(TILE_M * TILE_N * 4 <= 32768, "a box must leave room in the 48 KiB of static shared memory");

// A CUtensorMap, without cuda.h: 128 bytes, opaque, aligned to 64.
struct __align__(64) TensorMap {
    unsigned long long opaque[16];
};
static_assert(sizeof(TensorMap) == 128, "a tensor map has 128 bytes");

static __device__ unsigned shared_address(const void *pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

extern "C" __global__ void __launch_bounds__(THREADS)
tma_copy(const float *, float *C, int rows, int columns, const __grid_constant__ TensorMap plain,
         const __grid_constant__ TensorMap swizzled)
{
    __shared__ __align__(1024) float box[TILE_M * TILE_N]; // The swizzle repeats every 1024 bytes.
    __shared__ __align__(8) unsigned long long barrier;
    const int first_row = blockIdx.y * TILE_M, first_column = blockIdx.x * TILE_N;

    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)) : "memory");
        // The copy engine is another party: it must see the barrier initialised before it signals it.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        // Parts of a box outside A are filled with zeros and counted like the rest, so the count is always the whole.
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
                     "n"(TILE_M * TILE_N * 4)
                     : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(box)),
                     "l"(SWIZZLE ? &swizzled : &plain), "r"(first_column), "r"(first_row), "r"(shared_address(&barrier))
                     : "memory");
    }
    __syncthreads(); // Nobody waits on a barrier that is not there yet.
    unsigned landed = 0;
    while (landed == 0)
        asm volatile("{\n"
                     ".reg .pred ready;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 ready, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, ready;\n"
                     "}"
                     : "=r"(landed)
                     : "r"(shared_address(&barrier))
                     : "memory");

    for (int i = threadIdx.x; i < TILE_M * TILE_N; i += THREADS) {
        const int row = i / TILE_N, column = i % TILE_N;
        // The swizzle exchanges the 16-byte chunks of a 128-byte row: chunk c of row r lies at c ^ (r % 8).
        const int chunk = SWIZZLE ? column / 4 ^ row % 8 : column / 4;
        if (first_row + row < rows && first_column + column < columns)
            C[static_cast<long long>(first_row + row) * columns + first_column + column] =
                box[row * TILE_N + chunk * 4 + column % 4];
    }
}

// The right answer, in double.
extern "C" __global__ void tma_copy_reference(const double *A, double *C, int rows, int columns)
{
    const int row = blockIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && column < columns)
        C[static_cast<long long>(row) * columns + column] = A[static_cast<long long>(row) * columns + column];
}
