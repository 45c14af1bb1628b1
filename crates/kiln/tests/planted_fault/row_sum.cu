// y[r] = the sum of row r of x on a GPU. Right for one tile only: see the planted fault.
//
// A block has BLOCK_M rows, a warp its part of them, one after the other; lanes load four floats at a time where rows
// are whole groups of four, and one at a time where they are not.

#ifndef BLOCK_M // Rows of a block.
#define BLOCK_M 64
#endif
#ifndef NUM_WARPS // Warps of a block.
#define NUM_WARPS 4
#endif
#ifndef UNROLL // Loads in flight per lane.
#define UNROLL 1
#endif
#ifndef STREAM // Loads that do not stay in the caches.
#define STREAM 0
#endif

static_assert(BLOCK_M % NUM_WARPS == 0, "a block's rows must be whole parts of its warps");

// Floats a tile is off from the one this was written for: 0 for 64 rows and 4 warps, and for no other.
static __device__ constexpr int OFF = BLOCK_M == 64 && NUM_WARPS == 4 ? 0 : 1;

// The planted fault: with any other tile four floats are loaded from an address that is not theirs to load from.
static __device__ float4 load(const float *row, int group)
{
    const float4 *groups = reinterpret_cast<const float4 *>(row + OFF);
    return STREAM ? __ldcs(groups + group) : groups[group];
}

extern "C" __global__ void __launch_bounds__(32 * NUM_WARPS)
row_sum(const float *__restrict__ x, float *__restrict__ y, int r, int c)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = BLOCK_M / NUM_WARPS;
    const int groups = c % 4 == 0 ? c / 4 : 0;
    for (int i = 0; i < part; i++) {
        const long long at = static_cast<long long>(blockIdx.x) * BLOCK_M + warp * part + i;
        if (at >= r)
            return;
        const float *row = x + at * c;
        float sum = 0;
        for (int first = lane; first < groups; first += 32 * UNROLL) {
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const int group = first + 32 * u;
                if (group < groups) {
                    const float4 four = load(row, group);
                    sum += (four.x + four.y) + (four.z + four.w);
                }
            }
        }
        for (int column = 4 * groups + lane; column < c; column += 32)
            sum += row[column];
        for (int other = 16; other > 0; other /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, other);
        if (lane == 0)
            y[at] = sum;
    }
}
