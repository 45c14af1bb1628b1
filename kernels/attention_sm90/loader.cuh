// The thread that loads.

#pragma once

#include "layout.cuh"

struct Loader {
    const Plan &plan;
    const Places &places;
    const TensorMap *Q_map;
    unsigned finished; // A bit per warpgroup: it has been told that there are no more tiles.

    // The tile that a warpgroup's walk has come to.
    __device__ void give(Notes &notes, int warpgroup)
    {
        const Tile tile = notes.walk.tile(plan);
        const unsigned n = notes.given++, ready = places.ready(warpgroup, n), to = places.queries_of(warpgroup, n);
        notes.tiles[n % (2 * Q_STAGES)] = tile;
        if (tile.blocks > 0) {
            barrier_expect(ready, Q_BYTES);
            for (int h = 0; h < HALVES; h++)
                copy_in(to + h * Q_PART, Q_map, 64 * h, tile.row, tile.head, ready);
        } else {
            finished |= 1u << warpgroup;
            barrier_arrive(ready, 1);
        }
    }

    __device__ void give_first(const Unit &unit)
    {
#pragma unroll 1
        for (int i = 0; i < CONSUMERS; i++) {
            Notes &notes = notes_of(i);
            notes.given = 0;
            notes.walk.begin(plan, unit, i);
            give(notes, i);
        }
    }

    __device__ void look_after_queries()
    {
#pragma unroll 1
        for (int i = 0; i < CONSUMERS; i++) {
            Notes &notes = notes_of(i);
            const unsigned n = notes.given;
            if ((finished >> i & 1) == 0 && barrier_is_over(places.free(i, n), (n / Q_STAGES + 1) % 2)) {
                notes.walk.advance(plan, i);
                give(notes, i);
            }
        }
    }

    // A block of keys or values to its place in the ring.
    __device__ void fill(unsigned at, unsigned full, unsigned empty, unsigned parts, const TensorMap *map, int head,
                         int block)
    {
        const unsigned stage = at % STAGES;
        while (!barrier_is_over(empty + 8 * stage, at / STAGES % 2 ^ 1))
            look_after_queries();
        barrier_expect(full + 8 * stage, KV_BYTES);
        for (int h = 0; h < HALVES; h++)
            copy_in(parts + stage * KV_BYTES + h * KV_PART, map, 64 * h, block * BLOCK_N, head, full + 8 * stage);
    }

    __device__ void run(int group, const TensorMap *K_map, const TensorMap *V_map)
    {
        unsigned ring = 0;
        Unit unit = plan.unit(0);
        if (unit.tiles == 0) // More blocks than units: everyone hears at once that there is nothing to do.
            give_first(unit);
        for (int round = 0; unit.tiles > 0; unit = plan.unit(++round)) {
            const int head = unit.head / group;
            // A block of values is needed one step later than the keys, so it comes after the next block of keys.
            for (int block = 0; block <= unit.blocks; block++) {
                if (block < unit.blocks)
                    fill(ring + block, places.keys_full(0), places.keys_empty(0), places.keys, K_map, head, block);
                if (ring + block == 0) // The first queries of all, behind the first keys.
                    give_first(unit);
                if (block > 0)
                    fill(ring + block - 1, places.values_full(0), places.values_empty(0), places.values, V_map, head,
                         block - 1);
            }
            ring += unit.blocks;
        }
        while (finished != (1u << CONSUMERS) - 1)
            look_after_queries();
    }
};
