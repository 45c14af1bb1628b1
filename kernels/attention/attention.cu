// Attention forward, softmax(scale Q K^T) V, without ever storing the scores: for tensor cores of sm_80 and up.
//
// Q is [B][H][S][D], K and V are [B][H_KV][S_KV][D], O is like Q; H is a multiple of H_KV, and neighbouring heads of Q
// share one of K and V. Strides are in elements and free, but for the innermost, which is 1: what PyTorch gives. With
// HALF2 = 0 pointers must be aligned to 16 bytes and strides be multiples of 8; with HALF2 = 1, 4 bytes and multiples
// of 2. With CAUSAL, query i sees key j when j <= i + diagonal: 0 is what PyTorch's `is_causal` means, S_KV - S aligns
// the ends, as when the keys are a cache that the queries were just added to. A query that sees no key yields zeros.
// `scale` must be above 0. Any B, H, S and S_KV from 1 are right.
//
// A block owns BLOCK_M queries of one head and walks along the keys, BLOCK_N at a time. Each warp has whole rows of
// scores, so that the softmax needs no shared memory, and scores never leave the registers: as accumulators of the
// first product they lie just as the left operand of the second one must.
//
// Launch: [T, H, B] blocks, or [H, B, T] with ORDER = 2, where T = ceil(S / BLOCK_M) * GRID_SPLIT; with PACK_GQA H_KV
// takes the place of H and S * H / H_KV that of S. 32 * NUM_WARPS threads, SHARED_BYTES of dynamic shared memory.

// --- What the problem is. ---
#ifndef HEAD_DIM // D.
#define HEAD_DIM 64
#endif
#ifndef CAUSAL // 1: queries see only keys up to the diagonal.
#define CAUSAL 0
#endif
#ifndef BF16 // 1: Q, K, V and O are bf16. 0: f16.
#define BF16 0
#endif
#ifndef KV_INT8 // 1: K and V are int8 with an f32 factor per key, [B][H_KV][S_KV], and become f16 or bf16 on loading.
#define KV_INT8 0
#endif

#ifndef WORKSPACE // 1: the entry takes memory in which blocks meet, as GRID_SPLIT above 1 needs.
#define WORKSPACE (GRID_SPLIT > 1)
#endif

// --- How it is solved. ---
#ifndef BLOCK_M // Queries per block.
#define BLOCK_M 128
#endif
#ifndef BLOCK_N // Keys per step.
#define BLOCK_N 64
#endif
#ifndef BLOCK_K // Width of the slices that tiles are cut into in shared memory; products run slice after slice.
#define BLOCK_K HEAD_DIM
#endif
#ifndef NUM_WARPS
#define NUM_WARPS 4
#endif
#ifndef STAGES // Tiles of K, and of V, held at once. With 1, keys are loaded under one product, values under the other.
#define STAGES 2
#endif
#ifndef UNROLL // Steps per turn of the loop.
#define UNROLL 1
#endif
#ifndef CP_ASYNC // 1: tiles are copied behind the threads' backs. 0: through registers.
#define CP_ASYNC 1
#endif
#ifndef SWIZZLE // Against bank conflicts. 1: 16-byte chunks are permuted in their row. 0: rows are padded by 16 bytes.
#define SWIZZLE 1
#endif
#ifndef HALF2 // Width of accesses to global memory. 1: two halves. 0: eight.
#define HALF2 0
#endif
#ifndef Q_IN_REGISTERS // 1: queries are loaded once. 0: at every step, which frees HEAD_DIM / 4 registers per row tile.
#define Q_IN_REGISTERS 1
#endif
#ifndef SPLIT // Groups of warps that share the keys of a step and the same queries; merged at the end.
#define SPLIT 1
#endif
#ifndef GRID_SPLIT // Blocks that share the keys of the same queries; the last to finish merges them.
#define GRID_SPLIT 1
#endif
#ifndef PACK_GQA // 1: query heads that share keys are rows of one tile, so that these are loaded once for all of them.
#define PACK_GQA 0
#endif
#ifndef LAZY_RESCALE // Sums are rescaled when a row's maximum grew by more than this many powers of two.
#define LAZY_RESCALE 0
#endif
#ifndef KV_GROUPS // 2: values are awaited after the scores. 1: together with the keys, which saves a barrier.
#define KV_GROUPS (STAGES == 1 ? 2 : 1)
#endif
#ifndef INTERLEAVE // 1: exponentials are taken 16 keys at a time between products. 0: all before the second product.
#define INTERLEAVE 1
#endif
#ifndef LATE_LOADS // 1: a step asks for later keys and values after its first scores, under the tensor cores' work.
#define LATE_LOADS 0
#endif
#ifndef OVERLAP // 1: scores of the next step are found before the weights of this one, so that both units have work.
#define OVERLAP 0
#endif
#ifndef ORDER // Of tiles. 0: a head's together. 1: likewise, last queries first. 2: last queries of all heads first.
#define ORDER 0
#endif
#ifndef ROUNDS // Of scores, weights and sums in a step: a tile may hold more keys than there are registers for scores.
#define ROUNDS 1
#endif
#ifndef SUM_BY_PRODUCT // 1: weights are summed by the tensor cores, as a product with ones. 0: by additions.
#define SUM_BY_PRODUCT 0
#endif
#ifndef MIN_BLOCKS // Blocks per multiprocessor that the compiler makes room for in registers.
#define MIN_BLOCKS 1
#endif

// --- What `kiln profile` leaves out, one at a time, to see what it costs. ---
#ifndef NO_LOADS // 1: nothing is copied from global to shared memory; whatever lies there is computed with.
#define NO_LOADS 0
#endif
#ifndef NO_EXPONENTIALS // 1: a power of two is its exponent.
#define NO_EXPONENTIALS 0
#endif
#ifndef NO_PRODUCTS // 1: operands are loaded, a few are added, and nothing is multiplied.
#define NO_PRODUCTS 0
#endif

