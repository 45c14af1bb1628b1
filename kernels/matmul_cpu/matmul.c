/* C = A B in f32, row major: A is M x K, B is K x N, C is M x N.
 *
 * C is cut into register tiles of MR rows by NR vectors. Around them are cache tiles: KB x NB of B stays close while
 * MB rows of A at a time stream past it. Threads share out the columns of C, so they write apart and none waits.
 *
 * Any M, N, K is right, K = 0 included. Nothing outside the buffers is touched: columns that do not fill a register
 * tile are packed, zero padded, even when PACK is 0, and leave through a small buffer. */

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#ifndef MB /* Rows of A per cache tile. */
#define MB 64
#endif
#ifndef NB /* Columns of B per cache tile. */
#define NB 128
#endif
#ifndef KB /* Depth of a cache tile. */
#define KB 128
#endif
#ifndef MR /* Rows of a register tile. */
#define MR 4
#endif
#ifndef NR /* Vectors in a row of a register tile. */
#define NR 2
#endif
#ifndef VECTOR /* Floats per vector. */
#define VECTOR 8
#endif
#ifndef UNROLL /* Steps along K taken at once. */
#define UNROLL 1
#endif
#ifndef PACK /* 1: copy each cache tile of B into strips one register tile wide. 0: read B in place. */
#define PACK 1
#endif
#ifndef THREADS
#define THREADS 1
#endif

/* Columns of a register tile. */
#define STRIP (NR * VECTOR)

_Static_assert(VECTOR == 4 || VECTOR == 8 || VECTOR == 16, "VECTOR must be 4, 8 or 16");
_Static_assert(MR >= 1 && MR <= 16, "MR must be between 1 and 16");
_Static_assert(NR >= 1 && NR <= 8, "NR must be between 1 and 8");
_Static_assert(UNROLL >= 1 && UNROLL <= 16, "UNROLL must be between 1 and 16");
_Static_assert(PACK == 0 || PACK == 1, "PACK must be 0 or 1");
_Static_assert(THREADS >= 1 && THREADS <= 64, "THREADS must be between 1 and 64");
_Static_assert(MB >= MR && MB % MR == 0, "MB must be a multiple of MR");
_Static_assert(NB >= STRIP && NB % STRIP == 0, "NB must be a multiple of NR * VECTOR");
_Static_assert(KB >= 1 && KB * NB <= 1 << 17, "a tile of B must be at most 512 KiB: it lives on the stack");

/* Clang and gcc spell the unroll request differently, and macros expand in a pragma only through _Pragma. */
#define PRAGMA(text) _Pragma(#text)
#define EXPAND_PRAGMA(text) PRAGMA(text)
#ifdef __clang__
#define UNROLL_BY(count) EXPAND_PRAGMA(unroll count)
#else
#define UNROLL_BY(count) EXPAND_PRAGMA(GCC unroll count)
#endif
/* For loops over register tiles: they must vanish, or the accumulators live in memory. */
#define UNROLL_FULLY UNROLL_BY(16)

#define INLINE static inline __attribute__((always_inline))

/* Memory is reached through memcpy, so nothing is assumed about alignment. */
typedef float vec __attribute__((vector_size(VECTOR * sizeof(float))));
#define LOAD(vector, pointer) memcpy(&(vector), (pointer), sizeof(vec))
#define STORE(pointer, vector) memcpy((pointer), &(vector), sizeof(vec))

struct job {
    const float *A, *B;
    float *C;
    int64_t M, N, K;
    int64_t first, last; /* Columns of this thread. */
};

INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* One register tile: `rows` x STRIP of C is (when `add` is 0) or grows by (when 1) the product of `depth` columns of
 * A and rows of B. */
INLINE void multiply_tile(const float *a, int64_t a_stride, const float *b, int64_t b_stride, float *c,
                          int64_t c_stride, int depth, int add, const int rows)
{
    vec acc[MR][NR];
    UNROLL_FULLY
    for (int r = 0; r < rows; r++)
        UNROLL_FULLY
        for (int v = 0; v < NR; v++)
            acc[r][v] = (vec){0};
    UNROLL_BY(UNROLL)
    for (int k = 0; k < depth; k++) {
        vec row[NR];
        UNROLL_FULLY
        for (int v = 0; v < NR; v++)
            LOAD(row[v], b + k * b_stride + v * VECTOR);
        UNROLL_FULLY
        for (int r = 0; r < rows; r++) {
            float x = a[r * a_stride + k];
            UNROLL_FULLY
            for (int v = 0; v < NR; v++)
                acc[r][v] += x * row[v];
        }
    }
    UNROLL_FULLY
    for (int r = 0; r < rows; r++)
        UNROLL_FULLY
        for (int v = 0; v < NR; v++) {
            float *to = c + r * c_stride + v * VECTOR;
            if (add) {
                vec before;
                LOAD(before, to);
                acc[r][v] += before;
            }
            STORE(to, acc[r][v]);
        }
}

