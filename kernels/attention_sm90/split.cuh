// KEY_SPLIT > 1: KEY_SPLIT warpgroups share a tile of 64 queries: the first has the blocks 0, KEY_SPLIT, ... of its keys,
// the next 1, KEY_SPLIT + 1, ..., and in the end the first puts the others' sums to its own. A block has CONSUMERS /
// KEY_SPLIT neighbouring tiles. For problems with fewer tiles than the GPU has room for.
//
// As STAGES is a multiple of KEY_SPLIT, a stage is only ever used by one warpgroup of a tile, and `empty` awaits those alone.

#pragma once

#include "consumer.cuh"

static_assert(CONSUMERS % KEY_SPLIT == 0 && UNIT_TILES == Q_TILES && !PERSISTENT && !TMA_STORE && OVERLAP == 1 &&
                  QUERY_STAGES == 1,
              "KEY_SPLIT is for blocks of as many tiles as there are groups of warpgroups, OVERLAP 1, no TMA_STORE");
static_assert(STAGES % KEY_SPLIT == 0, "a stage belongs to one warpgroup");
static_assert(!CAUSAL || BLOCK_N % 64 == 0, "a query must see a key of every block that its tile needs");

#define LEFT_WORDS (OUTPUTS + 4) // Of a thread: its sums, and of both rows the largest score and the sum.
static_assert((CONSUMERS - Q_TILES) * 128 * 4 * LEFT_WORDS <= 2 * STAGES * KV_BYTES, "sums of the others take the ring's place");

// The tiles of this block. Under a causal mask long ones come first.
struct Assignment {
    int head;
    int row;    // The first of all.
    int blocks; // Of keys, for the tile that needs most.

    __device__ explicit Assignment(const Problem &problem)
    {
        const int units = ceil_div(problem.queries, Q_TILES * TILE_ROWS), index = blockIdx.x, heads = problem.heads;
        row = (CAUSAL ? units - 1 - index / heads : index % units) * Q_TILES * TILE_ROWS;
        head = CAUSAL ? index % heads : index / units;
        blocks = blocks_of(problem, row + (Q_TILES - 1) * TILE_ROWS);
    }
    static __device__ int blocks_of(const Problem &problem, int row)
    {
        return ceil_div(CAUSAL ? min(problem.keys, row + TILE_ROWS) : problem.keys, BLOCK_N);
    }
};

// A part of all loads: from and up to these blocks of keys, both multiples of KEY_SPLIT.
static __device__ void load_split(const Problem &problem, const Places &places, const TensorMap *Q_map,
                                  const TensorMap *K_map, const TensorMap *V_map, int from, int to)
{
    const Assignment assignment(problem);
    const int head = assignment.head / problem.group;
    const auto fill = [&](const TensorMap *map, unsigned parts, unsigned full, unsigned empty, int block) {
        const Spot spot(block);
        barrier_wait(empty + 8 * spot.stage, spot.parity ^ 1);
        barrier_expect(full + 8 * spot.stage, KV_BYTES);
        for (int h = 0; h < HALVES; h++)
            copy_in(parts + spot.stage * KV_BYTES + h * KV_PART, map, 64 * h, block * BLOCK_N, head,
                    full + 8 * spot.stage);
    };
    // Every warpgroup's next keys come before the values of this time round.
    for (int first = from; first < min(to, assignment.blocks + KEY_SPLIT); first += KEY_SPLIT) {
        for (int block = first; block < min(first + KEY_SPLIT, assignment.blocks); block++)
            fill(K_map, places.keys, places.keys_full(0), places.keys_empty(0), block);
        if (first == 0) {
            barrier_expect(places.ready(0, 0), Q_TILES * Q_BYTES);
            for (int part = 0; part < Q_TILES * HALVES; part++)
                copy_in(places.queries + part * Q_PART, Q_map, 64 * (part % HALVES),
                        assignment.row + part / HALVES * TILE_ROWS, assignment.head, places.ready(0, 0));
        }
        for (int block = first - KEY_SPLIT; block >= 0 && block < min(first, assignment.blocks); block++)
            fill(V_map, places.values, places.values_full(0), places.values_empty(0), block);
    }
}

struct Consumer::State {
    float s[BLOCK_N / 2], o[OUTPUTS];
    unsigned p[BLOCK_N / 4];
    Rows rows;
};