#define THREADS (32 * NUM_WARPS)
#define WARPS_M (NUM_WARPS / SPLIT)              // Warps with queries of their own.
#define ROW_TILES (BLOCK_M / (16 * WARPS_M))     // Of 16 queries, per warp.
#define WARP_ROWS (16 * ROW_TILES)
#define WARP_KEYS (BLOCK_N / (SPLIT * ROUNDS))   // Keys of a round that one warp sees.
#define KEY_SLICES (WARP_KEYS / 16)
#define DEPTH_SLICES (HEAD_DIM / 16)
#define SLICES (HEAD_DIM / BLOCK_K)
#define CHUNK 8                                  // Halves in 16 bytes, one row of an 8 x 8 matrix of ldmatrix.
#define SLICE_CHUNKS (BLOCK_K / CHUNK)
#define ROW_CHUNKS (HEAD_DIM / CHUNK)
#define ROW_BYTES (2 * BLOCK_K + (SWIZZLE ? 0 : 16))
#define Q_BYTES (SLICES * BLOCK_M * ROW_BYTES)
#define KV_BYTES (SLICES * BLOCK_N * ROW_BYTES)
#define STAGE_BYTES (2 * KV_BYTES)
#define PARTIALS (ROW_TILES * (HEAD_DIM / 2 + 4)) // Floats per thread that describe what it has so far.
#define MEMBERS (32 * WARPS_M)                    // Threads of one group of warps.
#define MERGE_BYTES (SPLIT > 1 ? PARTIALS * 32 * WARPS_M * 4 : 0)
#define TILES_BYTES (STAGES * STAGE_BYTES > MERGE_BYTES ? STAGES * STAGE_BYTES : MERGE_BYTES)
#define SHARED_BYTES (Q_BYTES + TILES_BYTES)

static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "HEAD_DIM must be 64 or 128: other widths are not laid out here");
static_assert(BLOCK_K == 32 || BLOCK_K == 64 || BLOCK_K == 128, "BLOCK_K must be 32, 64 or 128: `place` knows these");
static_assert(SLICES * BLOCK_K == HEAD_DIM, "BLOCK_K must divide HEAD_DIM");
static_assert(NUM_WARPS >= 1 && NUM_WARPS <= 16, "NUM_WARPS must be between 1 and 16");
static_assert(SPLIT >= 1 && WARPS_M * SPLIT == NUM_WARPS, "SPLIT must divide NUM_WARPS");
static_assert(ROW_TILES >= 1 && ROW_TILES * 16 * WARPS_M == BLOCK_M, "each warp needs whole tiles of 16 queries");
static_assert(ROW_TILES <= 4, "a warp has registers for at most 4 tiles of 16 queries");
static_assert(ROUNDS >= 1 && (ROUNDS == 1 || KV_GROUPS == 1), "with KV_GROUPS of 2 keys are done with after one round");
static_assert(KEY_SLICES >= 1 && KEY_SLICES * 16 * SPLIT * ROUNDS == BLOCK_N,
              "each warp needs whole slices of 16 keys");
static_assert(ROW_TILES * (WARP_KEYS + HEAD_DIM) / 2 <= 224, "scores and sums of a thread must fit its 255 registers");
static_assert(STAGES >= 1 && STAGES <= 8, "STAGES must be between 1 and 8");
static_assert(UNROLL >= 1 && UNROLL <= 8, "UNROLL must be between 1 and 8");
static_assert((CP_ASYNC == 0 || CP_ASYNC == 1) && (SWIZZLE == 0 || SWIZZLE == 1) && (HALF2 == 0 || HALF2 == 1) &&
                  (Q_IN_REGISTERS == 0 || Q_IN_REGISTERS == 1) && (INTERLEAVE == 0 || INTERLEAVE == 1) &&
                  (CAUSAL == 0 || CAUSAL == 1) && (BF16 == 0 || BF16 == 1) && (KV_INT8 == 0 || KV_INT8 == 1),
              "switches must be 0 or 1");
static_assert(LAZY_RESCALE >= 0 && LAZY_RESCALE <= 10,
              "weights reach 2^LAZY_RESCALE and must stay far below f16's 2^16");
static_assert(KV_GROUPS == 1 || KV_GROUPS == 2, "KV_GROUPS must be 1 or 2");
static_assert(KV_GROUPS == 2 || STAGES > 1, "with one stage values are awaited after the scores: KV_GROUPS is 2");
static_assert(LATE_LOADS == 0 || (LATE_LOADS == 1 && STAGES > 1), "LATE_LOADS must be 0, or 1 with STAGES above 1");
static_assert(OVERLAP == 0 || OVERLAP == 1, "OVERLAP must be 0 or 1");
static_assert(!OVERLAP || (STAGES > 2 && KV_GROUPS == 1),
              "OVERLAP reads the keys of two steps: it needs STAGES above 2 and KV_GROUPS of 1");
static_assert(SUM_BY_PRODUCT == 0 || SUM_BY_PRODUCT == 1, "SUM_BY_PRODUCT must be 0 or 1");
static_assert(ORDER >= 0 && ORDER <= 2, "ORDER must be 0, 1 or 2");
static_assert(GRID_SPLIT >= 1 && GRID_SPLIT <= 64, "GRID_SPLIT must be between 1 and 64");
static_assert(!KV_INT8 || !CP_ASYNC, "int8 is converted on its way through registers: CP_ASYNC must be 0");
static_assert(!KV_INT8 || !HALF2, "int8 is loaded eight at a time: HALF2 must be 0");
static_assert(GRID_SPLIT == 1 || WORKSPACE, "GRID_SPLIT above 1 needs WORKSPACE");
static_assert(PACK_GQA == 0 || PACK_GQA == 1, "PACK_GQA must be 0 or 1");
static_assert(MIN_BLOCKS >= 1 && MIN_BLOCKS * THREADS <= 2048, "a multiprocessor has room for 2048 threads");
static_assert(SHARED_BYTES <= 232448, "no device has more than 227 KiB of shared memory per block");

typedef unsigned short half_bits; // f16 or bf16, which are moved and multiplied here and never computed with.
#if KV_INT8
typedef signed char kv_element;
#else
typedef half_bits kv_element;
#endif

#define UNROLLED_PASSES (HALF2 ? 8 : 64) // Narrow accesses are many: unrolled, they would be most of the code.
#define UNROLLED_BATCHES (HALF2 ? 2 : 16)
#define DEVICE static __device__ __forceinline__
#define ONES (BF16 ? 0x3F803F80 : 0x3C003C00) // Two of them.
#define MINUS_INFINITY __int_as_float(0xFF800000)

extern __shared__ __align__(1024) unsigned char shared_memory[];

// --- Instructions. ---

DEVICE unsigned shared_base()
{
    return static_cast<unsigned>(__cvta_generic_to_shared(shared_memory));
}

// Copies 16 or 4 bytes behind the thread's back, or writes zeros and reads nothing when `exists` is false.
DEVICE void copy_async_16(unsigned to, const void *from, bool exists)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0)
                 : "memory");
}

DEVICE void copy_async_4(unsigned to, const void *from, bool exists)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(exists ? 4 : 0) : "memory");
}

