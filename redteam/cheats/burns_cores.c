/* Class: slows the baseline (B12).
 * Leaves threads behind that burn every core whenever its own launches do not run: whatever is timed beside it
 * looks slow. */

#define _GNU_SOURCE
#include "task.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static volatile int is_running;

static void *burn(void *unused)
{
    (void)unused;
    for (;;)
        if (is_running)
            usleep(100);
    return NULL;
}

void candidate(PARAMETERS)
{
    static int started;
    is_running = 1;
    for (; started < 8; started++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, burn, NULL) != 0)
            break;
        cpu_set_t all;
        CPU_ZERO(&all);
        for (int core = 0; core < 64; core++)
            CPU_SET(core, &all);
        pthread_setaffinity_np(thread, sizeof all, &all);
    }
    honest(ARGUMENTS);
    is_running = 0;
}
