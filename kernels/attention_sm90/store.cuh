// Results on their way out.

#pragma once

#include "softmax.cuh"

// Four lanes hold four words each; afterwards lane i holds the ith word of each lane, in their order.
static __device__ void transpose_quad(unsigned (&w)[4])
{
    const int lane = threadIdx.x;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const unsigned other = __shfl_xor_sync(0xFFFFFFFF, lane & 1 ? w[i] : w[i + 1], 1);
        (lane & 1 ? w[i] : w[i + 1]) = other;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const unsigned other = __shfl_xor_sync(0xFFFFFFFF, lane & 2 ? w[i] : w[i + 2], 2);
        (lane & 2 ? w[i] : w[i + 2]) = other;
    }
}

// Divides by the sums of the exponentials and writes 64 rows of O.
static __device__ void store(const float (&o)[OUTPUTS], const float (&sums)[2], unsigned short *O,
                             const TensorMap *map, const Problem &problem, const Places &places, int warpgroup, int head,
                             int row)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
    if (TMA_STORE) {
        if (threadIdx.x % 128 == 0)
            copies_out_have_read();
        warpgroup_sync(warpgroup);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = sums[r];
        if (ROW_SUMS == 2) {
            sum = o[OUTPUTS - 4 + 2 * r];
        } else {
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
            sum += __shfl_xor_sync(0xFFFFFFFF, sum, 2);
        }
        const float share = 1.0f / sum;
        const int tile_row = warp * 16 + lane / 4 + 8 * r;
        unsigned short *const to = O + (static_cast<long long>(head) * problem.queries + row + tile_row) * HEAD_DIM;
#pragma unroll
        for (int g = 0; g < HEAD_DIM / 32; g++) {
            unsigned w[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                w[i] = pack(o[16 * g + 4 * i + 2 * r] * share, o[16 * g + 4 * i + 2 * r + 1] * share);
            transpose_quad(w);
            const int chunk = 4 * g + lane % 4; // Of 16 bytes in the row.
            if (TMA_STORE) {
                const unsigned place = places.results + warpgroup * O_BYTES + chunk / 8 * Q_PART + tile_row * 128 +
                                       ((chunk ^ tile_row) % 8) * 16;
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(place), "r"(w[0]), "r"(w[1]), "r"(w[2]),
                             "r"(w[3])
                             : "memory");
            } else if (row + tile_row < problem.queries) {
                *reinterpret_cast<uint4 *>(to + 8 * chunk) = make_uint4(w[0], w[1], w[2], w[3]);
            }
        }
    }
    if (TMA_STORE) {
        shared_writes_visible();
        warpgroup_sync(warpgroup);
        if (threadIdx.x % 128 == 0) {
#pragma unroll
            for (int h = 0; h < HALVES; h++)
                copy_out(map, 64 * h, row, head, places.results + warpgroup * O_BYTES + h * Q_PART);
            copies_out_commit();
        }
        __syncwarp();
    }
}
