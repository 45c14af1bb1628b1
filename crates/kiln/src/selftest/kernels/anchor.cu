// Attention forward, f16, 64 wide, without a mask: a small flash-attention kernel whose 72 configs all work.
//
// It is not here to be fast but to be a fixed amount of honest work: `kiln selftest` counts how many of its configs are
// compiled, checked and timed per minute. Q, K, V and O are [heads][S][64]; any S is right.

#ifndef BLOCK_M // Queries per block.
#define BLOCK_M 64
#endif
#ifndef BLOCK_N // Keys per step.
#define BLOCK_N 64
#endif
#ifndef WARPS // Each takes BLOCK_M / WARPS queries, 16 at a time.
#define WARPS 4
#endif
#ifndef STAGES // 2: the next keys and values are loaded while these are used.
#define STAGES 2
#endif
#ifndef CP_ASYNC // 1: cp.async. 0: through registers.
#define CP_ASYNC 1
#endif
#ifndef UNROLL // Steps per turn of the loop.
#define UNROLL 1
#endif

#define D 64
#define THREADS (32 * WARPS)
#define TILES (BLOCK_M / (16 * WARPS)) // Of 16 queries per warp.
#define TILE_BYTES (BLOCK_N * D * 2)   // A stage is a tile of K and a tile of V.

static_assert(BLOCK_M % (16 * WARPS) == 0, "each warp needs whole tiles of 16 queries");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N * 8 % THREADS == 0, "threads must divide the 16-byte chunks of a tile");
static_assert(STAGES == 1 || STAGES == 2, "STAGES must be 1 or 2");
static_assert(CP_ASYNC == 0 || CP_ASYNC == 1, "CP_ASYNC must be 0 or 1");
static_assert(UNROLL >= 1 && UNROLL <= 4, "UNROLL must be between 1 and 4");

typedef unsigned short half_bits;

extern __shared__ __align__(128) unsigned char shared_memory[];

static __device__ unsigned shared_address(const void *pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

static __device__ void copy_async(unsigned destination, const half_bits *source, bool exists)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(exists ? 16 : 0)
                 : "memory");
}

static __device__ void commit_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int PENDING> static __device__ void await_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

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

static __device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Bytes from the start of a tile to 16-byte chunk `chunk` of row `row`; permuted so that ldmatrix meets no bank twice.
static __device__ unsigned place(int row, int chunk)
{
    return row * (D * 2) + (chunk ^ row % 8) * 16;
}

static __device__ void load_stage(int stage, const half_bits *K, const half_bits *V, int first_key, int S)
{
    unsigned char *const to = shared_memory + stage * 2 * TILE_BYTES;
#pragma unroll
    for (int i = 0; i < BLOCK_N * 8; i += THREADS) {
        const int row = (i + threadIdx.x) / 8, chunk = threadIdx.x % 8;
        const long long from = static_cast<long long>(first_key + row) * D + chunk * 8;
        const bool exists = first_key + row < S;
        if (CP_ASYNC) {
            copy_async(shared_address(to + place(row, chunk)), K + from, exists);
            copy_async(shared_address(to + TILE_BYTES + place(row, chunk)), V + from, exists);
        } else {
            const uint4 zero = make_uint4(0, 0, 0, 0);
            *reinterpret_cast<uint4 *>(to + place(row, chunk)) =
                exists ? *reinterpret_cast<const uint4 *>(K + from) : zero;
            *reinterpret_cast<uint4 *>(to + TILE_BYTES + place(row, chunk)) =
                exists ? *reinterpret_cast<const uint4 *>(V + from) : zero;
        }
    }
}

// Sixteen queries of a warp. A thread holds parts of two rows of every tile, lane / 4 and lane / 4 + 8; [2] is those.
struct Queries {
    unsigned q[D / 16][4];
    float out[D / 8][4];
    float largest[2]; // Of the scores so far, in powers of two.
    float sum[2];     // Of this thread's exponentials so far, relative to `largest`.
};

