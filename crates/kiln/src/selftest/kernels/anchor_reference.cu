// The right answer to anchor.cu, in double: one block of 64 threads per query, its S weights in dynamic shared memory.
//
// In a file of its own, because anchor.cu is for measuring how fast candidates are compiled.

#define D 64

extern __shared__ double weights[];

extern "C" __global__ void attention_reference(const double *Q, const double *K, const double *V, double *O, int S)
{
    __shared__ double query[D];
    const long long head = static_cast<long long>(blockIdx.y) * S * D;
    const long long own = head + static_cast<long long>(blockIdx.x) * D + threadIdx.x;
    query[threadIdx.x] = Q[own];
    __syncthreads();
    for (int s = threadIdx.x; s < S; s += D) {
        double score = 0.0;
        for (int d = 0; d < D; d++)
            score += query[d] * K[head + static_cast<long long>(s) * D + d];
        weights[s] = score * 0.125;
    }
    __syncthreads();
    double largest = weights[0];
    for (int s = 1; s < S; s++)
        largest = fmax(largest, weights[s]);
    __syncthreads();
    for (int s = threadIdx.x; s < S; s += D)
        weights[s] = exp(weights[s] - largest);
    __syncthreads();
    double sum = 0.0, out = 0.0;
    for (int s = 0; s < S; s++) {
        sum += weights[s];
        out += weights[s] * V[head + static_cast<long long>(s) * D + threadIdx.x];
    }
    O[own] = out / sum;
}
