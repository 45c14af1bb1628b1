// Kernels that do one thing as fast as the device can, for its ceilings. Each has a reference of the same parameters: a rate
// of wrong answers is no rate.

typedef unsigned u32;
typedef unsigned short half_bits; // f16 is multiplied here, never computed with.

#define THREADS 256
#define CHAINS 8

// y = x, 16 bytes at a time, four of them in flight.
extern "C" __global__ void __launch_bounds__(THREADS) copy(const float4 *x, float4 *y, int quads)
{
    const long long first = blockIdx.x * (4ll * THREADS) + threadIdx.x;
    float4 value[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (first + k * THREADS < quads)
            value[k] = x[first + k * THREADS];
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (first + k * THREADS < quads)
            y[first + k * THREADS] = value[k];
}

extern "C" __global__ void copy_reference(const double *x, double *y, int quads)
{
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < 4ll * quads)
        y[i] = x[i];
}

// The launch itself: one block, one element per thread.
extern "C" __global__ void __launch_bounds__(32) launch(const float *x, float *y)
{
    y[threadIdx.x] = x[threadIdx.x];
}

extern "C" __global__ void launch_reference(const double *x, double *y)
{
    y[threadIdx.x] = x[threadIdx.x];
}

// Eight chains of x -> 2^-x per thread, which all end near 0.641.
static __device__ float power(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(-x));
    return result;
}

extern "C" __global__ void __launch_bounds__(THREADS) exponential(const float *x, float *y, int n, int rounds)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    float chain[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        chain[c] = x[i] + c;
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            chain[c] = power(chain[c]);
    float sum = x[i];
    for (int c = 0; c < CHAINS; c++)
        sum += chain[c];
    y[i] = sum;
}

extern "C" __global__ void exponential_reference(const double *x, double *y, int n, int rounds)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n)
        return;
    double sum = x[i];
    for (int c = 0; c < CHAINS; c++) {
        double chain = x[i] + c;
        for (int r = 0; r < rounds; r++)
            chain = exp2(-chain);
        sum += chain;
    }
    y[i] = sum;
}

// Eight chains of multiply-adds per thread.
extern "C" __global__ void __launch_bounds__(THREADS) multiply_add(const float *x, float *y, int n, int rounds)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    float chain[CHAINS];
    for (int c = 0; c < CHAINS; c++)
        chain[c] = x[i] + c;
#pragma unroll 8
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
            chain[c] = __fmaf_rn(chain[c], 0.5f, 0.25f);
    float sum = x[i];
    for (int c = 0; c < CHAINS; c++)
        sum += chain[c];
    y[i] = sum;
}

extern "C" __global__ void multiply_add_reference(const double *x, double *y, int n, int rounds)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n)
        return;
    double sum = x[i];
    for (int c = 0; c < CHAINS; c++) {
        double chain = x[i] + c;
        for (int r = 0; r < rounds; r++)
            chain = chain * 0.5 + 0.25;
        sum += chain;
    }
    y[i] = sum;
}

// Each warp adds up the product of a 16 x 16 and a 16 x 64 matrix `rounds` times.
static __device__ void multiply(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(THREADS) mma(const half_bits *A, const half_bits *B, float *C, int warps, int rounds)
{
    const int warp = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (warp >= warps)
        return;
    const int group = threadIdx.x % 32 / 4;
    const int pair = threadIdx.x % 4;
    const u32 *a_tile = reinterpret_cast<const u32 *>(A) + warp * 128ll;
    const u32 *b_tile = reinterpret_cast<const u32 *>(B) + warp * 512ll;
    const u32 a[4] = {a_tile[group * 8 + pair], a_tile[(group + 8) * 8 + pair], a_tile[group * 8 + pair + 4],
                      a_tile[(group + 8) * 8 + pair + 4]};
    u32 b[8][2];
    float c[8][4] = {};
#pragma unroll
    for (int j = 0; j < 8; j++) {
        b[j][0] = b_tile[(j * 8 + group) * 8 + pair];
        b[j][1] = b_tile[(j * 8 + group) * 8 + pair + 4];
    }
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int j = 0; j < 8; j++)
            multiply(c[j], a, b[j]);
    float *out = C + warp * 1024ll;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const int column = j * 8 + pair * 2;
        out[group * 64 + column] = c[j][0];
        out[group * 64 + column + 1] = c[j][1];
        out[(group + 8) * 64 + column] = c[j][2];
        out[(group + 8) * 64 + column + 1] = c[j][3];
    }
}

