// The softmax of blocks of scores that lie in registers as wgmma.cuh says.

#pragma once

#include "layout.cuh"

static __device__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two 16-bit values in a word, the first in the low half.
static __device__ unsigned pack(float first, float second)
{
    unsigned word;
#if BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
#endif
    return word;
}

#define SCALE_LOG2 (HEAD_DIM == 64 ? 0.125f * 1.44269504f : 0.08838834764f * 1.44269504f)
#define MINUS_INFINITY __int_as_float(0xFF800000)

// The softmax of two rows, `lane / 4` and 8 below, of which a thread holds every fourth pair of columns.
struct Rows {
    float largest[2]; // Score so far that exponentials are relative to.
    float sum[2];     // Of this thread's exponentials so far.
    float shrink[2];  // By what earlier sums must be multiplied.
    bool shrinks;     // Whether any in this warp must.

    // Scores become exponentials. `fresh`: nothing came before.
    __device__ void exponentiate(float (&s)[BLOCK_N / 2], bool fresh)
    {
        float most[2]; // Of this thread's scores.
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float top[2] = {s[2 * r], s[2 * r + 1]};
#pragma unroll
            for (int i = 4; i < BLOCK_N / 2; i += 4) {
                top[0] = fmaxf(top[0], s[i + 2 * r]);
                top[1] = fmaxf(top[1], s[i + 2 * r + 1]);
            }
            most[r] = fmaxf(top[0], top[1]);
        }
        // Lazily: exponentials up to 2^8 are no harm, so the old base will do until a score is beyond that.
        const float slack = 8.0f / SCALE_LOG2;
        const bool grown = fresh || most[0] > largest[0] + slack || most[1] > largest[1] + slack;
        shrinks = !LAZY_RESCALE || __any_sync(0xFFFFFFFF, grown);
        shrink[0] = shrink[1] = 1.0f;
        if (shrinks) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                most[r] = fmaxf(most[r], __shfl_xor_sync(0xFFFFFFFF, most[r], 1));
                most[r] = fmaxf(most[r], __shfl_xor_sync(0xFFFFFFFF, most[r], 2));
                const float before = fresh ? MINUS_INFINITY : largest[r];
                largest[r] = fmaxf(most[r], before);
                shrink[r] = power_of_two((before - largest[r]) * SCALE_LOG2);
            }
        }
        const float base[2] = {largest[0] * SCALE_LOG2, largest[1] * SCALE_LOG2};
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i++)
            s[i] = power_of_two(fmaf(s[i], SCALE_LOG2, -base[i / 2 % 2]));
        if (ROW_SUMS == 0)
            add(s, fresh);
    }

    __device__ void add(const float (&s)[BLOCK_N / 2], bool fresh)
    {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float part[2] = {s[2 * r], s[2 * r + 1]};
#pragma unroll
            for (int i = 4; i < BLOCK_N / 2; i += 4) {
                part[0] += s[i + 2 * r];
                part[1] += s[i + 2 * r + 1];
            }
            // Not a product with 0: what came before may be another tile's NaN.
            sum[r] = part[0] + part[1] + (fresh ? 0.0f : sum[r] * shrink[r]);
        }
    }

    __device__ void rescale(float (&o)[OUTPUTS]) const
    {
        if (!shrinks)
            return;
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++)
            o[i] *= shrink[i / 2 % 2];
    }
};

// Scores of keys that a query must not see, or that do not exist, become minus infinity. By 64 keys where that is possible:
// of a block on the diagonal some are seen by all queries of a tile.
#define HIDDEN_TOGETHER (BLOCK_N % 64 == 0 ? 64 : BLOCK_N)

static __device__ void hide(float (&s)[BLOCK_N / 2], const Problem &problem, int row, int first_key)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int start = 0; start < BLOCK_N; start += HIDDEN_TOGETHER) {
        const int end = first_key + start + HIDDEN_TOGETHER;
        if (end <= problem.keys && (!CAUSAL || end <= row + 1))
            continue;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int query = row + threadIdx.x % 128 / 32 * 16 + lane / 4 + 8 * r;
            const int visible = CAUSAL ? min(problem.keys, query + 1) : problem.keys;
            const int limit = visible - first_key - 2 * (lane % 4);
#pragma unroll
            for (int i = start / 2; i < (start + HIDDEN_TOGETHER) / 2; i += 4) {
#pragma unroll
                for (int c = 0; c < 2; c++)
                    s[i + 2 * r + c] = 2 * i + c < limit ? s[i + 2 * r + c] : MINUS_INFINITY;
            }
        }
    }
}

// Blocks of which all queries from this row on see all keys.
static __device__ int unhidden_blocks(const Problem &problem, int row)
{
    return (CAUSAL ? min(problem.keys, row + 1) : problem.keys) / BLOCK_N;
}

static __device__ void pack_all(unsigned (&p)[BLOCK_N / 4], const float (&s)[BLOCK_N / 2])
{
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; i++)
        p[i] = pack(s[2 * i], s[2 * i + 1]);
}

// Keeps exponentials before what follows. Left to itself the compiler waits for the tensor cores first and computes the
// exponentials afterwards. A branch that needs them all, and is never taken, holds it off.
static __device__ void stay_before(const float (&s)[BLOCK_N / 2], const Problem &problem)
{
    if (problem.keys < 0) {
#pragma unroll
        for (int i = 0; i < BLOCK_N / 2; i++)
            asm volatile("st.shared.f32 [%0], %1;" ::"r"(4 * i), "f"(s[i]) : "memory");
    }
}
