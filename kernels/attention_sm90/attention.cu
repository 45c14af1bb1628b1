// Attention forward for sm_90a: O = softmax(Q K^T / sqrt(D)) V, f16 or bf16, causal or not, D = 64 or 128.
//
// Q and O are [heads][queries][D], K and V [heads / group][keys][D], all contiguous. Any number of queries and keys is
// right; under the causal mask query i sees keys 0 ... i.
//
// A block is CONSUMERS warpgroups that compute and one thread that loads. The loader sends blocks of BLOCK_N keys, and as
// many values, through a ring of STAGES stages; every warpgroup walks through its own tiles of 64 queries (schedule.cuh)
// and reads the ring as it goes. Where all keys of a head fit into the ring (UNIT_TILES above CONSUMERS), several tiles
// are computed from one load of them.
//
// Barriers, per stage and apart for keys and values:
//   full   1 arrival, by the loader, plus the bytes. A use of a stage has the parity of ring position / STAGES.
//   empty  4 CONSUMERS arrivals, one of each warp after its last use. A warpgroup that has no use for a block waits for it
//          all the same before it arrives: so everyone takes part in every use of a stage, in order, and no parity is
//          mistaken for that of two uses before or after.
// and per warpgroup:
//   ready  1 arrival, by the loader, plus the bytes of Q: the warpgroup's next tile is described and its queries are there.
//   free   4 arrivals, one of each warp when the last scores of a tile are computed.
// With CLUSTER = 2 two blocks do all this together: each loads half of every block of keys and values into both, `full` awaits
// both halves, and `empty` the warps of both blocks, so that both loaders know when a stage is free in both (schedule.cuh says
// who computes what, async.cuh how they meet).
// The loader fills stages in the order of the ring, K one block ahead of V; whenever it has to wait it looks whether a
// warpgroup's queries are free and sends the next ones, so that neither waits for the other. Nobody waits for a block while
// holding back what the loader needs to get there (overlap1.cuh and overlap2.cuh say how).

#ifndef HEAD_DIM
#define HEAD_DIM 64
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef BF16 // 1: bf16. 0: f16.
#define BF16 0
#endif
#ifndef CONSUMERS // Warpgroups that compute.
#define CONSUMERS 3
#endif
#ifndef BLOCK_N // Keys per step.
#define BLOCK_N 128
#endif
#ifndef STAGES // Blocks of keys, and of values, in shared memory.
#define STAGES 4
#endif
#ifndef UNIT_TILES // Tiles of 64 queries per unit; 0: all of a head.
#define UNIT_TILES CONSUMERS
#endif
#ifndef PERSISTENT // 1: blocks take unit after unit. 0: one unit per block.
#define PERSISTENT 1
#endif
#ifndef OVERLAP // What runs under the softmax of a block. 0: nothing. 1: P V of the block before. 2: Q K^T of the next, too.
#define OVERLAP 1
#endif
#ifndef LAZY_RESCALE // 1: sums are rescaled only when the largest score has grown by 8 powers of two.
#define LAZY_RESCALE 0
#endif
#ifndef ROW_SUMS // Exponentials are added 0: as they come, 1: when all are there, 2: by the tensor cores (a column of ones).
#define ROW_SUMS 0
#endif
#ifndef SINGLES_LAST // 1: what does not fill all warpgroups of all blocks comes last, in units of one tile.
#define SINGLES_LAST 0
#endif
#ifndef KEY_SPLIT // Warpgroups that share a tile, each with its part of the blocks of keys; a block then has one tile.
#define KEY_SPLIT 1
#endif
#ifndef QUERY_STAGES // Tiles of queries in shared memory for each warpgroup. 2: the next come while these are in use.
#define QUERY_STAGES (OVERLAP == 2 ? 2 : 1)
#endif
#ifndef BACK_AND_FORTH // 1: under a causal mask tiles are dealt to the warpgroups back and forth. 0: always in turn.
#define BACK_AND_FORTH 1
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 1
#endif
#ifndef CLUSTER // Blocks that share their keys and values: each loads a part of them into all.
#define CLUSTER 1
#endif
#ifndef PING_PONG // 1: warpgroups send off products in turn, so that one is in its softmax while another's products run.
#define PING_PONG 0
#endif
#ifndef TMA_STORE // 1: results leave through shared memory. 0: from registers.
#define TMA_STORE 0
#endif

