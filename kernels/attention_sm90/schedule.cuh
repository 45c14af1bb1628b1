// Who computes what. A tile is 64 queries of one head, the work of one warpgroup. A unit is UNIT_TILES neighbouring tiles
// of a head, which one block computes from one pass of that head's keys and values through shared memory.
//
// Tiles of a unit are dealt to the warpgroups in turn, the longest (under a causal mask: the last) first, so no warpgroup's
// later tile of a unit needs more blocks of keys than an earlier one. The deal goes on from unit to unit; with
// BACK_AND_FORTH its direction changes every time round, or the same warpgroup would get the longest tile every time.
//
// The CLUSTER blocks of a cluster share a unit of CLUSTER times as many tiles: the first has the last tile and every CLUSTERth
// before it, and so on, so that they need about the same keys and a ragged rest is shared. Each goes over all blocks of keys
// that the unit needs, as the others want its part of them, even where it has no tile at all.

#pragma once

#define TILE_ROWS 64
#define EACH (UNIT_TILES == 0 ? 1 : UNIT_TILES) // Tiles per unit, where that is fixed.

static_assert(!SINGLES_LAST || (UNIT_TILES == CONSUMERS && !CAUSAL && PERSISTENT && CLUSTER == 1),
              "SINGLES_LAST is for persistent blocks on their own and full rounds of equal tiles");

#define ALTERNATES (CAUSAL && BACK_AND_FORTH)

struct Problem {
    int heads;   // Of queries, over the whole batch.
    int group;   // Query heads that share a head of keys and values.
    int queries; // Of each head.
    int keys;
};

static __device__ int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

struct Unit {
    int head;
    int last;   // The last tile of this block; others come before it.
    int tiles;  // Of this block.
    int blocks; // Of keys, for the tile of the cluster that needs most.

    __device__ bool exists() const { return CLUSTER > 1 ? blocks > 0 : tiles > 0; }
    __device__ int tile(int index) const { return last - index * CLUSTER; }
};

// The units of a problem and their order.
struct Plan {
    int heads;
    int tiles;      // Of a head.
    int key_blocks; // Of a head.
    int per_head;   // Units.
    int whole;      // With SINGLES_LAST: units of UNIT_TILES tiles; all later ones have one tile.
    int count;      // Units of the problem.
    int together;   // Heads whose units are dealt out together: as many as keep their keys and values in the L2 cache.

    __device__ explicit Plan(const Problem &problem)
    {
        heads = problem.heads;
        tiles = ceil_div(problem.queries, TILE_ROWS);
        key_blocks = ceil_div(problem.keys, BLOCK_N);
        per_head = UNIT_TILES == 0 ? 1 : ceil_div(tiles, EACH * CLUSTER);
        whole = count = heads * per_head;
        if (SINGLES_LAST) {
            per_head = tiles / EACH;
            whole = heads * per_head;
            const int odd = tiles % EACH * heads;
            // Whole units that would be a round of their own are taken apart if that makes one round of all the rest.
            const int over = whole % static_cast<int>(gridDim.x);
            if (over * EACH + odd <= static_cast<int>(gridDim.x))
                whole -= over;
            count = whole + (heads * per_head - whole) * EACH + odd;
        }
        const int fitting = (40 << 20) / (HEAD_DIM * 4) * problem.group / problem.keys;
        // In even parts: a small last one, long units first, would come when all others have only short ones left.
        together = ceil_div(heads, ceil_div(heads, max(1, fitting)));
    }

    // Blocks of keys that a tile needs.
    __device__ int blocks_of(int tile) const
    {
        return CAUSAL ? min(key_blocks, ceil_div((tile + 1) * TILE_ROWS, BLOCK_N)) : key_blocks;
    }

    // The unit that this block computes in its nth round.
    __device__ Unit unit(int round) const
    {
        Unit result = {};
        const int blocks = gridDim.x / CLUSTER, mine = blockIdx.x / CLUSTER; // Or clusters.
        // Back and forth: under a causal mask units get shorter, and no block is to get the longer one every time.
        const int place = CAUSAL && round % 2 == 1 ? blocks - 1 - mine : mine;
        const int index = round * blocks + place;
        if ((!PERSISTENT && round > 0) || index >= count)
            return result;
        if (SINGLES_LAST && index >= whole) {
            const int single = index - whole, apart = heads * per_head - whole;
            if (single < apart * EACH) {
                const int unit = whole + single / EACH;
                result.head = unit / per_head;
                result.last = unit % per_head * EACH + single % EACH;
            } else {
                const int odd = tiles % EACH, rest = single - apart * EACH;
                result.head = rest / odd;
                result.last = tiles - 1 - rest % odd;
            }
            result.tiles = 1;
            result.blocks = blocks_of(result.last);
            return result;
        }
        int part;
        if (UNIT_TILES == 0 || per_head == 1) {
            part = 0;
            result.head = index;
        } else if (CAUSAL) { // Long units first.
            const int first = index / (together * per_head) * together;
            const int here = min(together, heads - first);
            const int rest = index - first * per_head;
            part = per_head - 1 - rest / here;
            result.head = first + rest % here;
        } else {
            part = index % per_head;
            result.head = index / per_head;
        }
        const int each = UNIT_TILES == 0 ? tiles : EACH * CLUSTER;
        result.last = min(tiles, (part + 1) * each) - 1;
        result.tiles = result.last - part * each + 1;
        result.blocks = blocks_of(result.last);
        if (CLUSTER > 1) {
            const int rank = blockIdx.x % CLUSTER;
            result.last -= rank;
            result.tiles = ceil_div(result.tiles - rank, CLUSTER);
        }
        return result;
    }
};

