// OVERLAP = 1: under the softmax of a block runs P V of the one before.
//
// A warpgroup that skips blocks must let them pass (Consumer::pass) before the loader can go on. It waits for the first
// keys of its next tile, the last values of this one still to be used, only if those blocks are fewer than STAGES; else it
// takes an idle step first.

#pragma once

#include "consumer.cuh"

// While P V of one block runs on the tensor cores, so does Q K^T of the next, and its softmax on the other units; that
// next block may belong to the next tile.
__device__ void Consumer::run(unsigned short *O, const TensorMap *O_map)
{
    float s[BLOCK_N / 2], o[OUTPUTS];
    unsigned p[BLOCK_N / 4];
    Rows rows;
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++)
        o[i] = 0.0f;
    rows.sum[0] = rows.sum[1] = 0.0f;
    Tile tile = receive();
    pass(tile);
    if (tile.blocks == 0)
        return;
    await_keys(tile.ring);
    products_begin();
    multiply_keys(s, queries(), keys(tile.ring));
    products_commit();
    products_wait<0>();
    pin(s);
    scores_done(tile, 0);
    hide(s, problem, tile.row, 0);
    rows.exponentiate(s, true);
    if (ROW_SUMS == 1)
        rows.add(s, true);
    pack_all(p, s);
    int block = 0;
    for (;;) {
        // Here: p belongs to `block` of `tile`, and o to the blocks before.
        const unsigned at = tile.ring + block;
        const bool ends = block + 1 == tile.blocks;
        int next_block = block + 1;
        Tile next = tile;
        if (ends) {
            next = tile.is_idle() ? last_received() : receive();
            next_block = 0;
            if (next.blocks == 0)
                break;
            if (next.skipped >= STAGES && !tile.is_idle())
                next = Tile::idle();
        }
        const unsigned next_at = next.ring + next_block;
        if (!next.is_idle())
            await_keys(next_at);
        products_begin();
        multiply_keys(s, queries(), keys(next_at));
        products_commit();
        if (!tile.is_idle())
            await_values(at);
        products_begin();
        multiply_values(o, p, values(at), places.ones, block > 0);
        products_commit();
        products_wait<1>();
        pin(s);
        scores_done(next, next_block);
        hide(s, problem, next.row, next_block * BLOCK_N);
        const float sums[2] = {rows.sum[0], rows.sum[1]};
        rows.exponentiate(s, ends);
        stay_before(s, problem);
        products_wait<0>();
        pin(o);
        pin(s);
        if (block >= tile.kept)
            release_values(at);
        if (!ends) {
            rows.rescale(o);
        } else if (!tile.is_idle()) {
            store(o, sums, O, O_map, problem, places, warpgroup, tile.head, tile.row);
            pass(next.is_idle() ? last_received() : next);
        }
        if (ROW_SUMS == 1)
            rows.add(s, ends);
        pack_all(p, s);
        tile = next;
        block = next_block;
    }
    const unsigned at = tile.ring + block;
    await_values(at);
    products_begin();
    multiply_values(o, p, values(at), places.ones, block > 0);
    products_commit();
    products_wait<0>();
    pin(o);
    release_values(at);
    store(o, rows.sum, O, O_map, problem, places, warpgroup, tile.head, tile.row);
    pass(last_received());
}
