/* The arguments of a launch as data, for cheats that hand them to a thread. */

struct job {
    const float *X;
    float *Y;
    int32_t ROWS, COLUMNS;
};

/* One of `shares` equal parts of the rows. */
static inline void run_rows(const struct job *job, int64_t shares, int64_t share)
{
    for (int64_t row = job->ROWS * share / shares; row < job->ROWS * (share + 1) / shares; row++)
        honest_row(job->X, job->Y, job->ROWS, job->COLUMNS, row);
}

static inline void run(const struct job *job)
{
    run_rows(job, 1, 0);
}
