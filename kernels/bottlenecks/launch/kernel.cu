// y = 2 x + 1 for a few thousand elements: over before it has begun.
//
// Nothing in the source is wrong. What is wrong is to launch it for so little: the shape `batched` does the work of 132
// such launches in one.

#define THREADS 256

extern "C" __global__ void __launch_bounds__(THREADS) launch(const float *x, float *y, int n)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        y[i] = 2.0f * x[i] + 1.0f;
}
