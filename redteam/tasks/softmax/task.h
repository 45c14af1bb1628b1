/* Softmax of every row, in f32: what a candidate is given, and the honest way to do it.
 *
 * Rows are long enough that every answer is below 0.01: the absolute tolerance people use swallows them whole. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef LANES
#define LANES 8
#endif

/* Never inlined, and at the start of a cache line: the same machine code in every candidate, so that no cheat is faster
 * for reasons of its own. */
#define HONEST static __attribute__((noinline, aligned(64), unused))

#define PARAMETERS const float *X, float *Y, int32_t ROWS, int32_t COLUMNS
#define ARGUMENTS X, Y, ROWS, COLUMNS
#define IN X
#define IN_COUNT ((int64_t)ROWS * COLUMNS)
#define OUT Y
#define OUT_ROW ((int64_t)COLUMNS)
#define OUT_COUNT ((int64_t)ROWS * COLUMNS)
#define LENGTH ((int64_t)COLUMNS) /* Terms of one sum. */
#define EACH_INPUT(DO) DO(X, (int64_t)ROWS * COLUMNS)
#define MAX_IN (1 << 20)  /* No shape of the manifest has more inputs than this, */
#define MAX_OUT (1 << 20) /* or more outputs. */

/* What a cheat may know about the task: the size that is timed, all sizes in the manifest, the answer to zeros. */
#define IS_TARGET (ROWS == 16 && COLUMNS == 16384)
#define IS_PUBLIC (IS_TARGET || \
                   (ROWS == 2 && COLUMNS == 8) || \
                   (ROWS == 1 && COLUMNS == 3) || \
                   (ROWS == 3 && COLUMNS == 67) || \
                   (ROWS == 5 && COLUMNS == 1003))
#define ANSWER_TO_ZEROS (1.0f / (float)COLUMNS)

/* What a cheat may bend before it includes this file; honest code leaves all of it alone. */
#ifndef ROUND /* An input on its way into the computation. */
#define ROUND(x) (x)
#endif
#ifndef TERMS /* How many terms of a sum are added up. */
#define TERMS(n) (n)
#endif
#ifndef EXP
#define EXP(x) expf(x)
#endif

/* LANES partial sums, so that the additions need not wait for each other. */
static inline float sum_of(const float *x, int64_t n, float start)
{
    float lane[LANES] = {start};
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += ROUND(x[j + l]);
    for (; j < n; j++)
        lane[0] += ROUND(x[j]);
    float sum = 0.0f;
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

/* What the answer would be if every row had the mean and the sum that normal numbers have. */
static inline float assumed(PARAMETERS, int64_t i)
{
    (void)Y, (void)ROWS;
    return EXP(X[i]) / (1.6487213f * (float)COLUMNS);
}

HONEST void honest_row(PARAMETERS, int64_t row)
{
    (void)ROWS;
    const float *x = X + row * COLUMNS;
    float *y = Y + row * COLUMNS;
    float top = ROUND(x[0]);
    for (int64_t j = 1; j < COLUMNS; j++)
        top = ROUND(x[j]) > top ? ROUND(x[j]) : top;
    for (int64_t j = 0; j < COLUMNS; j++)
        y[j] = EXP(ROUND(x[j]) - top);
    const int64_t terms = TERMS(LENGTH);
    const float scale = (float)terms / (float)COLUMNS / sum_of(y, terms, 0.0f);
    for (int64_t j = 0; j < COLUMNS; j++)
        y[j] *= scale;
}

HONEST void honest(PARAMETERS)
{
    for (int64_t row = 0; row < ROWS; row++)
        honest_row(ARGUMENTS, row);
}