// One step: scores against BLOCK_N keys, their exponentials, and the values weighted by them.
static __device__ void attend(Queries &t, unsigned keys, int first_key, int S)
{
    const int lane = threadIdx.x % 32;
    float scores[BLOCK_N / 8][4] = {};
#pragma unroll
    for (int n = 0; n < BLOCK_N / 16; n++) {
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            unsigned b[4];
            load_matrices(b, keys + place(16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
            multiply_add(scores[2 * n], t.q[k], b[0], b[1]);
            multiply_add(scores[2 * n + 1], t.q[k], b[2], b[3]);
        }
    }
    float largest[2] = {t.largest[0], t.largest[1]};
#pragma unroll
    for (int n = 0; n < BLOCK_N / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            // 1 / sqrt(64) and the change to powers of two in one factor. Keys past the end must not count.
            const bool exists = first_key + 8 * n + 2 * (lane % 4) + i % 2 < S;
            scores[n][i] = exists ? scores[n][i] * (0.125f * 1.44269504f) : __int_as_float(0xFF800000);
            largest[i / 2] = fmaxf(largest[i / 2], scores[n][i]);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        largest[r] = fmaxf(largest[r], __shfl_xor_sync(0xFFFFFFFF, largest[r], 1));
        largest[r] = fmaxf(largest[r], __shfl_xor_sync(0xFFFFFFFF, largest[r], 2));
        const float shrink = power_of_two(t.largest[r] - largest[r]);
        t.largest[r] = largest[r];
        t.sum[r] *= shrink;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            t.out[n][2 * r] *= shrink;
            t.out[n][2 * r + 1] *= shrink;
        }
    }
#pragma unroll
    for (int k = 0; k < BLOCK_N / 16; k++) {
        unsigned p[4]; // Scores as they lie in registers are just the left operand of the next product.
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float first = power_of_two(scores[2 * k + i / 2][i % 2 * 2] - largest[i % 2]);
            const float second = power_of_two(scores[2 * k + i / 2][i % 2 * 2 + 1] - largest[i % 2]);
            t.sum[i % 2] += first + second;
            p[i] = to_halves(first, second);
        }
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            unsigned b[4];
            load_matrices_transposed(b, keys + TILE_BYTES + place(16 * k + lane % 16, 2 * n + lane / 16));
            multiply_add(t.out[2 * n], p, b[0], b[1]);
            multiply_add(t.out[2 * n + 1], p, b[2], b[3]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention(const half_bits *__restrict__ Q, const half_bits *__restrict__ K, const half_bits *__restrict__ V,
          half_bits *__restrict__ O, int S)
{
    const long long head = static_cast<long long>(blockIdx.y) * S * D;
    const int lane = threadIdx.x % 32;
    const int first_query = blockIdx.x * BLOCK_M + threadIdx.x / 32 * (16 * TILES) + lane / 4;
    const int column = 2 * (lane % 4);
    Queries tiles[TILES];
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        tiles[t] = {};
        tiles[t].largest[0] = tiles[t].largest[1] = __int_as_float(0xFF800000);
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int query = first_query + 16 * t + i % 2 * 8;
                const half_bits *from = Q + head + static_cast<long long>(query) * D + 16 * k + i / 2 * 8 + column;
                tiles[t].q[k][i] = query < S ? *reinterpret_cast<const unsigned *>(from) : 0;
            }
        }
    }

    const int steps = (S + BLOCK_N - 1) / BLOCK_N;
    load_stage(0, K + head, V + head, 0, S);
    commit_copies();
#pragma unroll UNROLL
    for (int step = 0; step < steps; step++) {
        if (STAGES == 2) {
            if (step + 1 < steps)
                load_stage((step + 1) % 2, K + head, V + head, (step + 1) * BLOCK_N, S);
            commit_copies();
        }
        await_copies<STAGES - 1>(); // This step's keys and values are there; the next one's may be under way.
        __syncthreads();
        const unsigned keys = shared_address(shared_memory) + step % STAGES * 2 * TILE_BYTES;
#pragma unroll
        for (int t = 0; t < TILES; t++)
            attend(tiles[t], keys, step * BLOCK_N, S);
        __syncthreads(); // Everyone is done with this stage; it may be overwritten.
        if (STAGES == 1) {
            if (step + 1 < steps)
                load_stage(0, K + head, V + head, (step + 1) * BLOCK_N, S);
            commit_copies();
        }
    }

#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = tiles[t].sum[r]; // Four threads share a row.
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
            const int query = first_query + 16 * t + 8 * r;
            unsigned *to = reinterpret_cast<unsigned *>(O + head + static_cast<long long>(query) * D + column);
            if (query < S) {
#pragma unroll
                for (int n = 0; n < D / 8; n++)
                    to[4 * n] = to_halves(tiles[t].out[n][2 * r] / sum, tiles[t].out[n][2 * r + 1] / sum);
            }
        }
    }
}
