/* O = softmax(Q K^T / sqrt(D)) V in f32, tensors laid out [B, H, S, D].
 *
 * One tile of BLOCK_M queries walks over the keys BLOCK_N at a time and keeps, per query, the largest score so
 * far, the sum of exponentials and an unnormalised output row (online softmax), so no S x S matrix exists.
 * Both products are register tiles of ROWS queries times COLS vectors. Queries are scaled by log2(e) / sqrt(D), so
 * that every exponential is a power of two.
 *
 * Any B, H, S and D up to HEAD_MAX are right. Nothing outside the buffers is touched: what does not fill a whole
 * vector is copied, zero padded, into the workspace first. */

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#ifndef BLOCK_M /* Queries per tile. A packed key tile is reused this many times. */
#define BLOCK_M 64
#endif
#ifndef BLOCK_N /* Keys per tile. */
#define BLOCK_N 64
#endif
#ifndef VECTOR /* Floats per vector. */
#define VECTOR 8
#endif
#ifndef ROWS /* Queries in a register tile. */
#define ROWS 4
#endif
#ifndef COLS /* Vectors (of keys or of output columns) in a register tile. */
#define COLS 2
#endif
#ifndef UNROLL /* Steps of the two inner loops taken at once. */
#define UNROLL 1
#endif
#ifndef THREADS
#define THREADS 1
#endif
#ifndef PACK_K /* 1: transpose each key tile, so lanes are keys. 0: lanes run along D, summed across at the end. */
#define PACK_K 1
#endif
#ifndef FAST_EXP /* 1: a vectorised polynomial, relative error below 3e-7. 0: exp2f, one call per score. */
#define FAST_EXP 1
#endif
#ifndef LAZY_RESCALE /* 1: rescale the output row only when the maximum grew a lot. 0: at every key tile. */
#define LAZY_RESCALE 0
#endif

/* Fixes the size of the workspace, which lives on the stack. */
#define HEAD_MAX 256
/* Keys covered by one register tile of a packed key tile. */
#define PANEL (COLS * VECTOR)

_Static_assert(VECTOR == 4 || VECTOR == 8 || VECTOR == 16, "VECTOR must be 4, 8 or 16");
_Static_assert(ROWS >= 1 && ROWS <= 16, "ROWS must be between 1 and 16");
_Static_assert(COLS >= 1 && COLS <= 8, "COLS must be between 1 and 8");
_Static_assert(UNROLL >= 1 && UNROLL <= 16, "UNROLL must be between 1 and 16");
_Static_assert(THREADS >= 1 && THREADS <= 64, "THREADS must be between 1 and 64");
_Static_assert(PACK_K == 0 || PACK_K == 1, "PACK_K must be 0 or 1");
_Static_assert(FAST_EXP == 0 || FAST_EXP == 1, "FAST_EXP must be 0 or 1");
_Static_assert(LAZY_RESCALE == 0 || LAZY_RESCALE == 1, "LAZY_RESCALE must be 0 or 1");
_Static_assert(BLOCK_M >= ROWS && BLOCK_M % ROWS == 0, "BLOCK_M must be a multiple of ROWS");
_Static_assert(BLOCK_N >= PANEL && BLOCK_N % PANEL == 0, "BLOCK_N must be a multiple of COLS * VECTOR");
_Static_assert(HEAD_MAX % VECTOR == 0, "HEAD_MAX must be a multiple of VECTOR");
_Static_assert((2 * BLOCK_M + BLOCK_N) * HEAD_MAX + BLOCK_M * BLOCK_N <= 1 << 18, "the workspace must fit in 1 MiB");

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

/* Vectors never cross a function boundary by value: on targets without registers that wide, that would be an ABI
 * warning. Memory is reached through memcpy, so nothing is assumed about alignment. */
typedef float vec __attribute__((vector_size(VECTOR * sizeof(float))));
#define LOAD(vector, pointer) memcpy(&(vector), (pointer), sizeof(vec))
#define STORE(pointer, vector) memcpy((pointer), &(vector), sizeof(vec))

struct workspace {
    float query[BLOCK_M * HEAD_MAX];  /* Scaled; rows padded to whole vectors. */
    float output[BLOCK_M * HEAD_MAX]; /* Not yet divided by `sum`. */
    float tile[BLOCK_N * HEAD_MAX];   /* The key tile, then the value tile, when a copy is needed. */
    float score[BLOCK_M * BLOCK_N];
    float top[BLOCK_M]; /* What scores of this row are taken relative to. */
    float sum[BLOCK_M];
};

