// What the warpgroups that compute have in common, however they overlap things.

#pragma once

#include "softmax.cuh"
#include "store.cuh"
#include "wgmma.cuh"

// S = Q K^T for 64 queries and one block of keys.
static __device__ void multiply_keys(float (&s)[BLOCK_N / 2], unsigned queries, unsigned keys)
{
    const Descriptor a = describe(queries, 16), b = describe(keys, 16);
#pragma unroll
    for (int k = 0; k < HEAD_DIM / 16; k++)
        Shared<BLOCK_N>::multiply(s, a + ((k / 4 * Q_PART + k % 4 * 32) >> 4), b + ((k / 4 * KV_PART + k % 4 * 32) >> 4),
                                  k > 0);
}

// O += P V, or O = P V without `keep`.
static __device__ void multiply_values(float (&o)[OUTPUTS], const unsigned (&p)[BLOCK_N / 4], unsigned values, unsigned ones,
                                       int keep)
{
    // From the first 64 columns to the next, which are the other half of V, or the ones: always the same, wherever in V.
    const Descriptor b = describe(values, ROW_SUMS == 2 ? ones - values : KV_PART);
    const Descriptor step = (16 * 128 >> 4) - (ROW_SUMS == 2 ? static_cast<Descriptor>(16 * 128 >> 4) << 16 : 0);
#pragma unroll
    for (int k = 0; k < BLOCK_N / 16; k++)
        Registers<2 * OUTPUTS>::multiply(o, p + 4 * k, b + k * step, k == 0 ? keep : 1);
}

// A place in the ring of stages: which stage, and the parity of the use of it.
struct Spot {
    unsigned stage, parity;

    explicit __device__ Spot(unsigned at) : stage(at % STAGES), parity(at / STAGES % 2) {}
    // The place so many blocks, at most STAGES, later.
    __device__ Spot after(unsigned blocks = 1) const
    {
        Spot next = *this;
        const bool wraps = stage + blocks >= STAGES;
        next.stage = stage + blocks - (wraps ? STAGES : 0);
        next.parity ^= wraps;
        return next;
    }
};

// A warpgroup that computes.
struct Consumer {
    const Problem &problem;
    const Places &places;
    int warpgroup;
    unsigned received; // Tiles, so far.

    // The next tile; its queries are there.
    __device__ Tile receive()
    {
        barrier_wait(places.ready(warpgroup, received), received / QUERY_STAGES % 2);
        received++;
        return last_received();
    }
    // The first lane of a warp reads it and hands it on: the same lane says later that it may be written anew, so that the order
    // of the two is plain, to compute-sanitizer as well.
    __device__ Tile last_received() const
    {
        Tile tile = {};
        if (threadIdx.x % 32 == 0)
            tile = notes_of(warpgroup).tiles[(received - 1) % (QUERY_STAGES + 1)];
        return tile.from_first_lane();
    }

    __device__ void await_keys(Spot spot) const { barrier_wait(places.keys_full(spot.stage), spot.parity); }
    __device__ void await_values(Spot spot) const { barrier_wait(places.values_full(spot.stage), spot.parity); }
    __device__ void release_keys(Spot spot) const
    {
        release(places.keys_empty(spot.stage));
    }
    __device__ void release_values(Spot spot) const
    {
        release(places.values_empty(spot.stage));
    }
    // One arrival of this warp, in every block of a cluster.
    __device__ void release(unsigned empty) const
    {
        if (CLUSTER > 1 && threadIdx.x % 32 < CLUSTER)
            barrier_arrive_in(empty, threadIdx.x % 32);
        if (CLUSTER == 1 && threadIdx.x % 32 == 0)
            barrier_arrive(empty, 1);
    }
    __device__ unsigned queries() const { return places.queries_of(warpgroup, received - 1); }
    __device__ unsigned keys(Spot spot) const { return places.keys + spot.stage * KV_BYTES; }
    __device__ unsigned values(Spot spot) const { return places.values + spot.stage * KV_BYTES; }

    // Takes part in the uses of stages between the last tile and this one.
    __device__ void pass(const Tile &tile) const
    {
        if (tile.skipped == 0)
            return;
        for (unsigned at = tile.ring - tile.skipped; at != tile.ring; at++) {
            const Spot spot(at);
            await_keys(spot);
            release_keys(spot);
            await_values(spot);
            release_values(spot);
        }
        __syncwarp();
    }

    // After the scores of a block: its keys, and at the end of a tile the queries, are free.
    __device__ void scores_done(const Tile &tile, int block, Spot spot)
    {
        if (block >= tile.kept)
            release_keys(spot);
        if (block + 1 == tile.blocks && !tile.is_idle())
            free_queries(received - 1);
    }
    __device__ void free_queries(unsigned n) const
    {
        if (threadIdx.x % 32 == 0)
            barrier_arrive(places.free(warpgroup, n), 1);
    }

    // A block of a cluster must not end while warps of the other may still arrive at its barriers, nor before what it has sent
    // there has landed: so not until all of both have released every stage for the last time. To be called when there are no
    // more tiles.
    __device__ void outlast_the_cluster() const
    {
        Spot spot(last_received().ring); // Behind the last block.
#pragma unroll 1
        for (int i = 0; i < STAGES; i++, spot = spot.after()) {
            barrier_wait(places.keys_empty(spot.stage), spot.parity ^ 1);
            barrier_wait(places.values_empty(spot.stage), spot.parity ^ 1);
        }
    }

    // PING_PONG: a warpgroup sends off products only when it is its turn, and hands the turn on as soon as they are sent off:
    // they run one warpgroup's after another's, and whoever's are done is in its softmax while the next one's run.
    //
    // This cannot hang. With DENSE all warpgroups make the same steps over the same blocks in the same order, so all take
    // equally many turns. Whoever has the turn, or is about to take it, waits at most for its queries, which depend on no
    // other warpgroup, and for blocks that the loader sends once all have released those STAGES places before, also in the
    // other block of a cluster. They do so when products of earlier steps are over, for which everyone has had the turn, and
    // without waiting for another one first.
    __device__ void take_turn() const
    {
        if (PING_PONG)
            turn_await(warpgroup);
    }
    __device__ void hand_on() const
    {
        if (PING_PONG)
            turn_give(warpgroup + 1 == CONSUMERS ? 0 : warpgroup + 1);
    }
    // At the start the first has the turn, and in the end it takes it out of circulation.
    __device__ void turns_begin() const
    {
        if (PING_PONG && warpgroup + 1 == CONSUMERS)
            hand_on();
    }
    __device__ void turns_end() const
    {
        if (PING_PONG && warpgroup == 0)
            take_turn();
    }

    __device__ void run(unsigned short *O, const TensorMap *O_map);
    struct State;
#if OVERLAP == 1
    template <bool ENDS, bool HIDES>
    __device__ void step(State &state, const Tile &next, int next_block, Spot next_spot);
#elif OVERLAP == 2
    template <bool STEADY>
    __device__ bool step(State &state, float (&s)[BLOCK_N / 2], float (&next_s)[BLOCK_N / 2]);
    __device__ void finish(State &state, float (&s)[BLOCK_N / 2]);
    template <bool STEADY> __device__ void weigh(State &state, float (&s)[BLOCK_N / 2]);
#endif
};
