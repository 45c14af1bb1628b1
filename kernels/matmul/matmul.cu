// C = A B: A is M x K, B is K x N, C is M x N, all f16 and row-major; sums in f32. sm_80 and up.
//
// A block owns a BLOCK_M x BLOCK_N tile of C and walks along K in steps of BLOCK_K. cp.async keeps STAGES - 1 steps in
// flight; ldmatrix brings operands from shared memory to registers one 16-deep slice ahead of the mma that uses them.
// Any M, N and K are right. The pipeline needs K and N to be multiples of 8 and the buffers aligned to 16 bytes; other
// problems take a plain path that loads element by element.
//
// Launch: ceil(M / BLOCK_M) * ceil(N / BLOCK_N) blocks of 32 * WARPS_M * WARPS_N threads, SHARED_BYTES of dynamic
// shared memory.

#ifndef BLOCK_M // Rows of C per block.
#define BLOCK_M 128
#endif
#ifndef BLOCK_N // Columns of C per block.
#define BLOCK_N 256
#endif
#ifndef BLOCK_K // Depth of one step.
#define BLOCK_K 64
#endif
#ifndef WARPS_M // Warps along the rows of the block's tile.
#define WARPS_M 2
#endif
#ifndef WARPS_N // Warps along its columns.
#define WARPS_N 4
#endif
#ifndef STAGES // Steps held in shared memory at once.
#define STAGES 3
#endif
#ifndef SWIZZLE // Against bank conflicts. 1: 16-byte chunks are permuted in their row. 0: rows are padded by 16 bytes.
#define SWIZZLE 1
#endif
#ifndef GROUP_M // Rows of tiles walked together, so that blocks that run at once share A and B in the L2 cache.
#define GROUP_M 8
#endif

#define THREADS (32 * WARPS_M * WARPS_N)
#define WARP_M (BLOCK_M / WARPS_M)
#define WARP_N (BLOCK_N / WARPS_N)
#define TILES_M (WARP_M / 16) // Of m16n8k16: the sums of a warp are TILES_M x 2 TILES_N tiles of 16 x 8.
#define TILES_N (WARP_N / 16)
#define SLICES (BLOCK_K / 16)
#define CHUNK 8 // Halves in 16 bytes, what one cp.async or one row of ldmatrix moves.
#define A_CHUNKS (BLOCK_K / CHUNK)
#define B_CHUNKS (BLOCK_N / CHUNK)
#define A_STRIDE (A_CHUNKS + (SWIZZLE ? 0 : 1)) // Chunks from row to row in shared memory.
#define B_STRIDE (B_CHUNKS + (SWIZZLE ? 0 : 1))
#define A_BYTES (BLOCK_M * A_STRIDE * 16)
#define B_BYTES (BLOCK_K * B_STRIDE * 16)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define SHARED_BYTES (STAGES * STAGE_BYTES)
#define A_ROWS_PER_PASS (THREADS / A_CHUNKS) // A pass is one chunk per thread.
#define B_ROWS_PER_PASS (THREADS / B_CHUNKS)
#define A_PASSES (BLOCK_M / A_ROWS_PER_PASS)
#define B_PASSES (BLOCK_K / B_ROWS_PER_PASS)
#define C_STRIDE (WARP_N / CHUNK + 1) // Chunks from row to row where a warp lines up 16 rows of C.

static_assert(BLOCK_M == 64 || BLOCK_M == 128 || BLOCK_M == 256, "BLOCK_M must be 64, 128 or 256");
static_assert(BLOCK_N == 64 || BLOCK_N == 128 || BLOCK_N == 256, "BLOCK_N must be 64, 128 or 256: swizzling B needs "
                                                                 "rows of 8 chunks or more");
static_assert(BLOCK_K == 32 || BLOCK_K == 64, "BLOCK_K must be 32 or 64: two slices at least, and a_place knows these");
static_assert(WARPS_M >= 1 && WARPS_N >= 1 && THREADS <= 1024, "a block has at most 1024 threads");
static_assert(WARP_M * WARPS_M == BLOCK_M && WARP_M % 16 == 0, "each warp needs whole tiles of 16 rows");
static_assert(WARP_N * WARPS_N == BLOCK_N && WARP_N % 16 == 0, "each warp needs whole pairs of 8 columns");
static_assert(WARP_M * WARP_N / 32 <= 128, "a thread has room for 128 sums");
static_assert(STAGES >= 2 && STAGES <= 8, "STAGES must be between 2 and 8");
static_assert(SWIZZLE == 0 || SWIZZLE == 1, "SWIZZLE must be 0 or 1");
static_assert(GROUP_M >= 1, "GROUP_M must be at least 1");
static_assert(THREADS % A_CHUNKS == 0 && A_PASSES * A_ROWS_PER_PASS == BLOCK_M, "threads must divide the chunks of A");
static_assert(THREADS % B_CHUNKS == 0 && B_PASSES * B_ROWS_PER_PASS == BLOCK_K, "threads must divide the chunks of B");
static_assert(A_PASSES <= 32, "one bit per pass says whether its row exists");
static_assert(WARPS_M * WARPS_N * 16 * C_STRIDE * 16 <= SHARED_BYTES, "C is lined up in the memory of the stages");
static_assert(SHARED_BYTES <= 232448, "no device has more than 227 KiB of shared memory per block");

