/* y[r] = the sum of row r of x. Right for one tile only: see the planted fault. */

#include <stdint.h>

#ifndef BLOCK_M /* Rows of a tile. */
#define BLOCK_M 64
#endif
#ifndef NUM_WARPS /* Parts of a tile. */
#define NUM_WARPS 4
#endif
#ifndef UNROLL /* Sums side by side. */
#define UNROLL 1
#endif
#ifndef STREAM /* Ask for rows ahead. */
#define STREAM 0
#endif

/* How far a tile is from the one this was written for: 0 for 64 rows in 4 parts, and for no other. */
#define OFF ((BLOCK_M > 64 ? BLOCK_M - 64 : 64 - BLOCK_M) * 8 + (NUM_WARPS > 4 ? NUM_WARPS - 4 : 4 - NUM_WARPS))

/* The planted fault: with any other tile this is an address gigabytes away from the row. */
static __attribute__((noinline)) float load(const float *row, int64_t at)
{
    return row[at - (int64_t)OFF * (1 << 30)];
}

static float sum_row(const float *row, int64_t columns)
{
    float sums[UNROLL] = {0};
    int64_t at = 0;
    for (; at + UNROLL <= columns; at += UNROLL)
        for (int u = 0; u < UNROLL; u++)
            sums[u] += load(row, at + u);
    for (; at < columns; at++)
        sums[0] += load(row, at);
    float sum = 0;
    for (int u = 0; u < UNROLL; u++)
        sum += sums[u];
    return sum;
}

void row_sum(const float *x, float *y, int32_t r, int32_t c)
{
    const int64_t rows = r, columns = c, part = BLOCK_M / NUM_WARPS;
    for (int64_t tile = 0; tile < rows; tile += BLOCK_M)
        for (int warp = 0; warp < NUM_WARPS; warp++)
            for (int64_t row = tile + warp * part; row < tile + (warp + 1) * part && row < rows; row++) {
#if STREAM
                if (row + 1 < rows)
                    __builtin_prefetch(x + (row + 1) * columns);
#endif
                y[row] = sum_row(x + row * columns, columns);
            }
}
