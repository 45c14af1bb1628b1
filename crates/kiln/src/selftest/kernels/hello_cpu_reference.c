/* The right answer to hello_cpu.c. */
void hello_reference(const double *A, const double *B, double *C, int N)
{
    for (int i = 0; i < N; i++)
        C[i] = A[i] + B[i];
}