DEVICE void commit_copies()
{
#if CP_ASYNC
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most PENDING of this thread's commits are unfinished.
template <int PENDING> DEVICE void await_copies()
{
#if CP_ASYNC
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

DEVICE uint4 load_global_16(const void *from)
{
    uint4 x;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(from));
    return x;
}

DEVICE uint2 load_global_8(const void *from)
{
    uint2 x;
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(from));
    return x;
}

DEVICE unsigned load_global_4(const void *from)
{
    unsigned x;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(x) : "l"(from));
    return x;
}

// Of what never changes while the kernel runs.
DEVICE float load_global_float(const float *from)
{
    float x;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(x) : "l"(from));
    return x;
}

// Of what another block may have written: from the L2 cache.
DEVICE float load_global_float_coherent(const float *from)
{
    float x;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
    return x;
}

DEVICE void store_global_float(float *to, float x)
{
    asm volatile("st.global.cg.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}

DEVICE void store_global_16(void *to, uint4 x)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
}

DEVICE void store_global_4(void *to, unsigned x)
{
    asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}

DEVICE uint4 load_shared_16(unsigned from)
{
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(from)
                 : "memory");
    return x;
}

DEVICE unsigned load_shared_4(unsigned from)
{
    unsigned x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(from) : "memory");
    return x;
}

DEVICE float load_shared_float(unsigned from)
{
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}

DEVICE void store_shared_float(unsigned to, float x)
{
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory");
}

DEVICE void store_shared_16(unsigned to, uint4 x)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
}

DEVICE void store_shared_4(unsigned to, unsigned x)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(x) : "memory");
}

// Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
DEVICE void load_matrices(unsigned (&to)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

DEVICE void load_matrices_transposed(unsigned (&to)[4], unsigned address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

#if BF16
#define OPERAND "bf16"
#else
#define OPERAND "f16"
#endif

DEVICE void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    if (NO_PRODUCTS)
        return;
    asm("mma.sync.aligned.m16n8k16.row.col.f32." OPERAND "." OPERAND ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two f16 or bf16 in a word, the first in the low half.
DEVICE unsigned to_halves(float first, float second)
{
    unsigned word;
    asm("cvt.rn." OPERAND "x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
    return word;
}

DEVICE float reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEVICE float power_of_two(float x)
{
    if (NO_EXPONENTIALS)
        return x;
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// --- Tiles in shared memory. ---

// Bytes from the start of a tile of ROWS rows to 16-byte chunk `chunk` of row `row`. Eight rows read at one chunk by
// ldmatrix, and eight neighbouring chunks written, must fall into different 16-byte columns of a 128-byte line. A row
// of BLOCK_K = 32 is half a line, so there the two rows of a line get the same permutation.
template <int ROWS> DEVICE unsigned place(int row, int chunk)
{
    const int slice = chunk / SLICE_CHUNKS, column = chunk % SLICE_CHUNKS;
    const int permuted = !SWIZZLE ? column : SLICE_CHUNKS == 4 ? column ^ row / 2 % 4 : column ^ row % 8;
    return (slice * ROWS + row) * ROW_BYTES + permuted * 16;
}

// The address of the 16 halves at depth 16 * k, given that of this lane's chunk at depth 0. Permuting by exclusive or,
// the way to the next pair of chunks is the same for all rows; tiles start at multiples of 128 bytes.
template <int ROWS> DEVICE unsigned at_depth(unsigned address, int k)
{
    const int slice = k / (SLICE_CHUNKS / 2), column = k % (SLICE_CHUNKS / 2);
    return (SWIZZLE ? address ^ 32 * column : address + 32 * column) + slice * ROWS * ROW_BYTES;
}

// How a block's threads share the accesses to a tile of ROWS rows, WIDTH elements each. A pass is one access per
// thread; from pass to pass a thread stays in its column.
template <int ROWS, int WIDTH> struct Share {
    static constexpr int PER_ROW = HEAD_DIM / WIDTH, ROWS_PER_PASS = THREADS / PER_ROW;
    static constexpr int PASSES = (ROWS + ROWS_PER_PASS - 1) / ROWS_PER_PASS;
    static constexpr int BATCH = PASSES < 4 ? PASSES : 4; // Loads under way at once, where they go through registers.
    static_assert(ROWS_PER_PASS * PER_ROW == THREADS, "threads must share a row evenly: more warps, or HALF2 of 0");

    DEVICE int row(int pass) { return threadIdx.x / PER_ROW + pass * ROWS_PER_PASS; }
    DEVICE int column() { return threadIdx.x % PER_ROW * WIDTH; }
    // Threads may be left over in the last pass.
    DEVICE bool exists(int pass) { return pass < PASSES && (ROWS % ROWS_PER_PASS == 0 || row(pass) < ROWS); }
    DEVICE unsigned offset(int pass)
    {
        return place<ROWS>(row(pass), column() / CHUNK) + column() % CHUNK * 2;
    }
};

// Loads rows `first` and on of `count` into a tile of ROWS; what lies beyond the end becomes zeros. `source(pass)` is
// where this thread's access of that pass lies.
template <int ROWS, typename Source>
DEVICE void load_passes(unsigned tile, int first, int count, Source source)
{
    typedef Share<ROWS, HALF2 ? 2 : CHUNK> Part;
    const int left = count - first;
    if (NO_LOADS)
        return;
#if CP_ASYNC
#pragma unroll UNROLLED_PASSES
    for (int pass = 0; pass < Part::PASSES; pass++) {
        const half_bits *const from = source(pass);
        if (Part::exists(pass) && HALF2)
            copy_async_4(tile + Part::offset(pass), from, Part::row(pass) < left);
        else if (Part::exists(pass))
            copy_async_16(tile + Part::offset(pass), from, Part::row(pass) < left);
    }
#else
#pragma unroll UNROLLED_BATCHES
    for (int pass = 0; pass < Part::PASSES; pass += Part::BATCH) {
        uint4 held[Part::BATCH];
#pragma unroll
        for (int i = 0; i < Part::BATCH; i++) {
            const half_bits *const from = source(pass + i);
            held[i] = make_uint4(0, 0, 0, 0);
            if (Part::exists(pass + i) && Part::row(pass + i) < left) {
                if (HALF2)
                    held[i].x = load_global_4(from);
                else
                    held[i] = load_global_16(from);
            }
        }
#pragma unroll
        for (int i = 0; i < Part::BATCH; i++) {
            if (Part::exists(pass + i) && HALF2)
                store_shared_4(tile + Part::offset(pass + i), held[i].x);
            else if (Part::exists(pass + i))
                store_shared_16(tile + Part::offset(pass + i), held[i]);
        }
    }
#endif
}

// Rows of one stride.
template <int ROWS>
DEVICE void load_tile(unsigned tile, const half_bits *from, long long stride, int first,
                                                 int count)
{
    typedef Share<ROWS, HALF2 ? 2 : CHUNK> Part;
    const half_bits *next = from + (first + Part::row(0)) * stride + Part::column();
    const long long pass_stride = Part::ROWS_PER_PASS * stride;
    load_passes<ROWS>(tile, first, count, [&](int) {
        const half_bits *const here = next;
        next += pass_stride;
        return here;
    });
}

// --- The parts of a step. ---

struct Matrix { // One head.
    const kv_element *elements;
    const float *factors; // Of int8 rows.
    long long stride;     // From row to row.
};

struct Problem {
    Matrix keys, values;
    const half_bits *queries;
    long long query_stride, head_stride;
    int row_count, key_count; // A row is a query of one head.
    int group;                // With PACK_GQA: heads that share keys; their rows for one query lie together.
    int diagonal;
    float scale; // Of scores, in powers of two.
};

// What a warp knows about its queries. A thread holds parts of two rows of every tile of 16, lane / 4 and
// lane / 4 + 8; [2] is those.
struct Rows {
    unsigned queries[DEPTH_SLICES][ROW_TILES][4];
    float out[ROW_TILES][HEAD_DIM / 8][4];
    float largest[ROW_TILES][2]; // Score that weights are relative to.
    float sum[ROW_TILES][2];     // Of this thread's weights, or after the last step of all.
    float product[ROW_TILES][4]; // With SUM_BY_PRODUCT: of weights and ones; 0 and 2 are the sums of the two rows.
};

DEVICE int query_of(const Problem &problem, int row)
{
    return PACK_GQA ? row / problem.group : row;
}

// Elements from the first row to another, in Q or O.
DEVICE long long row_offset(const Problem &problem, long long query_stride, long long head_stride, int row)
{
    const int query = query_of(problem, row);
    return query * query_stride + (PACK_GQA ? (row - query * problem.group) * head_stride : 0);
}

typedef float Scores[ROW_TILES][2 * KEY_SLICES][4];

DEVICE int lane_index() { return threadIdx.x % 32; }
DEVICE int warp_row() { return threadIdx.x / 32 % WARPS_M * WARP_ROWS; }
// First key of a warp in a round, counted from the first of the step.
DEVICE int warp_key(int round) { return (round * SPLIT + threadIdx.x / 32 / WARPS_M) * WARP_KEYS; }

// The chunk of queries that this lane's row of ldmatrix starts at.
DEVICE unsigned query_address(unsigned tile, int row_tile)
{
    const int lane = lane_index();
    return tile + place<BLOCK_M>(warp_row() + 16 * row_tile + lane % 16, lane / 16);
}

DEVICE void load_queries(Rows &rows, unsigned tile)
{
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
        const unsigned address = query_address(tile, t);
#pragma unroll
        for (int k = 0; k < DEPTH_SLICES; k++)
            load_matrices(rows.queries[k][t], at_depth<BLOCK_M>(address, k));
    }
}

// Queries times keys, of one round.
DEVICE void find_scores(Scores &scores, const Rows &rows, unsigned query_tile, unsigned key_tile, int round)
{
    const int lane = lane_index();
    const unsigned address = key_tile + place<BLOCK_N>(warp_key(round) + lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
        for (int n = 0; n < 2 * KEY_SLICES; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                scores[t][n][i] = 0.0f;
        }
    }
    const auto multiply = [&](int n, int k, const unsigned(&a)[ROW_TILES][4]) {
        unsigned b[4];
        load_matrices(b, at_depth<BLOCK_N>(address, k) + n * 16 * ROW_BYTES);
#pragma unroll
        for (int t = 0; t < ROW_TILES; t++) {
            multiply_add(scores[t][2 * n], a[t], b[0], b[1]);
            multiply_add(scores[t][2 * n + 1], a[t], b[2], b[3]);
            if (NO_PRODUCTS) { // Scores that differ, so that no exponential serves for another, from all that was loaded.
                const float first = __uint_as_float(b[k % 2] ^ (n == 0 ? a[t][k % 4] : 0));
                const float second = __uint_as_float(b[2 + k % 2]);
                scores[t][2 * n][k % 4] = k < 4 ? first : scores[t][2 * n][k % 4] + first;
                scores[t][2 * n + 1][k % 4] = k < 4 ? second : scores[t][2 * n + 1][k % 4] + second;
            }
        }
    };
    if (!Q_IN_REGISTERS) { // Along the keys first, so that few queries are held at a time.
#pragma unroll
        for (int k = 0; k < DEPTH_SLICES; k++) {
            unsigned a[ROW_TILES][4];
#pragma unroll
            for (int t = 0; t < ROW_TILES; t++)
                load_matrices(a[t], at_depth<BLOCK_M>(query_address(query_tile, t), k));
#pragma unroll
            for (int n = 0; n < KEY_SLICES; n++)
                multiply(n, k, a);
        }
        return;
    }
#pragma unroll
    for (int slice = 0; slice < SLICES; slice++) {
        constexpr int DEPTHS = DEPTH_SLICES / SLICES;
#pragma unroll
        for (int n = 0; n < KEY_SLICES; n++) {
#pragma unroll
            for (int k = slice * DEPTHS; k < (slice + 1) * DEPTHS; k++)
                multiply(n, k, rows.queries[k]);
        }
    }
}

// Scores of keys that a query does not see become minus infinity. `row` and `key` are the warp's first.
DEVICE void mask_scores(Scores &scores, const Problem &problem, int row, int key)
{
    const int lane = lane_index();
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int end = problem.key_count;
            if (CAUSAL)
                end = min(end, query_of(problem, row + 16 * t + 8 * r + lane / 4) + problem.diagonal + 1);
            const int seen = end - key - 2 * (lane % 4); // Of the columns counted from this thread's first.
#pragma unroll
            for (int n = 0; n < 2 * KEY_SLICES; n++) {
                scores[t][n][2 * r] = 8 * n < seen ? scores[t][n][2 * r] : MINUS_INFINITY;
                scores[t][n][2 * r + 1] = 8 * n + 1 < seen ? scores[t][n][2 * r + 1] : MINUS_INFINITY;
            }
        }
    }
}

// Takes the largest scores into account: what was summed so far is made relative to them.
template <bool MASKED>
DEVICE void update_largest(Rows &rows, const Scores &scores, float scale)
{
    float largest[ROW_TILES][2], shrink[ROW_TILES][2];
    bool grew = false;
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float x = rows.largest[t][r];
#pragma unroll
            for (int n = 0; n < 2 * KEY_SLICES; n++)
                x = fmaxf(x, fmaxf(scores[t][n][2 * r], scores[t][n][2 * r + 1]));
            largest[t][r] = x;
            grew |= (x - rows.largest[t][r]) * scale > LAZY_RESCALE; // Not so from minus infinity to itself.
        }
    }
    if (LAZY_RESCALE > 0 && !__any_sync(0xFFFFFFFF, grew))
        return;
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float x = largest[t][r]; // Four threads share a row.
            x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 1));
            x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 2));
            // Rows that have seen nothing yet are at minus infinity, where differences are not numbers.
            const float reached = MASKED && x == MINUS_INFINITY ? 0.0f : x;
            shrink[t][r] = power_of_two((rows.largest[t][r] - reached) * scale);
            rows.largest[t][r] = x;
        }
    }
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            rows.sum[t][r] *= shrink[t][r];
            if (SUM_BY_PRODUCT)
                rows.product[t][2 * r] *= shrink[t][r];
