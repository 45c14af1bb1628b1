/* C = A + B in f32, on one thread.
 *
 * Two loads, one add, one store: memory decides, and this kernel exists to show that. Streaming (non-temporal)
 * stores are left out on purpose: they would change the traffic itself by not reading C's lines before
 * overwriting them, and the question here is whether the shape of the loop matters. */

#include <stdint.h>
#include <string.h>

#ifndef VECTOR /* Floats per vector. */
#define VECTOR 8
#endif
#ifndef UNROLL /* Vectors per step of the main loop. */
#define UNROLL 1
#endif
#ifndef PREFETCH /* How many bytes ahead each step asks for A and B; 0 leaves it to the hardware. */
#define PREFETCH 0
#endif
#ifndef PREFETCH_KEEP /* 1: into all cache levels. 0: marked as used once. */
#define PREFETCH_KEEP 0
#endif

_Static_assert(VECTOR == 4 || VECTOR == 8 || VECTOR == 16, "VECTOR must be 4, 8 or 16");
_Static_assert(UNROLL >= 1 && UNROLL <= 16, "UNROLL must be between 1 and 16");
_Static_assert(PREFETCH >= 0 && PREFETCH % 64 == 0, "PREFETCH must be a whole number of 64-byte lines");
_Static_assert(PREFETCH_KEEP == 0 || PREFETCH_KEEP == 1, "PREFETCH_KEEP must be 0 or 1");
_Static_assert(PREFETCH > 0 || PREFETCH_KEEP == 0, "PREFETCH_KEEP means nothing without PREFETCH");

/* Clang and gcc spell the unroll request differently, and macros expand in a pragma only through _Pragma. */
#define PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define UNROLL_FULLY PRAGMA(unroll 16)
#else
#define UNROLL_FULLY PRAGMA(GCC unroll 16)
#endif

typedef float vec __attribute__((vector_size(VECTOR * sizeof(float))));

#define STEP (VECTOR * UNROLL)
#define LINE 16 /* Floats in a 64-byte cache line. */
#define AHEAD (PREFETCH / 4)

/* One step. Memory is reached through memcpy, so nothing is assumed about alignment. All loads come before the first
 * store, so the compiler need not wonder whether C overlaps A or B. */
static inline __attribute__((always_inline)) void add_step(const float *a, const float *b, float *c)
{
    vec x[UNROLL], y[UNROLL];
    UNROLL_FULLY
    for (int u = 0; u < UNROLL; u++) {
        memcpy(&x[u], a + u * VECTOR, sizeof(vec));
        memcpy(&y[u], b + u * VECTOR, sizeof(vec));
    }
    UNROLL_FULLY
    for (int u = 0; u < UNROLL; u++) {
        x[u] += y[u];
        memcpy(c + u * VECTOR, &x[u], sizeof(vec));
    }
}

void vector_add(const float *A, const float *B, float *C, int32_t N)
{
    const int64_t n = N;
    int64_t i = 0;
#if PREFETCH > 0
    /* Stops early enough that even the addresses asked for lie inside the buffers. */
    for (; i + AHEAD + STEP <= n; i += STEP) {
        UNROLL_FULLY
        for (int line = 0; line < STEP; line += LINE) {
            __builtin_prefetch(A + i + AHEAD + line, 0, PREFETCH_KEEP * 3);
            __builtin_prefetch(B + i + AHEAD + line, 0, PREFETCH_KEEP * 3);
        }
        add_step(A + i, B + i, C + i);
    }
#endif
    for (; i + STEP <= n; i += STEP)
        add_step(A + i, B + i, C + i);
    for (; i < n; i++)
        C[i] = A[i] + B[i];
}
