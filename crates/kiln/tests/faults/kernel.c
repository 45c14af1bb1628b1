/* y = 2 x + 1, and every way to get it wrong. FAULT picks one; the honest ones must pass. */
#define _GNU_SOURCE
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    honest, honest_prints, honest_reads_edge,
    segfault, null_write, aborts, spins, stack_overflow, illegal_instruction, divides_by_zero,
    writes_past_end, writes_far_past_end, writes_before_start, reads_past_end,
    writes_nothing, writes_half, writes_nan, writes_infinity, slightly_wrong, last_element_wrong,
    right_only_when_tiny, right_only_once, skips_when_done, finishes_later, modifies_input,
    exits_0, exits_3, forks, forks_and_escapes, floods, garbles, kills_itself, closes_everything,
    load_crashes, load_exits, does_not_compile
};

#ifndef FAULT
#define FAULT honest
#endif

_Static_assert(FAULT != does_not_compile, "this config does not compile");

static volatile int sink;

__attribute__((constructor)) static void at_load(void) {
    if (FAULT == load_crashes) abort();
    if (FAULT == load_exits) _exit(0);
}

static int overflow(int depth) {
    volatile char frame[4096];
    frame[depth % 4096] = (char)depth;
    return overflow(depth + 1) + frame[(depth * 7) % 4096];
}

/* Answers from the launch before, if the buffers and a few values look the same. */
static int done_before(const float *x, const float *y, int n) {
    static const float *last_x;
    static float first, last;
    int same = last_x == x && n > 100 && first == x[0] && y[0] == 2.0f * x[0] + 1.0f && last == y[n - 1];
    last_x = x;
    first = x[0];
    last = 2.0f * x[n - 1] + 1.0f;
    return same;
}

struct job { const float *x; float *y; int n; };

static void *work_later(void *argument) {
    struct job job = *(struct job *)argument;
    usleep(200);
    for (int i = 0; i < job.n; i++) job.y[i] = 2.0f * job.x[i] + 1.0f;
    return 0;
}

void kernel(const float *x, float *y, int n) {
    static int calls;
    calls++;
    if (FAULT == skips_when_done && done_before(x, y, n)) return;
    if (FAULT == finishes_later && calls > 2) {
        static struct job job;
        pthread_t thread;
        job = (struct job){x, y, n};
        if (pthread_create(&thread, 0, work_later, &job) == 0) pthread_detach(thread);
        return;
    }
    int written = FAULT == writes_nothing ? 0 : FAULT == writes_half ? n / 2 : n;
    for (int i = 0; i < written; i++) y[i] = 2.0f * x[i] + 1.0f;
    switch (FAULT) {
    case honest: break;
    case honest_prints: printf("call %d\n", calls); fflush(stdout); break;
    case honest_reads_edge: sink = x[0] > x[n - 1]; break;
    case segfault: *(volatile int *)8 = 1; break;
    case null_write: *(volatile int *)0 = 1; break;
    case aborts: abort();
    case spins: for (;;) sink++;
    case stack_overflow: sink = overflow(0); break;
    case illegal_instruction: __builtin_trap();
    case divides_by_zero: raise(SIGFPE); break;
    case writes_past_end: ((volatile float *)y)[n] = 1.0f; break;
    case writes_far_past_end: ((volatile float *)y)[n + 20000] = 1.0f; break;
    case writes_before_start: ((volatile float *)y)[-1] = 1.0f; break;
    case reads_past_end: sink = (int)((const volatile float *)x)[n + 1024]; break;
    case writes_nan: y[n / 2] = NAN; break;
    case writes_infinity: y[n / 2] = INFINITY; break;
    case slightly_wrong: for (int i = 0; i < n; i++) y[i] *= 1.001f; break;
    case last_element_wrong: y[n - 1] += 1.0f; break;
    case right_only_when_tiny: if (n > 100) y[n / 3] = 0.0f; break;
    case right_only_once: if (calls > 8) y[0] += 1.0f; break;
    case modifies_input: ((volatile float *)x)[0] = 5.0f; break;
    case exits_0: exit(0);
    case exits_3: _exit(3);
    case forks: if (fork() == 0) for (;;) pause(); break;
    case forks_and_escapes:
        if (fork() == 0) {
            setsid();
            if (fork() == 0) for (;;) pause();
            _exit(0);
        }
        break;
    case floods: for (;;) puts("a flood of output, line after line after line");
    case garbles:
        for (int fd = 3; fd < 256; fd++) {
            if (write(fd, "garbage garbage garbage garbage ", 32) != 32) sink++;
        }
        break;
    case kills_itself: kill(getpid(), SIGKILL); break;
    case closes_everything: for (int fd = 0; fd < 1024; fd++) close(fd); break;
    default: break;
    }
}
