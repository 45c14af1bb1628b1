// OVERLAP = 2: under the softmax of a block run both Q K^T of the next and P V of the one before.
//
// All products must be over before sums are rescaled: the compiler serialises products, and says so (C7515), if the registers
// of any are touched while others of the same chain are under way.
//
// When a warpgroup waits for the keys of block x + 1, it has released all keys before, and all values up to x - 2. The
// loader has come as far as the values of x, at the end of a unit, for which STAGES of 2 leave room.

#pragma once

#include "consumer.cuh"

struct Consumer::State {
    unsigned short *O;
    const TensorMap *O_map;
    float o[OUTPUTS];
    unsigned p[BLOCK_N / 4];
    Rows rows;
    Tile tile; // Whose scores are next to be looked at,
    int block; // and of which block.
    // Of the block before that, whose product with the values may be under way.
    unsigned at;
    bool releases;
    int head, row; // Its tile, or a row below 0 if there was none.
};

// The exponentials of a block, with the products that are under way done by their end, and then its own with the values.
__device__ __forceinline__ void Consumer::weigh(State &state, float (&s)[BLOCK_N / 2])
{
    const Tile &tile = state.tile;
    const unsigned at = tile.ring + state.block;
    const bool fresh = state.block == 0;
    hide(s, problem, tile.row, state.block * BLOCK_N);
    const float sums[2] = {state.rows.sum[0], state.rows.sum[1]};
    state.rows.exponentiate(s, fresh);
    stay_before(s, problem);
    products_wait<0>();
    pin(state.o);
    pin(s);
    if (state.releases)
        release_values(state.at);
    if (!fresh)
        state.rows.rescale(state.o);
    else if (state.row >= 0)
        store(state.o, sums, state.O, state.O_map, problem, places, warpgroup, state.head, state.row);
    if (ROW_SUMS == 1)
        state.rows.add(s, fresh);
    pack_all(state.p, s);
    await_values(at);
    products_begin();
    multiply_values(state.o, state.p, values(at), places.ones, !fresh);
    products_commit();
    state.at = at;
    state.releases = state.block >= tile.kept;
    state.head = tile.head;
    state.row = tile.row;
}

// Sends off the scores of the next block into `next_s`, then sees to those in `s`. False if there is no next block.
__device__ __forceinline__ bool Consumer::step(State &state, float (&s)[BLOCK_N / 2], float (&next_s)[BLOCK_N / 2])
{
    Tile next = state.tile;
    int next_block = state.block + 1;
    if (next_block == next.blocks) {
        next = receive();
        next_block = 0;
        if (next.blocks == 0)
            return false;
    }
    const unsigned next_at = next.ring + next_block;
    await_keys(next_at);
    products_begin();
    multiply_keys(next_s, queries(), keys(next_at));
    products_commit();
    weigh(state, s);
    pin(next_s);
    scores_done(next, next_block);
    state.tile = next;
    state.block = next_block;
    return true;
}

__device__ __forceinline__ void Consumer::finish(State &state, float (&s)[BLOCK_N / 2])
{
    weigh(state, s);
    products_wait<0>();
    pin(state.o);
    release_values(state.at);
    store(state.o, state.rows.sum, state.O, state.O_map, problem, places, warpgroup, state.head, state.row);
}

// While the softmax of a block is computed, the tensor cores have both the scores of the next block and the product of
// the one before with its values to work on. Two blocks' scores take many registers.
__device__ void Consumer::run(unsigned short *O, const TensorMap *O_map)
{
    float s[BLOCK_N / 2], t[BLOCK_N / 2];
    State state;
    state.O = O;
    state.O_map = O_map;
    state.releases = false;
    state.row = -1;
    state.rows.sum[0] = state.rows.sum[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++)
        state.o[i] = 0.0f;
    state.tile = receive();
    state.block = 0;
    if (state.tile.blocks == 0)
        return;
    await_keys(state.tile.ring);
    products_begin();
    multiply_keys(s, queries(), keys(state.tile.ring));
    products_commit();
    products_wait<0>();
    pin(s);
    scores_done(state.tile, 0);
    for (;;) {
        if (!step(state, s, t)) {
            finish(state, s);
            return;
        }
        if (!step(state, t, s)) {
            finish(state, t);
            return;
        }
    }
}
