#include <stdint.h>

void facts(const double *x, double *y, int64_t *told, double *scratch, int n, int64_t a, int64_t b, double c, double scale) {
    (void)scratch;
    for (int i = 0; i < n; i++) y[i] = scale * x[i];
    told[0] = a;
    told[1] = b;
    told[2] = (int64_t)(c * 1000.0);
    told[3] = 7;
}