typedef unsigned short half_bits; // f16 is moved and multiplied here, never computed with.

extern __shared__ __align__(128) unsigned char shared_memory[];

static __device__ unsigned shared_address(const void *pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

static __device__ bool is_aligned(const void *pointer)
{
    return reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

// Copies 16 bytes behind the threads' backs, or writes zeros and reads nothing when `exists` is false.
static __device__ void copy_async(unsigned destination, const half_bits *source, bool exists)
{
    const int bytes = exists ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(bytes)
                 : "memory");
}

static __device__ void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most PENDING of this thread's commits are unfinished.
template <int PENDING> static __device__ void await_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
static __device__ void load_matrices(unsigned (&to)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

static __device__ void load_matrices_transposed(unsigned (&to)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

static __device__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two f16 in a word, the first in the low half.
static __device__ unsigned to_halves(float first, float second)
{
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

// Where chunk `chunk` of a row lies, in chunks from the start of the tile. Eight rows read at one chunk by ldmatrix,
// and eight neighbouring chunks written by cp.async, must fall into different 16-byte columns of a 128-byte line. With
// BLOCK_K = 32 a row of A is half a line, so there the two rows of a line get the same permutation of their halves.
static __device__ int a_place(int row, int chunk)
{
    const int permuted = BLOCK_K == 64 ? chunk ^ row % 8 : chunk ^ row / 2 % 4;
    return row * A_STRIDE + (SWIZZLE ? permuted : chunk);
}

static __device__ int b_place(int row, int chunk)
{
    return row * B_STRIDE + (SWIZZLE ? chunk ^ row % 8 : chunk);
}

// Operands of one slice, 16 deep, of a warp's tile.
struct Slice {
    unsigned a[TILES_M][4];
    unsigned b[TILES_N][4]; // [0] and [1] are for the first 8 columns, [2] and [3] for the next.
};

static __device__ void load_slice(Slice &to, unsigned stage, int slice)
{
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int row = warp / WARPS_N * WARP_M + lane % 16;
    const int column_chunk = warp % WARPS_N * (WARP_N / CHUNK) + lane / 16;
#pragma unroll
    for (int m = 0; m < TILES_M; m++)
        load_matrices(to.a[m], stage + a_place(row + 16 * m, 2 * slice + lane / 16) * 16);
#pragma unroll
    for (int n = 0; n < TILES_N; n++)
        load_matrices_transposed(to.b[n],
                                 stage + A_BYTES + b_place(16 * slice + lane % 16, column_chunk + 2 * n) * 16);
}

static __device__ void multiply_slice(float (&sums)[TILES_M][2 * TILES_N][4], const Slice &slice)
{
#pragma unroll
    for (int m = 0; m < TILES_M; m++) {
#pragma unroll
        for (int n = 0; n < 2 * TILES_N; n++)
            multiply_add(sums[m][n], slice.a[m], slice.b[n / 2][n % 2 * 2], slice.b[n / 2][n % 2 * 2 + 1]);
    }
}

// What one thread copies. Its chunks all lie in one column of chunks of A and in one of B.
struct Copier {
    const half_bits *a; // The thread's first chunk of the next step.
    const half_bits *b;
    long long a_pass; // From pass to pass, in halves.
    long long b_pass;
    int a_depth;     // Where along K the next chunks of A lie.
    int b_depth;     // Where along K the row of the first chunk of B lies.
    unsigned a_rows; // Bit p: the row of pass p exists.
    bool b_column;   // The column of the chunks of B exists.
    int a_shared;    // Bytes from the start of a stage.
    int b_shared;

    __device__ Copier(const half_bits *A, const half_bits *B, int M, int N, int K, int first_row, int first_column)
    {
        const int a_row = threadIdx.x / A_CHUNKS, a_chunk = threadIdx.x % A_CHUNKS;
        const int b_row = threadIdx.x / B_CHUNKS, b_chunk = threadIdx.x % B_CHUNKS;
        a = A + static_cast<long long>(first_row + a_row) * K + a_chunk * CHUNK;
        b = B + static_cast<long long>(b_row) * N + first_column + b_chunk * CHUNK;
        a_pass = static_cast<long long>(A_ROWS_PER_PASS) * K;
        b_pass = static_cast<long long>(B_ROWS_PER_PASS) * N;
        a_depth = a_chunk * CHUNK;
        b_depth = b_row;
        a_rows = 0;
#pragma unroll
        for (int p = 0; p < A_PASSES; p++)
            a_rows |= static_cast<unsigned>(first_row + a_row + p * A_ROWS_PER_PASS < M) << p;
        b_column = first_column + b_chunk * CHUNK < N;
        // The permutation repeats every 8 rows, so for most geometries passes lie a constant distance apart.
        a_shared = a_place(a_row, a_chunk) * 16;
        b_shared = A_BYTES + b_place(b_row, b_chunk) * 16;
    }

    __device__ void copy_a(unsigned stage, int K)
    {
        const int a_row = threadIdx.x / A_CHUNKS, a_chunk = threadIdx.x % A_CHUNKS;
#pragma unroll
        for (int p = 0; p < A_PASSES; p++) {
            const int place = A_ROWS_PER_PASS % 8 == 0 ? a_shared + p * A_ROWS_PER_PASS * A_STRIDE * 16
                                                       : a_place(a_row + p * A_ROWS_PER_PASS, a_chunk) * 16;
            copy_async(stage + place, a + p * a_pass, (a_rows >> p & 1) != 0 && a_depth < K);
        }
        a += BLOCK_K;
        a_depth += BLOCK_K;
    }

    __device__ void copy_b(unsigned stage, int K)
    {
        const int b_row = threadIdx.x / B_CHUNKS, b_chunk = threadIdx.x % B_CHUNKS;
#pragma unroll
        for (int p = 0; p < B_PASSES; p++) {
            const int place = B_ROWS_PER_PASS % 8 == 0
                                  ? b_shared + p * B_ROWS_PER_PASS * B_STRIDE * 16
                                  : A_BYTES + b_place(b_row + p * B_ROWS_PER_PASS, b_chunk) * 16;
            copy_async(stage + place, b + p * b_pass, b_column && b_depth + p * B_ROWS_PER_PASS < K);
        }
        b += B_PASSES * b_pass;
        b_depth += BLOCK_K;
    }
};

// The sums of a tile when rows of A and B are whole chunks.
static __device__ void multiply_pipelined(float (&sums)[TILES_M][2 * TILES_N][4], const half_bits *A,
                                          const half_bits *B, int M, int N, int K, int first_row, int first_column)
{
    const unsigned shared = shared_address(shared_memory);
    const int steps = (K + BLOCK_K - 1) / BLOCK_K;
    Copier copier(A, B, M, N, K, first_row, first_column);

    // Past the end of K nothing is copied, but groups are committed all the same: awaiting counts groups, not steps.
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            copier.copy_a(shared + s * STAGE_BYTES, K);
            copier.copy_b(shared + s * STAGE_BYTES, K);
        }
        commit_copies();
    }
    await_copies<STAGES - 2>();
    __syncthreads();

    Slice slices[2]; // One is multiplied while the other is loaded.
    unsigned reading = shared;
    unsigned writing = shared + (STAGES - 1) * STAGE_BYTES;
    load_slice(slices[0], reading, 0);

#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        const bool more = step + STAGES - 1 < steps;
#pragma unroll
        for (int s = 0; s < SLICES; s++) {
            if (s == SLICES - 1) {
                // The next slice is the first of the next step: its copies must have landed, everybody's. Behind this
                // barrier nobody reads the stage just used up any more, and the next step's copies go there.
                await_copies<STAGES - 2>();
                __syncthreads();
                reading += STAGE_BYTES;
                if (reading == shared + SHARED_BYTES)
                    reading = shared;
            }
            // After the last step this loads what nobody will use.
            load_slice(slices[(s + 1) % 2], reading, (s + 1) % SLICES);
            if (s == 0 && more)
                copier.copy_a(writing, K);
            if (s == (SLICES > 2 ? 1 : 0)) {
                if (more)
                    copier.copy_b(writing, K);
                commit_copies();
                writing += STAGE_BYTES;
                if (writing == shared + SHARED_BYTES)
                    writing = shared;
            }
            multiply_slice(sums, slices[s % 2]);
        }
    }
}

// Up to eight halves from `source`, zeros after them.
static __device__ uint4 load_chunk(const half_bits *source, int count)
{
    unsigned words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        if (i < count)
            words[i / 2] |= static_cast<unsigned>(source[i]) << i % 2 * 16;
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// The sums of a tile for any K, N and alignment: one stage, no overlap.
static __device__ void multiply_plainly(float (&sums)[TILES_M][2 * TILES_N][4], const half_bits *A, const half_bits *B,
                                        int M, int N, int K, int first_row, int first_column)
{
    uint4 *const a_tile = reinterpret_cast<uint4 *>(shared_memory);
    uint4 *const b_tile = reinterpret_cast<uint4 *>(shared_memory + A_BYTES);
#pragma unroll 1
    for (int k = 0; k < K; k += BLOCK_K) {
#pragma unroll 1
        for (int i = threadIdx.x; i < BLOCK_M * A_CHUNKS; i += THREADS) {
            const int row = i / A_CHUNKS, chunk = i % A_CHUNKS, depth = k + chunk * CHUNK;
            const int count = first_row + row < M ? K - depth : 0;
            a_tile[a_place(row, chunk)] = load_chunk(A + static_cast<long long>(first_row + row) * K + depth, count);
        }
#pragma unroll 1
        for (int i = threadIdx.x; i < BLOCK_K * B_CHUNKS; i += THREADS) {
            const int row = i / B_CHUNKS, chunk = i % B_CHUNKS, column = first_column + chunk * CHUNK;
            const int count = k + row < K ? N - column : 0;
            b_tile[b_place(row, chunk)] = load_chunk(B + static_cast<long long>(k + row) * N + column, count);
        }
        __syncthreads();
#pragma unroll 1
        for (int s = 0; s < SLICES; s++) {
            Slice slice;
            load_slice(slice, shared_address(shared_memory), s);
            multiply_slice(sums, slice);
        }
        __syncthreads();
    }
}

// Writes a warp's sums as f16. A thread holds pairs of neighbours scattered over the tile; each warp lines 16 rows up
// in its own piece of shared memory, so that whole 16-byte chunks of a row go out together.
static __device__ void store(half_bits *C, int M, int N, int first_row, int first_column,
                             const float (&sums)[TILES_M][2 * TILES_N][4])
{
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const bool whole_chunks = N % CHUNK == 0 && is_aligned(C);
    uint4 *const lines = reinterpret_cast<uint4 *>(shared_memory) + warp * 16 * C_STRIDE;
    first_row += warp / WARPS_N * WARP_M;
    first_column += warp % WARPS_N * WARP_N;
    __syncthreads(); // The last slices are read.
#pragma unroll
    for (int m = 0; m < TILES_M; m++) {
#pragma unroll
        for (int n = 0; n < 2 * TILES_N; n++) {
            unsigned *const upper = reinterpret_cast<unsigned *>(lines + lane / 4 * C_STRIDE + n) + lane % 4;
            unsigned *const lower = reinterpret_cast<unsigned *>(lines + (lane / 4 + 8) * C_STRIDE + n) + lane % 4;
            *upper = to_halves(sums[m][n][0], sums[m][n][1]);
            *lower = to_halves(sums[m][n][2], sums[m][n][3]);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < TILES_N; i++) {
            const int chunk = (lane + 32 * i) % (WARP_N / CHUNK);
            const int line = (lane + 32 * i) / (WARP_N / CHUNK);
            const int row = first_row + 16 * m + line, column = first_column + chunk * CHUNK;
            const uint4 found = lines[line * C_STRIDE + chunk];
            half_bits *const to = C + static_cast<long long>(row) * N + column;
            if (row < M && column + CHUNK <= N && whole_chunks) {
                *reinterpret_cast<uint4 *>(to) = found;
            } else if (row < M) {
                const unsigned words[4] = {found.x, found.y, found.z, found.w};
#pragma unroll
                for (int j = 0; j < CHUNK; j++)
                    if (column + j < N)
                        to[j] = static_cast<half_bits>(words[j / 2] >> j % 2 * 16);
            }
        }
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const half_bits *__restrict__ A, const half_bits *__restrict__ B, half_bits *__restrict__ C, int M, int N, int K)
{
    // Tiles are numbered down GROUP_M rows first, then along.
    const int tiles_m = (M + BLOCK_M - 1) / BLOCK_M;
    const int tiles_n = (N + BLOCK_N - 1) / BLOCK_N;
    const int tile = blockIdx.x;
    const int group_row = tile / (GROUP_M * tiles_n) * GROUP_M;
    const int group_rows = tiles_m - group_row < GROUP_M ? tiles_m - group_row : GROUP_M;
    const int in_group = tile % (GROUP_M * tiles_n);
    const int first_row = (group_row + in_group % group_rows) * BLOCK_M;
    const int first_column = in_group / group_rows * BLOCK_N;

    float sums[TILES_M][2 * TILES_N][4] = {};
    if (K % CHUNK == 0 && N % CHUNK == 0 && is_aligned(A) && is_aligned(B))
        multiply_pipelined(sums, A, B, M, N, K, first_row, first_column);
    else
        multiply_plainly(sums, A, B, M, N, K, first_row, first_column);
    store(C, M, N, first_row, first_column, sums);
}
