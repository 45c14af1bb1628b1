/* The right answer, in double: one query at a time, scores first, then softmax in two passes. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void attention_reference(const double *Q, const double *K, const double *V, double *O, int32_t B, int32_t H, int32_t S,
                         int32_t D)
{
    if (B <= 0 || H <= 0 || S <= 0 || D <= 0)
        return;
    const int64_t matrix = (int64_t)S * D;
    const double scale = 1.0 / sqrt((double)D);
    double *score = malloc(sizeof(double) * (size_t)S);
    /* Keys of one head, transposed: both inner loops then run along memory and need no reordered sum. */
    double *transposed = malloc(sizeof(double) * (size_t)matrix);
    if (score == NULL || transposed == NULL)
        abort();

    for (int64_t head = 0; head < (int64_t)B * H; head++) {
        const double *k = K + head * matrix, *v = V + head * matrix;
        for (int64_t j = 0; j < S; j++)
            for (int64_t d = 0; d < D; d++)
                transposed[d * S + j] = k[j * D + d];

        for (int64_t i = 0; i < S; i++) {
            const double *q = Q + head * matrix + i * D;
            double *o = O + head * matrix + i * D;
            for (int64_t j = 0; j < S; j++)
                score[j] = 0.0;
            for (int64_t d = 0; d < D; d++)
                for (int64_t j = 0; j < S; j++)
                    score[j] += q[d] * transposed[d * S + j];

            double top = score[0], sum = 0.0;
            for (int64_t j = 1; j < S; j++)
                top = score[j] > top ? score[j] : top;
            for (int64_t j = 0; j < S; j++) {
                score[j] = exp((score[j] - top) * scale);
                sum += score[j];
            }

            for (int64_t d = 0; d < D; d++)
                o[d] = 0.0;
            for (int64_t j = 0; j < S; j++)
                for (int64_t d = 0; d < D; d++)
                    o[d] += score[j] * v[j * D + d];
            for (int64_t d = 0; d < D; d++)
                o[d] /= sum;
        }
    }
    free(transposed);
    free(score);
}
