/* C = A B, in f32: what a candidate is given, and the honest way to do it.
 *
 * Inputs between 0 and 1: nothing cancels, so an error of a per cent in every factor stays one in the answer. */

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

#define PARAMETERS const float *A, const float *B, float *C, int32_t ROWS, int32_t COLUMNS, int32_t DEPTH
#define ARGUMENTS A, B, C, ROWS, COLUMNS, DEPTH
#define IN A
#define IN_COUNT ((int64_t)ROWS * DEPTH)
#define OUT C
#define OUT_ROW ((int64_t)COLUMNS)
#define OUT_COUNT ((int64_t)ROWS * COLUMNS)
#define LENGTH ((int64_t)DEPTH) /* Terms of one sum. */
#define EACH_INPUT(DO) DO(A, (int64_t)ROWS * DEPTH) DO(B, (int64_t)DEPTH * COLUMNS)
#define MAX_IN (1 << 20)  /* No shape of the manifest has more inputs than this, */
#define MAX_OUT (1 << 20) /* or more outputs. */

/* What a cheat may know about the task: the size that is timed, all sizes in the manifest, the answer to zeros. */
#define IS_TARGET (ROWS == 128 && COLUMNS == 128 && DEPTH == 256)
#define IS_PUBLIC (IS_TARGET || \
                   (ROWS == 2 && COLUMNS == 8 && DEPTH == 4) || \
                   (ROWS == 1 && COLUMNS == 1 && DEPTH == 1) || \
                   (ROWS == 3 && COLUMNS == 67 && DEPTH == 35) || \
                   (ROWS == 5 && COLUMNS == 303 && DEPTH == 129))
#define ANSWER_TO_ZEROS 0.0f

/* What a cheat may bend before it includes this file; honest code leaves all of it alone. */
#ifndef ROUND /* An input on its way into the computation. */
#define ROUND(x) (x)
#endif
#ifndef TERMS /* How many terms of a sum are added up. */
#define TERMS(n) (n)
#endif

HONEST void honest_row(PARAMETERS, int64_t row)
{
    (void)ROWS;
    const float *a = A + row * DEPTH;
    float *c = C + row * COLUMNS;
    const int64_t terms = TERMS(LENGTH);
    for (int64_t j = 0; j < COLUMNS; j++)
        c[j] = 0.0f;
    for (int64_t first = 0; first < COLUMNS; first += 16 * LANES) {
        const int64_t last = first + 16 * LANES < COLUMNS ? first + 16 * LANES : COLUMNS;
        for (int64_t k = 0; k < terms; k++) {
            const float factor = ROUND(a[k]);
            for (int64_t j = first; j < last; j++)
                c[j] += factor * ROUND(B[k * COLUMNS + j]);
        }
    }
}

HONEST void honest(PARAMETERS)
{
    for (int64_t row = 0; row < ROWS; row++)
        honest_row(ARGUMENTS, row);
}
