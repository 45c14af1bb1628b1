/* Stands behind a kernel's source in the build that is only checked: a new thread starts on a stack full of garbage, as the
 * first one does, where the system would hand it zeros. The linker sends calls of pthread_create here. */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Set before each launch, so that a launch can be repeated with the same garbage. */
__attribute__((visibility("default"))) uint64_t kiln_garbage_seed;

struct kiln_start {
    void *(*kiln_function)(void *);
    void *kiln_argument;
    size_t kiln_bytes;
    uint64_t kiln_seed;
};

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* As in a worker's own thread: half of it random, a quarter NaN in every format, a quarter a large number. */
__attribute__((noinline, no_sanitize("address", "bounds"))) static void kiln_strew(size_t kiln_bytes, uint64_t kiln_seed)
{
    volatile uint64_t *kiln_word = __builtin_alloca(kiln_bytes);
    for (size_t kiln_at = 0; kiln_at < kiln_bytes / sizeof *kiln_word; kiln_at++) {
        kiln_seed += 0x9e3779b97f4a7c15u;
        uint64_t kiln_mixed = (kiln_seed ^ kiln_seed >> 30) * 0xbf58476d1ce4e5b9u;
        kiln_mixed = (kiln_mixed ^ kiln_mixed >> 27) * 0x94d049bb133111ebu;
        kiln_mixed ^= kiln_mixed >> 31;
        const uint64_t kiln_other = kiln_mixed & 1 ? 0x7e7e7e7e7e7e7e7eu : UINT64_MAX;
        kiln_word[kiln_at] = kiln_mixed & 2 ? kiln_other : kiln_mixed;
    }
}

static void *kiln_begin(void *kiln_given)
{
    const struct kiln_start kiln_start = *(struct kiln_start *)kiln_given;
    free(kiln_given);
    kiln_strew(kiln_start.kiln_bytes, kiln_start.kiln_seed);
    return kiln_start.kiln_function(kiln_start.kiln_argument);
}

int __wrap_pthread_create(pthread_t *kiln_thread, const pthread_attr_t *kiln_attributes, void *(*kiln_function)(void *),
                          void *kiln_argument)
{
    /* A thread's own stack may be small; half of it is left for what starts the thread. */
    size_t kiln_bytes = 2 << 20;
    if (kiln_attributes && pthread_attr_getstacksize(kiln_attributes, &kiln_bytes) != 0)
        kiln_bytes = 0;
    kiln_bytes = kiln_bytes / 2 < 1 << 20 ? kiln_bytes / 2 : 1 << 20;
    struct kiln_start *kiln_start = malloc(sizeof *kiln_start);
    if (!kiln_start)
        return __real_pthread_create(kiln_thread, kiln_attributes, kiln_function, kiln_argument);
    *kiln_start = (struct kiln_start){kiln_function, kiln_argument, kiln_bytes, kiln_garbage_seed};
    const int kiln_failed = __real_pthread_create(kiln_thread, kiln_attributes, kiln_begin, kiln_start);
    if (kiln_failed)
        free(kiln_start);
    return kiln_failed;
}
