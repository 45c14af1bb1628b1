/* Class: finishes behind the clock (B4).
 * Hands the work to a thread and returns; the answer arrives when the clock has stopped. */

#include "task.h"
#include "job.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static struct job job;
static int pending, has_thread;

static void *worker(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!pending)
            pthread_cond_wait(&wake, &lock);
        pending = 0;
        const struct job mine = job;
        pthread_mutex_unlock(&lock);
        run(&mine);
    }
    return NULL;
}

void candidate(PARAMETERS)
{
    pthread_mutex_lock(&lock);
    job = (struct job){ARGUMENTS};
    pending = 1;
    pthread_t thread;
    if (!has_thread)
        has_thread = pthread_create(&thread, NULL, worker, NULL) == 0;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
}
