// OVERLAP = 1: under the softmax of a block runs P V of the one before.
//
// A warpgroup that skips blocks must let them pass (Consumer::pass) before the loader can go on. It waits for the first
// keys of its next tile, the last values of this one still to be used, only if those blocks are fewer than STAGES; else it
// takes an idle step first.
//
// Steps within a tile are a loop of their own, and those that hide no keys another: with all that happens only at the end
// of a tile in the same loop it was 10 % slower.

#pragma once

#include "consumer.cuh"

struct Consumer::State {
    unsigned short *O;
    const TensorMap *O_map;
    float s[BLOCK_N / 2], o[OUTPUTS];
    unsigned p[BLOCK_N / 4];
    Rows rows;
    // p belongs to this block of this tile, which is there in the ring, and o to the blocks before.
    Tile tile;
    int block;
    Spot spot;
};

// While P V of one block runs on the tensor cores, so does Q K^T of the next, and its softmax on the other units. That
// next block is the first of the next tile, if this one ends.
template <bool ENDS, bool HIDES>
__device__ __forceinline__ void Consumer::step(State &state, const Tile &next, int next_block, Spot next_spot)
{
    const Tile &tile = state.tile;
    if (!ENDS || !next.is_idle())
        await_keys(next_spot);
    if (PING_PONG)
        await_values(state.spot);
    take_turn();
    products_begin();
    multiply_keys(state.s, queries(), keys(next_spot));
    products_commit();
    if (!PING_PONG && (!ENDS || !tile.is_idle()))
        await_values(state.spot);
    products_begin();
    multiply_values(state.o, state.p, values(state.spot), places.ones, state.block > 0);
    products_commit();
    hand_on();
    products_wait<1>();
    pin(state.s);
    scores_done(next, next_block, next_spot);
    if (HIDES)
        hide(state.s, problem, next.row, next_block * BLOCK_N);
    const float sums[2] = {state.rows.sum[0], state.rows.sum[1]};
    state.rows.exponentiate(state.s, ENDS);
    stay_before(state.s, problem);
    products_wait<0>();
    pin(state.o);
    pin(state.s);
    if (state.block >= tile.kept)
        release_values(state.spot);
    if (!ENDS) {
        state.rows.rescale(state.o);
    } else if (!tile.is_idle()) {
        store(state.o, sums, state.O, state.O_map, problem, places, warpgroup, tile.head, tile.row);
        pass(next.is_idle() ? last_received() : next);
    }
    if (ROW_SUMS == 1)
        state.rows.add(state.s, ENDS);
    pack_all(state.p, state.s);
    state.block = next_block;
    state.spot = next_spot;
}

__device__ void Consumer::run(unsigned short *O, const TensorMap *O_map)
{
    const Tile first = receive();
    pass(first);
    if (first.blocks == 0)
        return;
    State state = {O, O_map, {}, {}, {}, {}, first, 0, Spot(first.ring)};
    Tile &tile = state.tile;
    turns_begin();
    await_keys(state.spot);
    take_turn();
    products_begin();
    multiply_keys(state.s, queries(), keys(state.spot));
    products_commit();
    hand_on();
    products_wait<0>();
    pin(state.s);
    scores_done(tile, 0, state.spot);
    hide(state.s, problem, tile.row, 0);
    state.rows.exponentiate(state.s, true);
    if (ROW_SUMS == 1)
        state.rows.add(state.s, true);
    pack_all(state.p, state.s);
    for (;;) {
        const int unhidden = min(tile.blocks, unhidden_blocks(problem, tile.row));
#pragma unroll 1
        while (state.block + 1 < unhidden)
            step<false, false>(state, tile, state.block + 1, state.spot.after());
#pragma unroll 1
        while (state.block + 1 < tile.blocks)
            step<false, true>(state, tile, state.block + 1, state.spot.after());
        Tile next = tile.is_idle() ? last_received() : receive();
        if (next.blocks == 0)
            break;
        if (!DENSE && next.skipped >= STAGES && !tile.is_idle())
            next = Tile::idle();
        step<true, true>(state, next, 0, Spot(next.ring));
        tile = next;
    }
    await_values(state.spot);
    take_turn();
    products_begin();
    multiply_values(state.o, state.p, values(state.spot), places.ones, state.block > 0);
    products_commit();
    hand_on();
    products_wait<0>();
    pin(state.o);
    release_values(state.spot);
    store(state.o, state.rows.sum, O, O_map, problem, places, warpgroup, tile.head, tile.row);
    pass(last_received());
    turns_end();
}