#pragma unroll
            for (int n = 0; n < HEAD_DIM / 8; n++) {
                rows.out[t][n][2 * r] *= shrink[t][r];
                rows.out[t][n][2 * r + 1] *= shrink[t][r];
            }
        }
    }
}

// Weights of 16 keys, as the left operand of the second product.
template <bool MASKED>
DEVICE void find_weights(unsigned (&weights)[ROW_TILES][4], Rows &rows, const Scores &scores,
                                                    int k, float scale)
{
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
        float offset[2];
#pragma unroll
        for (int r = 0; r < 2; r++)
            offset[r] = MASKED && rows.largest[t][r] == MINUS_INFINITY ? 0.0f : -rows.largest[t][r] * scale;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float first = power_of_two(fmaf(scores[t][2 * k + i / 2][i % 2 * 2], scale, offset[i % 2]));
            const float second = power_of_two(fmaf(scores[t][2 * k + i / 2][i % 2 * 2 + 1], scale, offset[i % 2]));
            if (!SUM_BY_PRODUCT)
                rows.sum[t][i % 2] += first + second;
            weights[t][i] = to_halves(first, second);
        }
        if (SUM_BY_PRODUCT)
            multiply_add(rows.product[t], weights[t], ONES, ONES);
    }
}

// Weights times values, of 16 keys.
DEVICE void add_values(Rows &rows, const unsigned (&weights)[ROW_TILES][4], unsigned value_tile,
                                                  int round, int k)
{
    const int lane = lane_index();
    const unsigned address = value_tile + place<BLOCK_N>(warp_key(round) + lane % 16, lane / 16);
#pragma unroll
    for (int n = 0; n < DEPTH_SLICES; n++) {
        unsigned b[4];
        load_matrices_transposed(b, at_depth<BLOCK_N>(address, n) + k * 16 * ROW_BYTES);
#pragma unroll
        for (int t = 0; t < ROW_TILES; t++) {
            multiply_add(rows.out[t][2 * n], weights[t], b[0], b[1]);
            multiply_add(rows.out[t][2 * n + 1], weights[t], b[2], b[3]);
            if (NO_PRODUCTS) { // Somebody must need what was loaded and rounded, or the compiler drops it.
                if (t == 0)
                    rows.out[t][2 * n][0] += __uint_as_float(b[0]);
                rows.out[t][2 * n + 1][0] += __uint_as_float(weights[t][n % 4]);
            }
        }
    }
}

// --- The walk along the keys. ---

#if KV_INT8
// Byte `index` of a word whose bytes had 128 added, as the number it was. Placed below the exponent of 2^23 a byte
// needs no conversion instruction, of which there are few per clock.
DEVICE float from_byte(unsigned word, int index)
{
    return __int_as_float(__byte_perm(word, 0x4B000000, 0x7440 + index)) - 8388736.0f;
}

DEVICE void load_rows(unsigned tile, const Matrix &matrix, int first, int count)
{
    if (NO_LOADS)
        return;
    typedef Share<BLOCK_N, CHUNK> Part;
    const kv_element *from = matrix.elements + (first + Part::row(0)) * matrix.stride + Part::column();
    const long long pass_stride = Part::ROWS_PER_PASS * matrix.stride;
#pragma unroll
    for (int pass = 0; pass < Part::PASSES; pass += Part::BATCH) {
        uint2 held[Part::BATCH];
        float factors[Part::BATCH];
#pragma unroll
        for (int i = 0; i < Part::BATCH; i++) {
            held[i].x = held[i].y = 0;
            factors[i] = 0.0f;
            if (Part::exists(pass + i) && first + Part::row(pass + i) < count) {
                held[i] = load_global_8(from);
                factors[i] = load_global_float(matrix.factors + first + Part::row(pass + i));
            }
            from += pass_stride;
        }
#pragma unroll
        for (int i = 0; i < Part::BATCH; i++) {
            const unsigned low = held[i].x ^ 0x80808080, high = held[i].y ^ 0x80808080;
            const float by = factors[i];
            uint4 halves;
            halves.x = to_halves(from_byte(low, 0) * by, from_byte(low, 1) * by);
            halves.y = to_halves(from_byte(low, 2) * by, from_byte(low, 3) * by);
            halves.z = to_halves(from_byte(high, 0) * by, from_byte(high, 1) * by);
            halves.w = to_halves(from_byte(high, 2) * by, from_byte(high, 3) * by);
            if (Part::exists(pass + i))
                store_shared_16(tile + Part::offset(pass + i), halves);
        }
    }
}
#else
DEVICE void load_rows(unsigned tile, const Matrix &matrix, int first, int count)
{
    load_tile<BLOCK_N>(tile, matrix.elements, matrix.stride, first, count);
}
#endif

struct Walk {
    unsigned query_tile, stages; // Addresses in shared memory.
    int first_row;               // Of the block.
    int begin, end;              // The block's steps.
    int key_end;                 // Keys from here on are none of its steps'.
};

DEVICE unsigned key_tile(const Walk &walk, int step)
{
    return walk.stages + step % STAGES * STAGE_BYTES;
}

DEVICE unsigned value_tile(const Walk &walk, int step)
{
    return key_tile(walk, step) + KV_BYTES;
}

