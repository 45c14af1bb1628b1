#include <stdint.h>

/* Not static: every config has it, and they are linked into one program. */
int helper(int x) { return x * VALUE; }
int counter;

void facts(const float *x, float *y, int64_t *told, float *scratch, int n, int64_t a, int64_t b, double c, float scale) {
    for (int i = 0; i < n; i++) {
        scratch[i % UNROLL] = x[i];
        y[i] = scale * scratch[i % UNROLL];
    }
    told[0] = a;
    told[1] = b;
    told[2] = (int64_t)(c * 1000.0);
    told[3] = helper(7) / VALUE + counter;
}
