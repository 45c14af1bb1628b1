// The thread that loads.

#pragma once

#include "layout.cuh"

struct Loader {
    const Plan &plan;
    const Places &places;
    const TensorMap *Q_map;
    unsigned finished; // A bit per warpgroup: it has been told that there are no more tiles.

    __device__ void send_queries(int warpgroup, unsigned n, int head, int row)
    {
        for (int h = 0; h < HALVES; h++)
            copy_in(places.queries_of(warpgroup, n) + h * Q_PART, Q_map, 64 * h, row, head, places.ready(warpgroup, n));
    }

    // Describes the tile that a warpgroup's walk has come to, and sends its queries if they are not `sent`.
    __device__ void give(Notes &notes, int warpgroup, bool sent)
    {
        const Tile tile = notes.walk.tile(plan);
        const unsigned n = notes.given++, ready = places.ready(warpgroup, n);
        notes.tiles[n % (QUERY_STAGES + 1)] = tile;
        if (tile.blocks > 0) {
            // Bytes may land before they are expected: the phase lasts until this arrival all the same.
            barrier_expect(ready, Q_BYTES);
            if (!sent)
                send_queries(warpgroup, n, tile.head, tile.row);
        } else {
            finished |= 1u << warpgroup;
            barrier_arrive(ready, 1);
        }
    }

    // The first keys and queries of all. With clusters without the keys: the other block may not be there yet.
    __device__ void begin(int group, const TensorMap *K_map)
    {
        const Unit unit = plan.unit(0);
        const int tiles = padded(unit);
        if (CLUSTER == 1 && tiles > 0)
            send(0, places.keys_full(0), places.keys, K_map, unit.head / group, 0);
        for (int i = 0; i < CONSUMERS; i++)
            if (i < tiles)
                send_queries(i, 0, unit.head, (i < unit.tiles ? unit.tile(i) : plan.tiles) * TILE_ROWS);
#pragma unroll 1
        for (int i = 0; i < CONSUMERS; i++) {
            Notes &notes = notes_of(i);
            notes.given = 0;
            notes.walk.begin(plan, unit, i);
            give(notes, i, i < tiles);
        }
    }

    __device__ void look_after_queries()
    {
#pragma unroll 1
        for (int i = 0; i < CONSUMERS; i++) {
            Notes &notes = notes_of(i);
            const unsigned n = notes.given;
            if ((finished >> i & 1) == 0 && barrier_is_over(places.free(i, n), (n / QUERY_STAGES + 1) % 2)) {
                notes.walk.advance(plan, i);
                give(notes, i, false);
            }
        }
    }

    // A block of keys or values to a stage that is free. In a cluster each sends a part of its rows to all: bytes may come
    // from another block before this one expects them, which is no harm (see `give`).
    __device__ void send(unsigned stage, unsigned full, unsigned parts, const TensorMap *map, int head, int block)
    {
        barrier_expect(full + 8 * stage, KV_BYTES);
        for (int h = 0; h < HALVES; h++)
            if (CLUSTER > 1) {
                const int rank = blockIdx.x % CLUSTER, first = rank * (BLOCK_N / CLUSTER);
                copy_in_all(parts + stage * KV_BYTES + h * KV_PART + first * 128, map, 64 * h, block * BLOCK_N + first, head,
                            full + 8 * stage);
            } else {
                copy_in(parts + stage * KV_BYTES + h * KV_PART, map, 64 * h, block * BLOCK_N, head, full + 8 * stage);
            }
    }

    // The same at its place in the ring, as soon as that is free.
    __device__ void fill(unsigned at, unsigned full, unsigned empty, unsigned parts, const TensorMap *map, int head,
                         int block)
    {
        const unsigned stage = at % STAGES;
        while (!barrier_is_over(empty + 8 * stage, at / STAGES % 2 ^ 1))
            look_after_queries();
        send(stage, full, parts, map, head, block);
    }

    // All that `begin` has not sent.
    __device__ void run(int group, const TensorMap *K_map, const TensorMap *V_map)
    {
        unsigned ring = 0;
        Unit unit = plan.unit(0);
        for (int round = 0; unit.exists(); unit = plan.unit(++round)) {
            const int head = unit.head / group;
            // A block of values is needed one step later than the keys, so it comes after the next block of keys.
            for (int block = 0; block <= unit.blocks; block++) {
                if (block < unit.blocks && (CLUSTER > 1 || ring + block > 0))
                    fill(ring + block, places.keys_full(0), places.keys_empty(0), places.keys, K_map, head, block);
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
