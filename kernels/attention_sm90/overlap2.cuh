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
    int block; // and of which block,
    Spot spot; // which is there in the ring.
    // Of the block before that, whose product with the values may be under way.
    Spot before;
    bool releases;
    int head, row; // Its tile, or a row below 0 if there was none.
};

// The exponentials of a block, with the products that are under way done by their end, and then its own with the values.
template <bool STEADY> __device__ __forceinline__ void Consumer::weigh(State &state, float (&s)[BLOCK_N / 2])
{
    const Tile &tile = state.tile;
    const bool fresh = !STEADY && state.block == 0;
    if (!STEADY)
        hide(s, problem, tile.row, state.block * BLOCK_N);
    const float sums[2] = {state.rows.sum[0], state.rows.sum[1]};
    state.rows.exponentiate(s, fresh);
    stay_before(s, problem);
    products_wait<0>();
    pin(state.o);
    pin(s);
    if (state.releases)
        release_values(state.before);
    if (!fresh)
        state.rows.rescale(state.o);
    else if (state.row >= 0)
        store(state.o, sums, state.O, state.O_map, problem, places, warpgroup, state.head, state.row);
    if (ROW_SUMS == 1)
        state.rows.add(s, fresh);
    pack_all(state.p, s);
    await_values(state.spot);
    products_begin();
    multiply_values(state.o, state.p, values(state.spot), places.ones, !fresh);
    products_commit();
    state.before = state.spot;
    state.releases = state.block >= tile.kept;
    state.head = tile.head;
    state.row = tile.row;
}

// Sends off the scores of the next block into `next_s`, then sees to those in `s`. False if there is no next block.
// STEADY: this block and the next are of the same tile, neither its first, and no key is hidden.
template <bool STEADY>
__device__ __forceinline__ bool Consumer::step(State &state, float (&s)[BLOCK_N / 2], float (&next_s)[BLOCK_N / 2])
{
    Tile next = state.tile;
    int next_block = state.block + 1;
    Spot next_spot = state.spot.after();
    if (!STEADY && next_block == next.blocks) {
        next = receive();
        next_block = 0;
        next_spot = Spot(next.ring);
        if (next.blocks == 0)
            return false;
    }
    await_keys(next_spot);
    products_begin();
    multiply_keys(next_s, queries(), keys(next_spot));
    products_commit();
    weigh<STEADY>(state, s);
    pin(next_s);
    scores_done(next, next_block, next_spot);
    if (!STEADY)
        state.tile = next;
    state.block = next_block;
    state.spot = next_spot;
    return true;
}

__device__ __forceinline__ void Consumer::finish(State &state, float (&s)[BLOCK_N / 2])
{
    weigh<false>(state, s);
    products_wait<0>();
    pin(state.o);
    release_values(state.before);
    store(state.o, state.rows.sum, state.O, state.O_map, problem, places, warpgroup, state.head, state.row);
}

// While the softmax of a block is computed, the tensor cores have both the scores of the next block and the product of
// the one before with its values to work on. Two blocks' scores take many registers.
__device__ void Consumer::run(unsigned short *O, const TensorMap *O_map)
{
    const Tile first = receive();
    if (first.blocks == 0)
        return;
    float s[BLOCK_N / 2], t[BLOCK_N / 2];
    const Spot spot(first.ring);
    State state = {O, O_map, {}, {}, {}, first, 0, spot, spot, false, 0, -1};
    await_keys(spot);
    products_begin();
    multiply_keys(s, queries(), keys(spot));
    products_commit();
    products_wait<0>();
    pin(s);
    scores_done(first, 0, spot);
    for (;;) {
        const int unhidden = unhidden_blocks(problem, state.tile.row);
        // With the turns that a tile begins and ends with in the same loop it is slower.
#pragma unroll 1
        while (state.block > 0 && state.block + 2 < state.tile.blocks && state.block + 1 < unhidden) {
            step<true>(state, s, t);
            step<true>(state, t, s);
        }
        if (!step<false>(state, s, t)) {
            finish(state, s);
            return;
        }
        if (!step<false>(state, t, s)) {
            finish(state, t);
            return;
        }
    }
}
