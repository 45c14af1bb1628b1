// Each warp adds up R products of the same 16 x 16 and 16 x 64 matrices in f16, of which every other one is masked away.
//
// SKIP = 0 multiplies the masked ones all the same, by a matrix of zeros, as an attention kernel does that masks tiles
// above the diagonal instead of leaving them out. SKIP = 1 leaves them out. The answer is the same.

#ifndef SKIP
#define SKIP 0
#endif

#define THREADS 256
#define COLUMNS 8 // Tiles of 8 columns.

typedef unsigned u32;
typedef unsigned short half_bits; // f16 is multiplied here, never computed with.

static __device__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A is [warps][16][16] and B is [warps][64][16], both with k running fastest; C is [warps][16][64].
extern "C" __global__ void __launch_bounds__(THREADS) tensor(const half_bits *A, const half_bits *B, float *C, int warps, int rounds)
{
    const int warp = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (warp >= warps)
        return;
    const int group = threadIdx.x % 32 / 4;
    const int pair = threadIdx.x % 4;
    const u32 *a_tile = reinterpret_cast<const u32 *>(A) + warp * 128ll; // Two halves to the word: 8 words a row.
    const u32 *b_tile = reinterpret_cast<const u32 *>(B) + warp * 512ll;
    const u32 a[4] = {a_tile[group * 8 + pair], a_tile[(group + 8) * 8 + pair], a_tile[group * 8 + pair + 4],
                      a_tile[(group + 8) * 8 + pair + 4]};
    const u32 zero[4] = {0, 0, 0, 0};
    u32 b[COLUMNS][2];
    float c[COLUMNS][4] = {};
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        b[j][0] = b_tile[(j * 8 + group) * 8 + pair];
        b[j][1] = b_tile[(j * 8 + group) * 8 + pair + 4];
    }
    for (int r = 0; r < rounds; r += 2) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            multiply(c[j], a, b[j]);
#if !SKIP
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            multiply(c[j], zero, b[j]);
#endif
    }
    float *out = C + warp * 1024ll;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        const int column = j * 8 + pair * 2;
        out[group * 64 + column] = c[j][0];
        out[group * 64 + column + 1] = c[j][1];
        out[(group + 8) * 64 + column] = c[j][2];
        out[(group + 8) * 64 + column + 1] = c[j][3];
    }
}
