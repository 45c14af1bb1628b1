// What lies where in shared memory, and how many registers each thread has.

#pragma once

#define DENSE (OVERLAP == 2 || PING_PONG)

#include "async.cuh"
#include "schedule.cuh"

#define THREADS (128 * (CONSUMERS + 1))
#define HALVES (HEAD_DIM / 64) // A row is this many times 128 bytes, each part a tile of its own in shared memory.
#define Q_PART (TILE_ROWS * 128)
#define KV_PART (BLOCK_N * 128)
#define Q_BYTES (Q_PART * HALVES)
#define KV_BYTES (KV_PART * HALVES)
#define O_BYTES (TMA_STORE ? Q_BYTES : 0)
#define ONES_BYTES (ROW_SUMS == 2 ? 16 * 128 : 0) // The column of ones, as a tile of 16 rows and 64 columns.
#define OUTPUTS (HEAD_DIM / 2 + (ROW_SUMS == 2 ? 4 : 0)) // Of a thread; the last four are its rows' sums.
#define BARRIER_BYTES 1024
#define Q_TILES (CONSUMERS / KEY_SPLIT)
#define SHARED_BYTES (Q_TILES * QUERY_STAGES * Q_BYTES + CONSUMERS * O_BYTES + 2 * STAGES * KV_BYTES + ONES_BYTES + BARRIER_BYTES)

// All threads start with the same number of registers, a multiple of 8. Then the loader's warpgroup, of which one thread
// works, keeps the least there is, and the others share the rest.
#define REGISTERS (65536 / (THREADS * BLOCKS_PER_SM) / 8 * 8)
#define LEAST_REGISTERS 24
#define SHARE_REGISTERS ((REGISTERS * (CONSUMERS + 1) - LEAST_REGISTERS) / CONSUMERS / 8 * 8)
#define CONSUMER_REGISTERS (SHARE_REGISTERS < 240 ? SHARE_REGISTERS : 240)
#define SPARE_REGISTERS (REGISTERS * (CONSUMERS + 1) - CONSUMER_REGISTERS * CONSUMERS)
#define LOADER_REGISTERS (SPARE_REGISTERS < 64 ? SPARE_REGISTERS : 64)

static_assert(HEAD_DIM == 64 || HEAD_DIM == 128, "HEAD_DIM must be 64 or 128");
static_assert(CONSUMERS >= 1 && CONSUMERS <= 4, "CONSUMERS must be between 1 and 4");
static_assert(BLOCK_N % 16 == 0 && BLOCK_N >= 32 && BLOCK_N <= 256, "BLOCK_N must be a multiple of 16 up to 256");
static_assert(STAGES >= 1 && STAGES <= 16, "STAGES must be between 1 and 16");
static_assert(CLUSTER == 1 || CLUSTER == 2, "CLUSTER must be 1 or 2");
static_assert(CLUSTER == 1 || (KEY_SPLIT == 1 && OVERLAP < 2),
              "CLUSTER is for warpgroups with tiles of their own, and OVERLAP 0 or 1");
static_assert(BLOCK_N % (8 * CLUSTER) == 0, "a part of a block of keys must be whole times the 8 rows that the swizzle takes");
static_assert(!PING_PONG || (CONSUMERS > 1 && KEY_SPLIT == 1 && OVERLAP < 2),
              "PING_PONG is for several warpgroups with tiles of their own, and OVERLAP 0 or 1");
static_assert(ROW_SUMS != 2 || HEAD_DIM == 64, "a column of ones can stand beside 64 columns only");
static_assert(QUERY_STAGES == 2 || (QUERY_STAGES == 1 && OVERLAP != 2), "OVERLAP = 2 uses the queries of two tiles at a time");
static_assert(OVERLAP != 2 || STAGES >= 2, "the last values of a unit must find room while those before are in use");
static_assert(SHARED_BYTES <= 232448, "a block has at most 227 KiB of shared memory");

extern __shared__ __align__(1024) unsigned char shared_memory[];

// Where things are in shared memory.
struct Places {
    unsigned queries, keys, values, results, ones, barriers;

    __device__ Places()
    {
        queries = shared_address(shared_memory);
        keys = queries + Q_TILES * QUERY_STAGES * Q_BYTES;
        values = keys + STAGES * KV_BYTES;
        results = values + STAGES * KV_BYTES;
        ones = results + CONSUMERS * O_BYTES;
        barriers = ones + ONES_BYTES;
    }
    __device__ void make_barriers() const;
    __device__ unsigned keys_full(unsigned stage) const { return barriers + 8 * stage; }
    __device__ unsigned keys_empty(unsigned stage) const { return barriers + 8 * (STAGES + stage); }
    __device__ unsigned values_full(unsigned stage) const { return barriers + 8 * (2 * STAGES + stage); }
    __device__ unsigned values_empty(unsigned stage) const { return barriers + 8 * (3 * STAGES + stage); }
    // For the nth tile of a warpgroup.
    __device__ unsigned queries_of(unsigned warpgroup, unsigned n) const
    {
        return queries + (warpgroup * QUERY_STAGES + n % QUERY_STAGES) * Q_BYTES;
    }
    __device__ unsigned ready(unsigned warpgroup, unsigned n) const
    {
        return barriers + 8 * (4 * STAGES + warpgroup * QUERY_STAGES + n % QUERY_STAGES);
    }
    __device__ unsigned free(unsigned warpgroup, unsigned n) const
    {
        return ready(warpgroup, n) + 8 * CONSUMERS * QUERY_STAGES;
    }
};

// What the loader keeps for each warpgroup: the way through its tiles, and those of them that are of interest now.
struct __align__(16) Notes {
    Tile tiles[QUERY_STAGES + 1];
    Walk walk;
    unsigned given; // Tiles, so far.
};

#define BARRIERS (4 * STAGES + 2 * CONSUMERS * QUERY_STAGES)
#define NOTES_AT ((BARRIERS + 1) / 2 * 16)
static_assert(NOTES_AT + CONSUMERS * sizeof(Notes) <= BARRIER_BYTES, "barriers and notes take more room than they have");

// By one thread, one after another: with a thread for each, the compiler makes them a loop that is twenty times slower.
__device__ __forceinline__ void Places::make_barriers() const
{
#pragma unroll
    for (int i = 0; i < BARRIERS; i++) {
        const bool is_empty = i < 4 * STAGES && i / STAGES % 2 == 1, is_free = i >= 4 * STAGES + CONSUMERS * QUERY_STAGES;
        barrier_init(barriers + 8 * i, is_empty ? CLUSTER * 4 * CONSUMERS / KEY_SPLIT : is_free ? 4 : 1);
    }
    shared_writes_visible(); // The copy engine is to see them too,
    if (CLUSTER > 1)
        barriers_made(); // and that of another block.
}

static __device__ Notes &notes_of(int warpgroup)
{
    unsigned char *const barriers = shared_memory + SHARED_BYTES - BARRIER_BYTES;
    return reinterpret_cast<Notes *>(barriers + NOTES_AT)[warpgroup];
}
