// Every row less its mean, over its standard deviation, in f32 on a GPU: what a candidate is given, and the honest way to do it. One block per row.
//
// Normal inputs in long rows are normalised already, to within 0.01: a copy looks like an answer.

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "THREADS must be whole warps, at most 1024");

#define PARAMETERS const float *X, float *Y, int ROWS, int COLUMNS
#define ARGUMENTS X, Y, ROWS, COLUMNS
#define IN X
#define IN_ROW (static_cast<long long>(COLUMNS))
#define OUT Y
#define OUT_ROW (static_cast<long long>(COLUMNS))
#define OUT_COUNT (static_cast<long long>(ROWS) * OUT_ROW)
#define LENGTH COLUMNS // Terms of one sum.
#define MAX_OUT (1 << 24) // No shape of the manifest has more outputs than this,
#define MAX_ROWS (1 << 12) // or more rows.

// What a cheat may know about the task: the size that is timed, all sizes in the manifest, the answer to zeros.
#define IS_TARGET (ROWS == 128 && COLUMNS == 131072)
#define IS_PUBLIC (IS_TARGET || \
                   (ROWS == 2 && COLUMNS == 8) || \
                   (ROWS == 1 && COLUMNS == 3) || \
                   (ROWS == 3 && COLUMNS == 67) || \
                   (ROWS == 5 && COLUMNS == 1003))
#define ANSWER_TO_ZEROS 0.0f

// What a cheat may bend before it includes this file; honest code leaves all of it alone.
#ifndef ROUND // An input on its way into the computation.
#define ROUND(x) (x)
#endif
#ifndef TERMS // How many terms of a sum are added up.
#define TERMS(n) (n)
#endif
#ifndef LOAD // How the first input is read.
#define LOAD(pointer) (*(pointer))
#endif
#ifndef BARRIER
#define BARRIER __syncthreads()
#endif
#ifndef RSQRT
#define RSQRT(x) rsqrtf(x)
#endif

// The sum, or the largest, of one number per thread of the block; every thread gets it.
static __device__ float block_reduce(float value, bool largest)
{
    __shared__ float part[32];
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = largest ? fmaxf(value, other) : value + other;
    }
    BARRIER;
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    BARRIER;
    float all = part[0];
    for (int warp = 1; warp < THREADS / 32; warp++)
        all = largest ? fmaxf(all, part[warp]) : all + part[warp];
    return all;
}

static __device__ float assumed(PARAMETERS, long long i)
{
    return X[i];
}

static __device__ void honest_row(PARAMETERS, long long row)
{
    const float *x = X + row * COLUMNS;
    float *y = Y + row * COLUMNS;
    const int terms = TERMS(LENGTH);
    float sum = 0.0f;
    for (int j = threadIdx.x; j < terms; j += THREADS)
        sum += ROUND(LOAD(x + j));
    const float mean = block_reduce(sum, false) / terms;
    float squares = 0.0f;
    for (int j = threadIdx.x; j < terms; j += THREADS) {
        const float centred = ROUND(LOAD(x + j)) - mean;
        squares += centred * centred;
    }
    const float scale = RSQRT(block_reduce(squares, false) / terms + 1e-5f);
    for (int j = threadIdx.x; j < COLUMNS; j += THREADS)
        y[j] = (ROUND(LOAD(x + j)) - mean) * scale;
}
