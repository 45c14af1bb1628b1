/* Attention as one would first write it: scores of a query, softmax, weighted sum of the values. The compiler is
 * free to vectorise what it may; without -ffast-math it must keep the order of the sum over D. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

void attention_baseline(const float *restrict Q, const float *restrict K, const float *restrict V, float *restrict O,
                        int32_t B, int32_t H, int32_t S, int32_t D)
{
    if (B <= 0 || H <= 0 || S <= 0 || D <= 0)
        return;
    const int64_t matrix = (int64_t)S * D;
    const float scale = 1.0f / sqrtf((float)D);
    float *restrict score = malloc(sizeof(float) * (size_t)S);
    if (score == NULL)
        abort();

    for (int64_t head = 0; head < (int64_t)B * H; head++) {
        const float *k = K + head * matrix, *v = V + head * matrix;
        for (int64_t i = 0; i < S; i++) {
            const float *q = Q + head * matrix + i * D;
            float *restrict o = O + head * matrix + i * D;

            float top = -INFINITY, sum = 0.0f;
            for (int64_t j = 0; j < S; j++) {
                float dot = 0.0f;
                for (int64_t d = 0; d < D; d++)
                    dot += q[d] * k[j * D + d];
                score[j] = dot * scale;
                top = score[j] > top ? score[j] : top;
            }
            for (int64_t j = 0; j < S; j++) {
                score[j] = expf(score[j] - top);
                sum += score[j];
            }

            for (int64_t d = 0; d < D; d++)
                o[d] = 0.0f;
            for (int64_t j = 0; j < S; j++)
                for (int64_t d = 0; d < D; d++)
                    o[d] += score[j] * v[j * D + d];
            for (int64_t d = 0; d < D; d++)
                o[d] /= sum;
        }
    }
    free(score);
}
