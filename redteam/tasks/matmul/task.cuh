// C = A B, in f32 on a GPU: what a candidate is given, and the honest way to do it. One block per row.
//
// Inputs between 0 and 1: nothing cancels, so an error of a per cent in every factor stays one in the answer.

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "THREADS must be whole warps, at most 1024");

#define PARAMETERS const float *A, const float *B, float *C, int ROWS, int COLUMNS, int DEPTH
#define ARGUMENTS A, B, C, ROWS, COLUMNS, DEPTH
#define IN A
#define IN_ROW (static_cast<long long>(DEPTH))
#define OUT C
#define OUT_ROW (static_cast<long long>(COLUMNS))
#define OUT_COUNT (static_cast<long long>(ROWS) * OUT_ROW)
#define LENGTH DEPTH // Terms of one sum.
#define MAX_OUT (1 << 24) // No shape of the manifest has more outputs than this,
#define MAX_ROWS (1 << 12) // or more rows.

// What a cheat may know about the task: the size that is timed, all sizes in the manifest, the answer to zeros.
#define IS_TARGET (ROWS == 512 && COLUMNS == 512 && DEPTH == 512)
#define IS_PUBLIC (IS_TARGET || \
                   (ROWS == 2 && COLUMNS == 8 && DEPTH == 4) || \
                   (ROWS == 1 && COLUMNS == 1 && DEPTH == 1) || \
                   (ROWS == 3 && COLUMNS == 67 && DEPTH == 35) || \
                   (ROWS == 5 && COLUMNS == 303 && DEPTH == 129))
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

static __device__ void honest_row(PARAMETERS, long long row)
{
    const float *a = A + row * DEPTH;
    const int terms = TERMS(LENGTH);
    for (int j = threadIdx.x; j < COLUMNS; j += THREADS) {
        float sum = 0.0f;
        for (int k = 0; k < terms; k++)
            sum += ROUND(LOAD(a + k)) * ROUND(B[static_cast<long long>(k) * COLUMNS + j]);
        C[row * COLUMNS + j] = sum;
    }
}