struct job {
    const float *Q, *K, *V;
    float *O;
    int32_t sequence, head;
    int64_t first, last; /* Query tiles of this thread, counted over all heads. */
};

INLINE int round_up(int value, int multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

#if FAST_EXP

typedef int32_t ivec __attribute__((vector_size(VECTOR * sizeof(float))));
typedef uint32_t uvec __attribute__((vector_size(VECTOR * sizeof(float))));

/* x = 2^x. Adding 1.5 * 2^23 rounds x to the nearest integer n and leaves n in the low bits, from where it is shifted
 * onto the exponent of 2^(x - n). That factor is a degree 5 polynomial fitted for least relative error on
 * [-0.5, 0.5]: 7.5e-8 in exact arithmetic, 2.3e-7 in f32. Inputs below -125 count as -125, as good as zero
 * next to a row's largest term; no caller passes more than LAZY_LIMIT. */
INLINE void exp2_vector(vec *x)
{
    const vec least = (vec){0} - 125.0f;
    ivec keep = *x > least;
    vec clamped = (vec)(((ivec)*x & keep) | ((ivec)least & ~keep));
    vec shifted = clamped + 12582912.0f;
    vec r = clamped - (shifted - 12582912.0f);
    vec p = r * 0.00132764725f + 0.00967554189f;
    p = p * r + 0.0555071309f;
    p = p * r + 0.240221202f;
    p = p * r + 0.693146944f;
    p = p * r + 1.00000012f;
    *x = (vec)((uvec)p + ((uvec)shifted << 23));
}

#endif

/* Stages that `kiln profile` leaves out, one at a time, to see what they cost. What is left reads, writes and sums as
 * before, on numbers that mean nothing. */
#ifdef NO_EXPONENTIALS
#define exp2_vector(x) ((void)(x))
#define exp2f(x) (x)
#endif
#ifdef NO_SCORES
#define LEAVE_OUT_SCORES(steps) (steps) = 0;
#else
#define LEAVE_OUT_SCORES(steps)
#endif
#ifdef NO_VALUES
#define LEAVE_OUT_VALUES(steps) (steps) = 0;
#else
#define LEAVE_OUT_VALUES(steps)
#endif

/* Copies `rows` rows of `head` floats, times `scale`, into rows of `stride` floats; the rest is zero. */
INLINE void copy_rows(const float *from, int rows, int head, float scale, float *to, int stride, int padded_rows)
{
    for (int r = 0; r < rows; r++) {
        for (int d = 0; d < head; d++)
            to[r * stride + d] = from[(int64_t)r * head + d] * scale;
        for (int d = head; d < stride; d++)
            to[r * stride + d] = 0.0f;
    }
    if (padded_rows > rows)
        memset(to + rows * stride, 0, sizeof(float) * (size_t)((padded_rows - rows) * stride));
}

#if PACK_K

/* Transposes `keys` rows into panels of PANEL keys: panel, then d, then key. Missing keys are zero. */
INLINE void pack_keys(const float *from, int keys, int head, float *to)
{
    for (int first = 0; first < keys; first += PANEL, to += PANEL * head) {
        const float *row = from + (int64_t)first * head;
        if (keys - first >= PANEL) {
            for (int d = 0; d < head; d++)
                for (int j = 0; j < PANEL; j++)
                    to[d * PANEL + j] = row[j * head + d];
        } else {
            for (int d = 0; d < head; d++)
                for (int j = 0; j < PANEL; j++)
                    to[d * PANEL + j] = j < keys - first ? row[j * head + d] : 0.0f;
        }
    }
}

/* Scores of ROWS queries against the PANEL keys of one panel. */
INLINE void score_tile(const float *query, int stride, const float *panel, int head, float *score)
{
    LEAVE_OUT_SCORES(head)
    vec acc[ROWS][COLS];
    UNROLL_FULLY
    for (int r = 0; r < ROWS; r++)
        UNROLL_FULLY
        for (int c = 0; c < COLS; c++)
            acc[r][c] = (vec){0};
    UNROLL_BY(UNROLL)
    for (int d = 0; d < head; d++) {
        vec key[COLS];
        UNROLL_FULLY
        for (int c = 0; c < COLS; c++)
            LOAD(key[c], panel + d * PANEL + c * VECTOR);
        UNROLL_FULLY
        for (int r = 0; r < ROWS; r++) {
            float q = query[r * stride + d];
            UNROLL_FULLY
            for (int c = 0; c < COLS; c++)
                acc[r][c] += q * key[c];
        }
    }
    UNROLL_FULLY
    for (int r = 0; r < ROWS; r++)
        UNROLL_FULLY
        for (int c = 0; c < COLS; c++)
            STORE(score + r * BLOCK_N + c * VECTOR, acc[r][c]);
}

#else

/* Scores of ROWS queries against COLS keys; the lanes run along the head and are summed last. */
INLINE void score_tile(const float *query, int stride, const float *key, int key_stride, float *score)
{
    LEAVE_OUT_SCORES(stride)
    vec acc[ROWS][COLS];
    UNROLL_FULLY
    for (int r = 0; r < ROWS; r++)
        UNROLL_FULLY
        for (int c = 0; c < COLS; c++)
            acc[r][c] = (vec){0};
    UNROLL_BY(UNROLL)
    for (int d = 0; d < stride; d += VECTOR) {
        vec k[COLS];
        UNROLL_FULLY
        for (int c = 0; c < COLS; c++)
            LOAD(k[c], key + c * key_stride + d);
        UNROLL_FULLY
        for (int r = 0; r < ROWS; r++) {
            vec q;
            LOAD(q, query + r * stride + d);
            UNROLL_FULLY
            for (int c = 0; c < COLS; c++)
                acc[r][c] += q * k[c];
        }
    }
    UNROLL_FULLY
    for (int r = 0; r < ROWS; r++)
        UNROLL_FULLY
        for (int c = 0; c < COLS; c++) {
            float lane[VECTOR];
            STORE(lane, acc[r][c]);
            UNROLL_FULLY
            for (int half = VECTOR / 2; half > 0; half /= 2)
                UNROLL_FULLY
                for (int l = 0; l < half; l++)
                    lane[l] += lane[l + half];
            score[r * BLOCK_N + c] = lane[0];
        }
}

#endif

/* Adds `keys` weighted value rows to ROWS output rows, `cols` vectors wide. */
INLINE void value_tile(const float *weight, const float *value, int value_stride, int keys, float *output, int stride,
                       const int cols)
{
    LEAVE_OUT_VALUES(keys)
    vec acc[ROWS][COLS];
    UNROLL_FULLY
    for (int r = 0; r < ROWS; r++)
        UNROLL_FULLY
        for (int c = 0; c < cols; c++)
            LOAD(acc[r][c], output + r * stride + c * VECTOR);
    UNROLL_BY(UNROLL)
    for (int j = 0; j < keys; j++) {
        vec v[COLS];
        UNROLL_FULLY
        for (int c = 0; c < cols; c++)
            LOAD(v[c], value + j * value_stride + c * VECTOR);
        UNROLL_FULLY
        for (int r = 0; r < ROWS; r++) {
            float w = weight[r * BLOCK_N + j];
            UNROLL_FULLY
            for (int c = 0; c < cols; c++)
                acc[r][c] += w * v[c];
        }
    }
    UNROLL_FULLY
    for (int r = 0; r < ROWS; r++)
        UNROLL_FULLY
        for (int c = 0; c < cols; c++)
            STORE(output + r * stride + c * VECTOR, acc[r][c]);
}

/* In powers of two: terms may reach 2^2 before a rescale, and a common factor of a row costs no precision. A limit of 8
 * was no faster (within 2 %), and with it normally distributed inputs never rescaled, so no check covered that path. */
#define LAZY_LIMIT 2.0f

/* Turns one row of scores into weights and brings the row's running maximum, sum and output up to date. */
INLINE void softmax_row(struct workspace *w, int row, int keys, int stride)
{
    float *score = w->score + row * BLOCK_N;
    const int padded = round_up(keys, VECTOR);
    for (int j = keys; j < padded; j++)
        score[j] = -INFINITY;

    float lane[VECTOR];
    memcpy(lane, score, sizeof lane);
    for (int j = VECTOR; j < padded; j += VECTOR)
        for (int l = 0; l < VECTOR; l++)
            lane[l] = score[j + l] > lane[l] ? score[j + l] : lane[l];
    float top = lane[0];
    for (int l = 1; l < VECTOR; l++)
        top = lane[l] > top ? lane[l] : top;

    const float before = w->top[row];
#if LAZY_RESCALE
    const int rescale = top > before + LAZY_LIMIT;
#else
    const int rescale = 1;
#endif
    if (rescale) {
        const float now = top > before ? top : before;
        const float factor = exp2f(before - now);
        w->top[row] = now;
        w->sum[row] *= factor;
        float *output = w->output + row * stride;
        for (int d = 0; d < stride; d++)
            output[d] *= factor;
    }

    const float base = w->top[row];
    vec total = {0};
#if FAST_EXP
    for (int j = 0; j < padded; j += VECTOR) {
        vec x;
        LOAD(x, score + j);
        x -= base;
        exp2_vector(&x);
        total += x;
        STORE(score + j, x);
    }
#else
    for (int j = 0; j < padded; j++)
        score[j] = exp2f(score[j] - base);
    for (int j = 0; j < padded; j += VECTOR) {
        vec x;
        LOAD(x, score + j);
        total += x;
    }
#endif
    float sum = 0.0f;
    STORE(lane, total);
    for (int l = 0; l < VECTOR; l++)
        sum += lane[l];
    w->sum[row] += sum;
}

/* One tile of `queries` queries against all the keys of its head. */
static void attend(struct workspace *w, const float *Q, const float *K, const float *V, float *O, int queries,
                   int sequence, int head)
{
    const int stride = round_up(head, VECTOR);
    const int rows = round_up(queries, ROWS);
    copy_rows(Q, queries, head, 1.44269504f / sqrtf((float)head), w->query, stride, rows);
    memset(w->output, 0, sizeof(float) * (size_t)(rows * stride));
    for (int r = 0; r < rows; r++) {
        w->top[r] = -INFINITY;
        w->sum[r] = 0.0f;
    }

    for (int first = 0; first < sequence; first += BLOCK_N) {
        const int keys = sequence - first < BLOCK_N ? sequence - first : BLOCK_N;
        const float *key = K + (int64_t)first * head;
        const float *value = V + (int64_t)first * head;

#if PACK_K
        pack_keys(key, keys, head, w->tile);
        for (int j = 0; j < keys; j += PANEL)
            for (int r = 0; r < rows; r += ROWS)
                score_tile(w->query + r * stride, stride, w->tile + j * head, head, w->score + r * BLOCK_N + j);
#else
        /* Whole vectors along D and whole groups of COLS keys can be read in place. */
        if (stride != head || keys % COLS != 0) {
            copy_rows(key, keys, head, 1.0f, w->tile, stride, round_up(keys, COLS));
            key = w->tile;
        }
        for (int j = 0; j < keys; j += COLS)
            for (int r = 0; r < rows; r += ROWS)
                score_tile(w->query + r * stride, stride, key + j * stride, stride, w->score + r * BLOCK_N + j);
#endif

        for (int r = 0; r < queries; r++)
            softmax_row(w, r, keys, stride);

        if (stride != head) {
            copy_rows(value, keys, head, 1.0f, w->tile, stride, keys);
            value = w->tile;
        }
        for (int r = 0; r < rows; r += ROWS) {
            const float *weight = w->score + r * BLOCK_N;
            float *output = w->output + r * stride;
            int d = 0;
            for (; d + PANEL <= stride; d += PANEL)
                value_tile(weight, value + d, stride, keys, output + d, stride, COLS);
            for (; d < stride; d += VECTOR)
                value_tile(weight, value + d, stride, keys, output + d, stride, 1);
        }
    }

    for (int r = 0; r < queries; r++) {
        const float scale = 1.0f / w->sum[r];
        for (int d = 0; d < head; d++)
            O[(int64_t)r * head + d] = w->output[r * stride + d] * scale;
    }
}

static void *work(void *argument)
{
    const struct job *job = argument;
    const int64_t tiles_per_head = ((int64_t)job->sequence + BLOCK_M - 1) / BLOCK_M;
    struct workspace w;
    for (int64_t tile = job->first; tile < job->last; tile++) {
        const int64_t matrix = tile / tiles_per_head * job->sequence * job->head;
        const int64_t query = tile % tiles_per_head * BLOCK_M;
        const int64_t left = job->sequence - query;
        attend(&w, job->Q + matrix + query * job->head, job->K + matrix, job->V + matrix,
               job->O + matrix + query * job->head, left < BLOCK_M ? (int)left : BLOCK_M, job->sequence, job->head);
    }
    return NULL;
}

void attention(const float *Q, const float *K, const float *V, float *O, int32_t B, int32_t H, int32_t S, int32_t D)
{
    if (B <= 0 || H <= 0 || S <= 0 || D <= 0 || D > HEAD_MAX)
        return;
    const int64_t tiles = ((int64_t)S + BLOCK_M - 1) / BLOCK_M * B * H;
    struct job job[THREADS];
    for (int t = 0; t < THREADS; t++)
        job[t] = (struct job){Q, K, V, O, S, D, tiles * t / THREADS, tiles * (t + 1) / THREADS};

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
