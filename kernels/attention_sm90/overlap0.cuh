// OVERLAP = 0.

#pragma once

#include "consumer.cuh"

// One thing after another; the other warpgroups use the tensor cores meanwhile.
__device__ void Consumer::run(unsigned short *O, const TensorMap *O_map)
{
    float s[BLOCK_N / 2], o[OUTPUTS];
    unsigned p[BLOCK_N / 4];
    Rows rows;
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++)
        o[i] = 0.0f;
    rows.sum[0] = rows.sum[1] = 0.0f;
    for (;;) {
        const Tile tile = receive();
        pass(tile);
        if (tile.blocks == 0)
            return;
        Spot spot(tile.ring);
#pragma unroll 1
        for (int block = 0; block < tile.blocks; block++, spot = spot.after()) {
            await_keys(spot);
            products_begin();
            multiply_keys(s, queries(), keys(spot));
            products_commit();
            products_wait<0>();
            pin(s);
            scores_done(tile, block, spot);
            hide(s, problem, tile.row, block * BLOCK_N);
            rows.exponentiate(s, block == 0);
            if (ROW_SUMS == 1)
                rows.add(s, block == 0);
            if (block > 0)
                rows.rescale(o);
            pack_all(p, s);
            await_values(spot);
            products_begin();
            multiply_values(o, p, values(spot), places.ones, block > 0);
            products_commit();
            products_wait<0>();
            pin(o);
            if (block >= tile.kept)
                release_values(spot);
        }
        store(o, rows.sum, O, O_map, problem, places, warpgroup, tile.head, tile.row);
    }
}