#if KEY_SPLIT > 1
#include "split.cuh"
#else
#include "loader.cuh"
#endif
#if KEY_SPLIT > 1
#elif OVERLAP == 2
#include "overlap2.cuh"
#elif OVERLAP == 1
#include "overlap1.cuh"
#elif PING_PONG
#include "pingpong0.cuh"
#else
#include "overlap0.cuh"
#endif

#if CLUSTER > 1
#define IN_CLUSTERS __cluster_dims__(CLUSTER)
#else
#define IN_CLUSTERS
#endif

extern "C" __global__ void IN_CLUSTERS __launch_bounds__(THREADS, BLOCKS_PER_SM)
attention(const unsigned short *, const unsigned short *, const unsigned short *, unsigned short *O, int heads,
          int group, int queries, int keys, const __grid_constant__ TensorMap Q_map,
          const __grid_constant__ TensorMap K_map, const __grid_constant__ TensorMap V_map,
          const __grid_constant__ TensorMap O_map)
{
    const Problem problem = {heads, group, queries, keys};
    const Places places;
#if KEY_SPLIT == 1
    unsigned finished = 0; // The loader's.
#endif
    // The loader makes the barriers and asks for the first keys and queries while the other warps are only starting.
    if (threadIdx.x == 128 * CONSUMERS) {
        prefetch_map(&K_map);
        prefetch_map(&Q_map);
        prefetch_map(&V_map);
        places.make_barriers();
#if KEY_SPLIT > 1
        load_split(problem, places, &Q_map, &K_map, &V_map, 0, KEY_SPLIT);
#else
        const Plan plan(problem);
        Loader loader = {plan, places, &Q_map, 0};
        loader.begin(group, &K_map);
        finished = loader.finished;
#endif
    }
#if ROW_SUMS == 2
    const unsigned one = BF16 ? 0x3F803F80 : 0x3C003C00;
    for (unsigned i = 4 * threadIdx.x; i < ONES_BYTES; i += 4 * THREADS)
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(places.ones + i), "r"(one) : "memory");
    shared_writes_visible();
#endif
    __syncthreads();
    if (CLUSTER > 1)
        cluster_meet(); // No block may send before the others have made their barriers.
    // The same in all threads of a warp; said so that the compiler knows.
    const int warp = __shfl_sync(0xFFFFFFFF, threadIdx.x / 32, 0);
    if (warp >= 4 * CONSUMERS) {
        if (CONSUMER_REGISTERS > REGISTERS)
            asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(LOADER_REGISTERS));
        if (warp == 4 * CONSUMERS && threadIdx.x % 32 == 0) {
#if KEY_SPLIT > 1
            load_split(problem, places, &Q_map, &K_map, &V_map, KEY_SPLIT, 1 << 30);
#else
            const Plan plan(problem);
            // Several tiles per warpgroup go over the same keys, all of which must then be in the ring at once.
            const int most = CLUSTER > 1 ? ceil_div(plan.tiles, CLUSTER) : plan.tiles;
            const int each = UNIT_TILES == 0 ? most : min(most, UNIT_TILES);
            if (each > CONSUMERS && plan.key_blocks > STAGES)
                __trap();
            Loader loader = {plan, places, &Q_map, finished};
            loader.run(group, &K_map, &V_map);
#endif
        }
    } else {
        if (CONSUMER_REGISTERS > REGISTERS)
            asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        Consumer consumer = {problem, places, warp / 4, 0};
        consumer.run(O, &O_map);
        if (TMA_STORE && threadIdx.x % 128 == 0)
            copies_out_have_read();
#if CLUSTER > 1
        if (warp == 0)
            consumer.outlast_the_cluster();
#endif
    }
}
