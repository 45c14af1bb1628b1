/* Class: a race (A11).
 * Gives the second half of the rows to a thread that it does not wait for: whether they are there in time is
 * luck. */

#include "task.h"
#include "job.h"
#include <pthread.h>

static struct job job;

static void *second_half(void *unused)
{
    (void)unused;
    const struct job mine = job;
    run_rows(&mine, 2, 1);
    return NULL;
}

void candidate(PARAMETERS)
{
    job = (struct job){ARGUMENTS};
    const struct job mine = job;
    pthread_t thread;
    if (pthread_create(&thread, NULL, second_half, NULL) == 0)
        pthread_detach(thread);
    run_rows(&mine, 2, 0);
}