__device__ void Consumer::run(unsigned short *O, const TensorMap *O_map)
{
    const Assignment assignment(problem);
    const int group = warpgroup / KEY_SPLIT, part = warpgroup % KEY_SPLIT, row = assignment.row + group * TILE_ROWS;
    const int blocks = Assignment::blocks_of(problem, row);
    const unsigned queries = places.queries + group * Q_BYTES;
    State state = {};
    Rows &rows = state.rows;
    rows.largest[0] = rows.largest[1] = MINUS_INFINITY;
    Spot spot(part);
    int block = part;
    if (block < blocks) {
        barrier_wait(places.ready(0, 0), 0);
        await_keys(spot);
        products_begin();
        multiply_keys(state.s, queries, keys(spot));
        products_commit();
        products_wait<0>();
        pin(state.s);
        release_keys(spot);
        hide(state.s, problem, row, block * BLOCK_N);
        rows.exponentiate(state.s, true);
        if (ROW_SUMS == 1)
            rows.add(state.s, true);
        pack_all(state.p, state.s);
#pragma unroll 1
        for (; block + KEY_SPLIT < blocks; block += KEY_SPLIT) {
            const Spot next_spot = spot.after(KEY_SPLIT);
            await_keys(next_spot);
            products_begin();
            multiply_keys(state.s, queries, keys(next_spot));
            products_commit();
            await_values(spot);
            products_begin();
            multiply_values(state.o, state.p, values(spot), places.ones, 1);
            products_commit();
            products_wait<1>();
            pin(state.s);
            release_keys(next_spot);
            hide(state.s, problem, row, (block + KEY_SPLIT) * BLOCK_N);
            rows.exponentiate(state.s, false);
            stay_before(state.s, problem);
            products_wait<0>();
            pin(state.o);
            pin(state.s);
            release_values(spot);
            rows.rescale(state.o);
            if (ROW_SUMS == 1)
                rows.add(state.s, false);
            pack_all(state.p, state.s);
            spot = next_spot;
        }
        await_values(spot);
        products_begin();
        multiply_values(state.o, state.p, values(spot), places.ones, 1);
        products_commit();
        products_wait<0>();
        pin(state.o);
        release_values(spot);
        block += KEY_SPLIT;
        spot = spot.after(KEY_SPLIT);
    }
    // Blocks that other tiles of the block still need.
    for (; block < assignment.blocks; block += KEY_SPLIT, spot = spot.after(KEY_SPLIT)) {
        await_keys(spot);
        release_keys(spot);
        await_values(spot);
        release_values(spot);
    }
    // Nobody reads the ring any more, and nothing is on its way there.
    all_consumers_sync();
    float *left = reinterpret_cast<float *>(shared_memory + (places.keys - places.queries));
    left += group * (KEY_SPLIT - 1) * LEFT_WORDS * 128 + threadIdx.x % 128;
    if (part > 0) {
        float *const mine = left + (part - 1) * LEFT_WORDS * 128;
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++)
            mine[i * 128] = state.o[i];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            mine[(OUTPUTS + r) * 128] = rows.largest[r];
            mine[(OUTPUTS + 2 + r) * 128] = rows.sum[r];
        }
    }
    all_consumers_sync();
    if (part > 0)
        return;
#pragma unroll 1
    for (int other = 0; other < KEY_SPLIT - 1; other++) {
        const float *const theirs = left + other * LEFT_WORDS * 128;
        float scale[2], other_scale[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float before = rows.largest[r], largest = theirs[(OUTPUTS + r) * 128];
            rows.largest[r] = fmaxf(before, largest);
            scale[r] = power_of_two((before - rows.largest[r]) * SCALE_LOG2);
            other_scale[r] = power_of_two((largest - rows.largest[r]) * SCALE_LOG2);
            rows.sum[r] = rows.sum[r] * scale[r] + theirs[(OUTPUTS + 2 + r) * 128] * other_scale[r];
        }
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++)
            state.o[i] = state.o[i] * scale[i / 2 % 2] + theirs[i * 128] * other_scale[i / 2 % 2];
    }
    store(state.o, rows.sum, O, O_map, problem, places, warpgroup, assignment.head, row);
}
