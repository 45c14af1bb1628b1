// Two matrix products without tricks, for tuning without Python: the right answer in double, and something to beat.

#include <cuda_fp16.h>

// One thread per element of C, in double. x runs along N so that a warp reads neighbours of B.
extern "C" __global__ void matmul_reference(const double *A, const double *B, double *C, int M, int N, int K)
{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N)
        return;
    double sum = 0.0;
    for (int k = 0; k < K; k++)
        sum += A[static_cast<long long>(row) * K + k] * B[static_cast<long long>(k) * N + column];
    C[static_cast<long long>(row) * N + column] = sum;
}

#define TILE 64  // Rows and columns of C per block.
#define DEPTH 16 // Along K per step.
#define EACH 4   // Rows and columns of C per thread.

// The textbook's tiled product on the ordinary cores: 16 x 16 threads, each 4 x 4 sums in f32.
extern "C" __global__ void __launch_bounds__(256)
matmul_tiled(const __half *__restrict__ A, const __half *__restrict__ B, __half *__restrict__ C, int M, int N, int K)
{
    __shared__ float a[DEPTH][TILE + 1]; // Transposed; the odd stride spreads its columns over the banks.
    __shared__ float b[DEPTH][TILE];
    const int self = threadIdx.y * 16 + threadIdx.x;
    const int first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;
    float sums[EACH][EACH] = {};
    for (int k = 0; k < K; k += DEPTH) {
        for (int i = self; i < TILE * DEPTH; i += 256) {
            const int row = first_row + i / DEPTH, depth = k + i % DEPTH;
            const bool exists = row < M && depth < K;
            a[i % DEPTH][i / DEPTH] = exists ? __half2float(A[static_cast<long long>(row) * K + depth]) : 0.0f;
        }
        for (int i = self; i < TILE * DEPTH; i += 256) {
            const int depth = k + i / TILE, column = first_column + i % TILE;
            const bool exists = depth < K && column < N;
            b[i / TILE][i % TILE] = exists ? __half2float(B[static_cast<long long>(depth) * N + column]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
#pragma unroll
            for (int i = 0; i < EACH; i++) {
#pragma unroll
                for (int j = 0; j < EACH; j++)
                    sums[i][j] += a[d][threadIdx.y + 16 * i] * b[d][threadIdx.x + 16 * j];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            const int row = first_row + threadIdx.y + 16 * i, column = first_column + threadIdx.x + 16 * j;
            if (row < M && column < N)
                C[static_cast<long long>(row) * N + column] = __float2half_rn(sums[i][j]);
        }
    }
}