/* All `rows` rows of one cache tile against one strip of B. */
static void multiply_strip(const float *a, int64_t a_stride, const float *b, int64_t b_stride, float *c,
                           int64_t c_stride, int rows, int depth, int add)
{
    int r = 0;
    for (; r + MR <= rows; r += MR)
        multiply_tile(a + r * a_stride, a_stride, b, b_stride, c + r * c_stride, c_stride, depth, add, MR);
    for (; r < rows; r++)
        multiply_tile(a + r * a_stride, a_stride, b, b_stride, c + r * c_stride, c_stride, depth, add, 1);
}

/* Copies `depth` rows of `columns` columns into rows of STRIP; missing columns are zero. */
INLINE void pack_strip(const float *from, int64_t stride, int depth, int columns, float *to)
{
    for (int k = 0; k < depth; k++) {
        if (columns == STRIP) {
            memcpy(to + k * STRIP, from + k * stride, sizeof(float) * STRIP);
        } else {
            for (int j = 0; j < STRIP; j++)
                to[k * STRIP + j] = j < columns ? from[k * stride + j] : 0.0f;
        }
    }
}

static void *work(void *argument)
{
    const struct job *job = argument;
    const int64_t M = job->M, N = job->N, K = job->K;
    float packed[PACK ? KB * NB : KB * STRIP];

    for (int64_t j0 = job->first; j0 < job->last; j0 += NB) {
        const int columns = (int)least(NB, job->last - j0);
        for (int64_t k0 = 0; k0 < K; k0 += KB) {
            const int depth = (int)least(KB, K - k0);
            const float *b = job->B + k0 * N + j0;
            for (int j = 0; j < columns; j += STRIP) {
                const int width = (int)least(STRIP, columns - j);
                if (PACK)
                    pack_strip(b + j, N, depth, width, packed + j * depth);
                else if (width < STRIP)
                    pack_strip(b + j, N, depth, width, packed);
            }

            for (int64_t i0 = 0; i0 < M; i0 += MB) {
                const int rows = (int)least(MB, M - i0);
                const float *a = job->A + i0 * K + k0;
                for (int j = 0; j < columns; j += STRIP) {
                    const int width = (int)least(STRIP, columns - j);
                    float *c = job->C + i0 * N + j0 + j;
                    if (width == STRIP) {
                        const float *strip = PACK ? packed + j * depth : b + j;
                        multiply_strip(a, K, strip, PACK ? STRIP : N, c, N, rows, depth, k0 > 0);
                        continue;
                    }
                    const float *strip = PACK ? packed + j * depth : packed;
                    float edge[MB * STRIP];
                    multiply_strip(a, K, strip, STRIP, edge, STRIP, rows, depth, 0);
                    for (int r = 0; r < rows; r++)
                        for (int l = 0; l < width; l++)
                            c[r * N + l] = (k0 > 0 ? c[r * N + l] : 0.0f) + edge[r * STRIP + l];
                }
            }
        }
    }
    return NULL;
}

void matmul(const float *A, const float *B, float *C, int32_t M, int32_t N, int32_t K)
{
    if (M <= 0 || N <= 0)
        return;
    if (K <= 0) {
        memset(C, 0, sizeof(float) * (size_t)M * (size_t)N);
        return;
    }
    /* Whole strips per thread: only the last one can have an edge. */
    const int64_t strips = ((int64_t)N + STRIP - 1) / STRIP;
    struct job job[THREADS];
    for (int t = 0; t < THREADS; t++)
        job[t] = (struct job){A, B, C, M, N, K, least(N, strips * t / THREADS * STRIP),
                              least(N, strips * (t + 1) / THREADS * STRIP)};

#if THREADS > 1
    pthread_t thread[THREADS];
    int started[THREADS] = {0};
    for (int t = 1; t < THREADS; t++)
        started[t] = pthread_create(&thread[t], NULL, work, &job[t]) == 0;
#endif
    work(&job[0]);
#if THREADS > 1
    /* A thread that could not be started is not a failure, only slow: its share is done here. */
    for (int t = 1; t < THREADS; t++) {
        if (started[t])
            pthread_join(thread[t], NULL);
        else
            work(&job[t]);
    }
#endif
}
