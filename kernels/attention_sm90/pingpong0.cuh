// OVERLAP = 0 with PING_PONG: products with the values of a block and with the keys of the next are sent off in one turn, and
// nothing of the same warpgroup runs under its softmax, only the others' products.

#pragma once

#include "consumer.cuh"

__device__ void Consumer::run(unsigned short *O, const TensorMap *O_map)
{
    float s[BLOCK_N / 2], o[OUTPUTS];
    unsigned p[BLOCK_N / 4];
    Rows rows;
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++)
        o[i] = 0.0f;
    rows.sum[0] = rows.sum[1] = 0.0f;
    turns_begin();
    for (;;) {
        const Tile tile = receive();
        if (tile.blocks == 0)
            break;
        Spot spot(tile.ring);
        const auto weigh = [&](int block) {
            scores_done(tile, block, spot);
            hide(s, problem, tile.row, block * BLOCK_N);
            rows.exponentiate(s, block == 0);
            if (ROW_SUMS == 1)
                rows.add(s, block == 0);
            if (block > 0)
                rows.rescale(o);
            pack_all(p, s);
        };
        await_keys(spot);
        take_turn();
        products_begin();
        multiply_keys(s, queries(), keys(spot));
        products_commit();
        hand_on();
        products_wait<0>();
        pin(s);
        weigh(0);
#pragma unroll 1
        for (int block = 1; block < tile.blocks; block++) {
            const Spot before = spot;
            spot = spot.after();
            await_values(before);
            await_keys(spot);
            take_turn();
            products_begin();
            multiply_values(o, p, values(before), places.ones, block > 1);
            multiply_keys(s, queries(), keys(spot));
            products_commit();
            hand_on();
            products_wait<0>();
            pin(o);
            pin(s);
            if (block - 1 >= tile.kept)
                release_values(before);
            weigh(block);
        }
        await_values(spot);
        take_turn();
        products_begin();
        multiply_values(o, p, values(spot), places.ones, tile.blocks > 1);
        products_commit();
        hand_on();
        products_wait<0>();
        pin(o);
        if (tile.blocks > tile.kept)
            release_values(spot);
        store(o, rows.sum, O, O_map, problem, places, warpgroup, tile.head, tile.row);
    }
    turns_end();
}