extern "C" __global__ void mma_reference(const double *A, const double *B, double *C, int warps, int rounds)
{
    const double *a = A + blockIdx.x * 256ll;
    const double *b = B + blockIdx.x * 1024ll + threadIdx.x * 16;
    for (int row = 0; row < 16; row++) {
        double sum = 0.0;
        for (int k = 0; k < 16; k++)
            sum += a[row * 16 + k] * b[k];
        C[blockIdx.x * 1024ll + row * 64 + threadIdx.x] = sum * rounds;
    }
}

// The same for warpgroups: 64 x 64 by 64 x 64, both from shared memory, two warpgroups to a block.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define SUM(i) "+f"(d[i])
#define SUMS_8(i) SUM(i), SUM(i + 1), SUM(i + 2), SUM(i + 3), SUM(i + 4), SUM(i + 5), SUM(i + 6), SUM(i + 7)

static __device__ void warpgroup_multiply(float (&d)[32], unsigned long long a, unsigned long long b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
                 "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, "
                 "1, 1, 1, 0, 0;"
                 : SUMS_8(0), SUMS_8(8), SUMS_8(16), SUMS_8(24)
                 : "l"(a), "l"(b));
}

// Rows of 128 bytes whose 16-byte chunks are permuted by the 128-byte swizzle.
static __device__ unsigned long long describe(const void *tile, int bytes)
{
    const u32 address = static_cast<u32>(__cvta_generic_to_shared(tile)) + bytes;
    const u32 high = 1024 >> 4 | 1u << 30;
    return static_cast<unsigned long long>(high) << 32 | (address & 0x3FFFF) >> 4;
}

static __device__ void fill_tile(u32 *tile, const u32 *source, int thread, int threads)
{
    for (int i = thread; i < 64 * 32; i += threads) {
        const int row = i / 32;
        const int chunk = i % 32 / 4;
        tile[row * 32 + (chunk ^ row % 8) * 4 + i % 4] = source[i];
    }
}

extern "C" __global__ void __launch_bounds__(256) wgmma(const half_bits *A, const half_bits *B, float *C, int rounds)
{
    __shared__ __align__(1024) u32 a[2][64 * 32];
    __shared__ __align__(1024) u32 b[64 * 32];
    const int group = threadIdx.x / 128;
    const int thread = threadIdx.x % 128;
    const long long tile = blockIdx.x * 2ll + group;
    fill_tile(a[group], reinterpret_cast<const u32 *>(A) + tile * 2048, thread, 128);
    fill_tile(b, reinterpret_cast<const u32 *>(B) + blockIdx.x * 2048ll, threadIdx.x, 256);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    float d[32] = {};
    for (int r = 0; r < rounds; r++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
            warpgroup_multiply(d, describe(a[group], 32 * k), describe(b, 32 * k));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    float *out = C + tile * 4096;
    const int row = thread / 32 * 16 + thread % 32 / 4;
    const int column = thread % 4 * 2;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            out[(row + 8 * half) * 64 + 8 * n + column] = d[4 * n + 2 * half];
            out[(row + 8 * half) * 64 + 8 * n + column + 1] = d[4 * n + 2 * half + 1];
        }
}
#endif

extern "C" __global__ void wgmma_reference(const double *A, const double *B, double *C, int rounds)
{
    const long long tile = blockIdx.x;
    const double *a = A + tile * 4096;
    const double *b = B + tile / 2 * 4096 + threadIdx.x * 64;
    for (int row = 0; row < 64; row++) {
        double sum = 0.0;
        for (int k = 0; k < 64; k++)
            sum += a[row * 64 + k] * b[k];
        C[tile * 4096 + row * 64 + threadIdx.x] = sum * rounds;
    }
}