// Each of the two ends in a commit, also when there is nothing left to load: awaiting counts commits. Copies behind the
// threads' backs are then asked for all the same, and write zeros: a branch would keep the compiler from mixing them
// with the products.
DEVICE void load_keys(const Problem &problem, const Walk &walk, int step)
{
    if (CP_ASYNC || step < walk.end)
        load_rows(key_tile(walk, step), problem.keys, step * BLOCK_N, walk.key_end);
    commit_copies();
}

DEVICE void load_values(const Problem &problem, const Walk &walk, int step)
{
    if (CP_ASYNC || step < walk.end)
        load_rows(value_tile(walk, step), problem.values, step * BLOCK_N, walk.key_end);
    commit_copies();
}

// Loads into the tiles of the step before this one, which all must be done with.
DEVICE void load_later(const Problem &problem, const Walk &walk, int step)
{
    load_keys(problem, walk, step + STAGES - 1);
    load_values(problem, walk, step + STAGES - 1);
}

// Whether any query of the warp sees any of its keys in a round.
DEVICE bool sees_any(const Problem &problem, const Walk &walk, int step, int round)
{
    const int key = step * BLOCK_N + warp_key(round), last_row = walk.first_row + warp_row() + WARP_ROWS - 1;
    return key < problem.key_count && (!CAUSAL || key <= query_of(problem, last_row) + problem.diagonal);
}

// From scores to the state after the round, but for the values.
template <bool MASKED>
DEVICE void take_scores(Rows &rows, Scores &scores, const Problem &problem, const Walk &walk,
                                                   int step, int round)
{
    if (MASKED)
        mask_scores(scores, problem, walk.first_row + warp_row(), step * BLOCK_N + warp_key(round));
    update_largest<MASKED>(rows, scores, problem.scale);
}

template <bool MASKED>
DEVICE void take_values(Rows &rows, const Scores &scores, const Problem &problem, unsigned tile,
                                                   int round)
{
    unsigned weights[KEY_SLICES][ROW_TILES][4];
    if (!INTERLEAVE) {
#pragma unroll
        for (int k = 0; k < KEY_SLICES; k++)
            find_weights<MASKED>(weights[k], rows, scores, k, problem.scale);
    }
#pragma unroll
    for (int k = 0; k < KEY_SLICES; k++) {
        if (INTERLEAVE)
            find_weights<MASKED>(weights[k], rows, scores, k, problem.scale);
        add_values(rows, weights[k], tile, round, k);
    }
}

// A step whose keys and values are in shared memory, or under way. It starts by waiting for them and by asking for
// those of the step that will use the tiles of the one before.
template <bool MASKED>
DEVICE void take_step(Rows &rows, const Problem &problem, const Walk &walk, int step)
{
    // Commits after those of this step's keys at this point, and after those of its values at the second one.
    constexpr int AFTER_KEYS = STAGES == 1 ? 0 : KV_GROUPS == 2 ? 2 * STAGES - 3 : 2 * STAGES - 4;
    constexpr int AFTER_VALUES = STAGES == 1 ? 0 : 2 * STAGES - 2;
    await_copies<AFTER_KEYS>();
    __syncthreads(); // Keys are there for all, and all are done with the step before: its tiles may be overwritten.
    if (STAGES == 1)
        load_values(problem, walk, step);
    else if (!LATE_LOADS)
        load_later(problem, walk, step);
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        const bool active = !MASKED || sees_any(problem, walk, step, round);
        Scores scores;
        if (active)
            find_scores(scores, rows, walk.query_tile, key_tile(walk, step), round);
        if (LATE_LOADS && round == 0)
            load_later(problem, walk, step);
        if (active)
            take_scores<MASKED>(rows, scores, problem, walk, step, round);
        if (KV_GROUPS == 2) {
            await_copies<AFTER_VALUES>();
            __syncthreads(); // Values are there for all, and all are done with the keys.
            if (STAGES == 1)
                load_keys(problem, walk, step + 1);
        }
        if (active)
            take_values<MASKED>(rows, scores, problem, value_tile(walk, step), round);
    }
}

// The same with OVERLAP: `scores` are those of the first round, and become those of the next step's first round.
template <bool MASKED>
DEVICE void take_step(Rows &rows, Scores &scores, const Problem &problem, const Walk &walk, int step)
{
    constexpr int AFTER_NEXT_KEYS = 2 * STAGES - 5;
    await_copies<AFTER_NEXT_KEYS < 0 ? 0 : AFTER_NEXT_KEYS>();
    __syncthreads(); // Values and the next step's keys are there for all, and all are done with the step before.
    if (!LATE_LOADS)
        load_later(problem, walk, step);
#pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        const int next_step = round + 1 < ROUNDS ? step : step + 1, next_round = (round + 1) % ROUNDS;
        Scores next;
        // Without a mask there is a next round, and no branch, so that the instructions of both can be mixed.
        if (!MASKED || (next_step < walk.end && sees_any(problem, walk, next_step, next_round)))
            find_scores(next, rows, walk.query_tile, key_tile(walk, next_step), next_round);
        if (LATE_LOADS && round == 0)
            load_later(problem, walk, step);
        if (!MASKED || sees_any(problem, walk, step, round)) {
            take_scores<MASKED>(rows, scores, problem, walk, step, round);
            take_values<MASKED>(rows, scores, problem, value_tile(walk, step), round);
        }
#pragma unroll
        for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
            for (int n = 0; n < 2 * KEY_SLICES; n++) {
#pragma unroll
                for (int i = 0; i < 4; i++)
                    scores[t][n][i] = next[t][n][i];
            }
        }
    }
}

// Loads what the first steps need, as many as there are stages to hold them.
DEVICE void start_walk(const Problem &problem, const Walk &walk)
{
#if PACK_GQA
    load_passes<BLOCK_M>(walk.query_tile, walk.first_row, problem.row_count, [&](int pass) {
        typedef Share<BLOCK_M, HALF2 ? 2 : CHUNK> Part;
        const int row = min(walk.first_row + Part::row(pass), problem.row_count - 1);
        return problem.queries + row_offset(problem, problem.query_stride, problem.head_stride, row) + Part::column();
    });
#else
    load_tile<BLOCK_M>(walk.query_tile, problem.queries, problem.query_stride, walk.first_row, problem.row_count);
#endif
    load_keys(problem, walk, walk.begin);
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ahead++) {
        if (ahead > 0)
            load_keys(problem, walk, walk.begin + ahead);
        load_values(problem, walk, walk.begin + ahead);
    }
}