// With DENSE every warpgroup takes part in every block of keys of its units: where a unit has no tile for it, it computes
// one behind the last, which is nowhere stored, and under a causal mask it also computes blocks that are all hidden.
static __device__ int padded(const Unit &unit)
{
    const int tiles = CLUSTER > 1 && unit.exists() ? max(1, unit.tiles) : unit.tiles;
    return DENSE ? ceil_div(tiles, CONSUMERS) * CONSUMERS : unit.tiles;
}

// What a warpgroup needs to know about a tile.
struct __align__(16) Tile {
    int head;
    int row;       // The first.
    int blocks;    // Of keys; 0: there are no more tiles.
    int kept;      // Blocks that this warpgroup's next tile of the unit uses again.
    unsigned ring; // Where in the ring of stages block 0 is, counted from the start of the kernel.
    int skipped;   // Places before that one which this warpgroup has no use for and has not released yet.

    // A step that computes nothing of use, and neither waits for blocks nor releases them.
    static __device__ Tile idle()
    {
        Tile result = {};
        result.blocks = 1;
        result.kept = 2;
        return result;
    }
    __device__ bool is_idle() const { return kept > blocks; }

    // What the first lane of a whole warp has.
    __device__ Tile from_first_lane() const
    {
        Tile result;
        result.head = __shfl_sync(~0u, head, 0);
        result.row = __shfl_sync(~0u, row, 0);
        result.blocks = __shfl_sync(~0u, blocks, 0);
        result.kept = __shfl_sync(~0u, kept, 0);
        result.ring = __shfl_sync(~0u, ring, 0);
        result.skipped = __shfl_sync(~0u, skipped, 0);
        return result;
    }
};

// Walks through the tiles of one warpgroup.
struct Walk {
    Unit unit;
    int round;
    int dealt;     // Tiles of earlier units, modulo CONSUMERS; if the deal alternates: times round, modulo 2.
    int index;     // In the unit.
    unsigned ring; // Where the unit begins.
    unsigned seen; // Up to where in the ring the tiles so far have gone.

    __device__ void begin(const Plan &plan, const Unit &first, int warpgroup)
    {
        unit = first;
        round = 0;
        dealt = 0;
        ring = 0;
        seen = 0;
        index = column(warpgroup);
        settle(plan, warpgroup);
    }

    // This warpgroup's place in the first round of a unit's deal.
    __device__ int column(int warpgroup) const
    {
        if (ALTERNATES)
            return dealt ? CONSUMERS - 1 - warpgroup : warpgroup;
        return (warpgroup + CONSUMERS - dealt) % CONSUMERS;
    }

    // The index that the same warpgroup has in the next round.
    static __device__ int next_round(int index)
    {
        const int column = index % CONSUMERS;
        return index - column + CONSUMERS + (ALTERNATES ? CONSUMERS - 1 - column : column);
    }

    __device__ void advance(const Plan &plan, int warpgroup)
    {
        index = next_round(index);
        settle(plan, warpgroup);
    }

    // From behind a unit's last tile to the next unit that has one for this warpgroup.
    __device__ void settle(const Plan &plan, int warpgroup)
    {
        while ((CLUSTER > 1 ? unit.blocks : unit.tiles) > 0 && index >= padded(unit)) { // While it exists.
            dealt = ALTERNATES ? (dealt + ceil_div(unit.tiles, CONSUMERS)) % 2 : (dealt + padded(unit)) % CONSUMERS;
            ring += unit.blocks;
            round++;
            unit = plan.unit(round);
            index = column(warpgroup);
        }
    }

    // The tile that the walk is at. To be asked once for each.
    __device__ Tile tile(const Plan &plan)
    {
        Tile result = {};
        result.ring = ring;
        if (unit.exists()) {
            const int longest = DENSE ? index / CONSUMERS * CONSUMERS : index; // In this round of the deal,
            const int then = DENSE ? longest + CONSUMERS : next_round(index);  // and in the next.
            result.head = unit.head;
            result.row = (index < unit.tiles ? unit.tile(index) : plan.tiles) * TILE_ROWS;
            // The first round goes over all blocks of the unit, which may be more than this block of a cluster needs.
            result.blocks = CLUSTER > 1 && DENSE && longest == 0 ? unit.blocks : plan.blocks_of(unit.tile(longest));
            result.kept = then < unit.tiles ? plan.blocks_of(unit.tile(then)) : 0;
        }
        if (index < CONSUMERS) { // The first in its unit, or the end.
            result.skipped = ring - seen;
            seen = ring + result.blocks;
        }
        return result;
    }
};
