/* C = A + B for a machine without a GPU, and the ways a C kernel can go wrong instead.
 *
 * BEHAVIOUR says which: 0 honest, 1 writes to address zero, 2 aborts, 3 never ends, 4 is wrong at every seventh
 * element, 5 writes past the end of C, 6 writes nothing. TWIN does nothing: two configs that differ in it are the same
 * kernel.
 */
#include <stdlib.h>

#ifndef STRIP
#define STRIP 1
#endif
#ifndef BEHAVIOUR
#define BEHAVIOUR 0
#endif
#ifndef TWIN
#define TWIN 0
#endif

_Static_assert(STRIP >= 1, "STRIP must be at least 1");
_Static_assert(BEHAVIOUR >= 0 && BEHAVIOUR <= 6, "BEHAVIOUR must be between 0 and 6");
_Static_assert(TWIN >= 0, "TWIN is a label");

void hello(const float *A, const float *B, float *C, int N)
{
    if (BEHAVIOUR == 1)
        *(volatile float *)0 = 1.0f;
    if (BEHAVIOUR == 2)
        abort();
    if (BEHAVIOUR == 3)
        for (volatile int forever = 1; forever;) {
        }
    if (BEHAVIOUR == 6)
        return;
    /* Strips far apart defeat the hardware's prefetching: STRIP = 1 walks straight on and is the best. */
    for (int start = 0; start < STRIP; start++)
        for (int i = start; i < N; i += STRIP)
            C[i] = A[i] + B[i] + (BEHAVIOUR == 4 && i % 7 == 0 ? 0.1f : 0.0f);
    if (BEHAVIOUR == 5)
        for (int i = 0; i < 64; i++)
            ((volatile float *)C)[N + i] = 1.0f;
}