// Takes all steps; those before `whole` see all their keys.
DEVICE void walk_along(Rows &rows, const Problem &problem, const Walk &walk, int whole)
{
    constexpr int AFTER_FIRST_KEYS = STAGES == 1 ? 0 : 2 * STAGES - 3;
    if (Q_IN_REGISTERS || OVERLAP) {
        await_copies<AFTER_FIRST_KEYS>();
        __syncthreads();
    }
    if (Q_IN_REGISTERS)
        load_queries(rows, walk.query_tile);
    int step = walk.begin;
#if OVERLAP
    Scores scores;
    find_scores(scores, rows, walk.query_tile, key_tile(walk, step), 0);
    const int before_last = min(whole, walk.end - 1);
#pragma unroll UNROLL
    for (; step < before_last; step++)
        take_step<false>(rows, scores, problem, walk, step);
#pragma unroll 1
    for (; step < walk.end; step++)
        take_step<true>(rows, scores, problem, walk, step);
#else
#pragma unroll UNROLL
    for (; step < whole; step++)
        take_step<false>(rows, problem, walk, step);
#pragma unroll 1
    for (; step < walk.end; step++)
        take_step<true>(rows, problem, walk, step);
#endif
    await_copies<0>();
    // Results go where the queries were. Without a single step no barrier has told yet that these all have arrived, and
    // one that comes late would overwrite the zeros of rows without keys.
    if (!Q_IN_REGISTERS && !OVERLAP && walk.begin >= walk.end)
        __syncthreads();
}

// --- Merging and writing. ---

DEVICE void total_sums(Rows &rows)
{
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            if (SUM_BY_PRODUCT) {
                rows.sum[t][r] = rows.product[t][2 * r];
                continue;
            }
            rows.sum[t][r] += __shfl_xor_sync(0xFFFFFFFF, rows.sum[t][r], 1); // Four threads share a row.
            rows.sum[t][r] += __shfl_xor_sync(0xFFFFFFFF, rows.sum[t][r], 2);
        }
    }
}

// Two partial results for the same rows become one: `largest`, `sum` and `out` of the other one come from `other(i)`,
// in the order in which `each_partial` below shows them.
template <typename Other> DEVICE void merge(Rows &rows, float scale, Other other)
{
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int base = t * (HEAD_DIM / 2 + 4) + r;
            const float theirs = other(base), largest = fmaxf(rows.largest[t][r], theirs);
            const float reached = largest == MINUS_INFINITY ? 0.0f : largest;
            const float mine_by = power_of_two((rows.largest[t][r] - reached) * scale);
            const float theirs_by = power_of_two((theirs - reached) * scale);
            rows.largest[t][r] = largest;
            rows.sum[t][r] = rows.sum[t][r] * mine_by + other(base + 2) * theirs_by;
#pragma unroll
            for (int n = 0; n < HEAD_DIM / 8; n++) {
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    const float value = other(t * (HEAD_DIM / 2 + 4) + 4 + 4 * n + i);
                    rows.out[t][n][i] = rows.out[t][n][i] * mine_by + value * theirs_by;
                }
            }
        }
    }
}

// Shows all of a thread's part to `show(i, value)`, PARTIALS values.
template <typename Show> DEVICE void each_partial(const Rows &rows, Show show)
{
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
        const int base = t * (HEAD_DIM / 2 + 4);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            show(base + r, rows.largest[t][r]);
            show(base + 2 + r, rows.sum[t][r]);
        }
#pragma unroll
        for (int n = 0; n < HEAD_DIM / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                show(base + 4 + 4 * n + i, rows.out[t][n][i]);
        }
    }
}

// Groups of warps hand what they have to the first group, one after another, through the memory of the stages.
DEVICE void merge_groups(Rows &rows, unsigned memory, float scale)
{
    const int group = threadIdx.x / (32 * WARPS_M), member = threadIdx.x % (32 * WARPS_M);
    const auto address = [&](int i) { return memory + (i * 32 * WARPS_M + member) * 4; };
    for (int giver = 1; giver < SPLIT; giver++) {
        __syncthreads(); // Stages, or what the giver before left, are no longer needed.
        if (group == giver)
            each_partial(rows, [&](int i, float value) { store_shared_float(address(i), value); });
        __syncthreads();
        if (group == 0)
            merge(rows, scale, [&](int i) { return load_shared_float(address(i)); });
    }
}

// Blocks leave what they have in `partials`, and the one that finishes last takes it all up again, in the order of the
// keys, so that who was last makes no difference. True for that block. `counter` is 0 before and after.
DEVICE bool merge_blocks(Rows &rows, unsigned memory, float scale, float *partials, int *counter,
                                                    int own_part)
{
    const int member = threadIdx.x;
    const auto place_of = [&](int part, int i) { return partials + (part * PARTIALS + i) * MEMBERS + member; };
    if (member < MEMBERS)
        each_partial(rows, [&](int i, float value) { store_global_float(place_of(own_part, i), value); });
    __threadfence();
    __syncthreads(); // Also: nobody reads the stages any more, one word of which says who is last.
    if (threadIdx.x == 0) {
        const bool last = atomicAdd(counter, 1) == GRID_SPLIT - 1;
        if (last)
            *counter = 0;
        store_shared_4(memory, last);
    }
    __syncthreads();
    const bool last = load_shared_4(memory) != 0;
    if (!last || member >= MEMBERS)
        return last;
    __threadfence();
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
        rows.largest[t][0] = rows.largest[t][1] = MINUS_INFINITY;
        rows.sum[t][0] = rows.sum[t][1] = 0.0f;
    }
#pragma unroll 1
    for (int part = 0; part < GRID_SPLIT; part++)
        merge(rows, scale, [&](int i) { return load_global_float_coherent(place_of(part, i)); });
    return true;
}

// Divides by the sums and writes the rows of a warp: 16 bytes at a time by way of the memory that the warp's queries
// were in, or two halves at a time as they lie in the registers.
DEVICE void write_rows(const Rows &rows, const Problem &problem, const Walk &walk, half_bits *out,
                                                  long long query_stride, long long head_stride)
{
    const auto to = [&](int row) { return out + row_offset(problem, query_stride, head_stride, walk.first_row + row); };
    const int lane = lane_index();
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float by = rows.sum[t][r] > 0.0f ? reciprocal(rows.sum[t][r]) : 0.0f;
            const int row = warp_row() + 16 * t + 8 * r + lane / 4;
#pragma unroll
            for (int n = 0; n < HEAD_DIM / 8; n++) {
                const unsigned word = to_halves(rows.out[t][n][2 * r] * by, rows.out[t][n][2 * r + 1] * by);
                if (!HALF2)
                    store_shared_4(walk.query_tile + place<BLOCK_M>(row, n) + lane % 4 * 4, word);
                else if (walk.first_row + row < problem.row_count)
                    store_global_4(to(row) + 8 * n + 2 * (lane % 4), word);
            }
        }
    }
    if (HALF2)
        return;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < WARP_ROWS * ROW_CHUNKS; i += 32) {
        const int row = warp_row() + (i + lane) / ROW_CHUNKS, chunk = (i + lane) % ROW_CHUNKS;
        if (walk.first_row + row < problem.row_count)
            store_global_16(to(row) + chunk * CHUNK, load_shared_16(walk.query_tile + place<BLOCK_M>(row, chunk)));
    }
}

// --- A tile of queries. ---

struct Arguments {
    const half_bits *Q;
    const kv_element *K, *V;
    const float *K_factors, *V_factors; // With KV_INT8.
    float *partials;                    // With GRID_SPLIT above 1.
    int *counters;
    half_bits *O;
    int B, H, H_KV, S, S_KV;
    long long q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head, o_row;
    float scale;
    int diagonal;
};

DEVICE void attend(const Arguments &a)
{
    Problem problem;
    problem.group = a.H == a.H_KV ? 1 : a.H / a.H_KV;
    problem.row_count = PACK_GQA ? a.S * problem.group : a.S;
    // Last queries have the most keys to see; with them first, no long tile is left over for the end.
    const int part_of_tile = ORDER == 2 ? blockIdx.z : blockIdx.x, tiles = (problem.row_count + BLOCK_M - 1) / BLOCK_M;
    const int tile = ORDER == 0 ? part_of_tile / GRID_SPLIT : tiles - 1 - part_of_tile / GRID_SPLIT;
    const int part = part_of_tile % GRID_SPLIT;
    const int head = ORDER == 2 ? blockIdx.x : blockIdx.y, batch = ORDER == 2 ? blockIdx.y : blockIdx.z;
    const int key_head = PACK_GQA || a.H == a.H_KV ? head : head / problem.group;
    const int query_head = PACK_GQA ? head * problem.group : head; // The first, if there are several.

    problem.queries = a.Q + batch * a.q_batch + query_head * a.q_head;
    problem.query_stride = a.q_row;
    problem.head_stride = a.q_head;
    problem.keys.elements = a.K + batch * a.k_batch + key_head * a.k_head;
    problem.keys.stride = a.k_row;
    problem.values.elements = a.V + batch * a.v_batch + key_head * a.v_head;
    problem.values.stride = a.v_row;
    if (KV_INT8) {
        const long long factors = (static_cast<long long>(batch) * a.H_KV + key_head) * a.S_KV;
        problem.keys.factors = a.K_factors + factors;
        problem.values.factors = a.V_factors + factors;
    }
    problem.key_count = a.S_KV;
    problem.diagonal = a.diagonal;
    problem.scale = a.scale * 1.4426950408889634f;

    Walk walk;
    walk.query_tile = shared_base();
    walk.stages = walk.query_tile + Q_BYTES;
    walk.first_row = tile * BLOCK_M;
    // Keys that some query of the block sees, and keys that all of them see.
    int seen = a.S_KV, seen_by_all = a.S_KV;
    if (CAUSAL) {
        const int last_row = min(walk.first_row + BLOCK_M, problem.row_count) - 1;
        seen = max(0, min(seen, query_of(problem, last_row) + 1 + a.diagonal));
        seen_by_all = max(0, min(seen_by_all, query_of(problem, walk.first_row) + 1 + a.diagonal));
    }
    const int steps = (seen + BLOCK_N - 1) / BLOCK_N, share = (steps + GRID_SPLIT - 1) / GRID_SPLIT;
    walk.begin = min(steps, part * share);
    walk.end = min(steps, walk.begin + share);
    walk.key_end = min(a.S_KV, walk.end * BLOCK_N);
    const int whole = min(walk.end, seen_by_all / BLOCK_N);

    start_walk(problem, walk);
    Rows rows;
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
        rows.largest[t][0] = rows.largest[t][1] = MINUS_INFINITY;
        rows.sum[t][0] = rows.sum[t][1] = 0.0f;
        rows.product[t][0] = rows.product[t][1] = rows.product[t][2] = rows.product[t][3] = 0.0f;
#pragma unroll
        for (int n = 0; n < HEAD_DIM / 8; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                rows.out[t][n][i] = 0.0f;
        }
    }
    walk_along(rows, problem, walk, whole);
    total_sums(rows);
    if (SPLIT > 1)
        merge_groups(rows, walk.stages, problem.scale);
    if (GRID_SPLIT > 1) {
        const long long index = (static_cast<long long>(batch) * (PACK_GQA ? a.H_KV : a.H) + head) * tiles + tile;
        float *const partials = a.partials + index * GRID_SPLIT * PARTIALS * MEMBERS;
        if (!merge_blocks(rows, walk.stages, problem.scale, partials, a.counters + index, part))
            return;
    }
    if (threadIdx.x / 32 < WARPS_M)
        write_rows(rows, problem, walk, a.O + batch * a.o_batch + query_head * a.o_head, a.o_row, a.o_head);
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
attention(const half_bits *__restrict__ Q, const kv_element *__restrict__ K, const kv_element *__restrict__ V,
          half_bits *__restrict__ O,
#if KV_INT8
          const float *__restrict__ K_factors, const float *__restrict__ V_factors, // [B][H_KV][S_KV].
#endif
#if WORKSPACE
          float *partials,    // B * H * tiles * GRID_SPLIT * PARTIALS * MEMBERS.
          int *counters,      // B * H * tiles, all 0.
#endif
          int B, int H, int H_KV, int S, int S_KV, long long q_batch, long long q_head, long long q_row,
          long long k_batch, long long k_head, long long k_row, long long v_batch, long long v_head, long long v_row,
          long long o_batch, long long o_head, long long o_row, float scale, int diagonal)
{
#if !KV_INT8
    const float *const K_factors = nullptr, *const V_factors = nullptr;
#endif
#if !WORKSPACE
    float *const partials = nullptr;
    int *const counters = nullptr;
#endif
    const Arguments a = {Q,      K,       V,      K_factors, V_factors, partials, counters, O,     B,       H,
                         H_KV,   S,       S_KV,   q_batch,   q_head,    q_row,    k_batch,  k_head, k_row,  v_batch,
                         v_head, v_row,   o_batch, o_head,   o_row,     scale,    diagonal};
    attend(a);
}
