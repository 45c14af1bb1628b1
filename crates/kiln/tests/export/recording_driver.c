/* Stands in for libcuda: launches nothing and writes down what it was asked to launch, one line per call, to the file that
 * KILN_TEST_LOG names. KILN_TEST_PARAMETERS holds the sizes of the kernel's parameters. Addresses come from a place that
 * is the same in every program, so that the lines of different programs can be compared. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct {
        unsigned id;
        char pad[4];
        unsigned value[16];
    } *attributes;
    unsigned count;
} Config;

static char *arena;
static size_t used;
static void *current;

static void line(const char *text) {
    FILE *log = fopen(getenv("KILN_TEST_LOG"), "a");
    if (!log) return;
    fputs(text, log);
    fputc('\n', log);
    fclose(log);
}

int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGet(int *device, int index) { *device = index; return index == 0 ? 0 : 101; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    (void)device;
    *value = which == 75 ? 9 : 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &current; return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    if (!arena) arena = mmap((void *)0x500000000000, (size_t)1 << 34, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *address = (uint64_t)(arena + used);
    used += (bytes + 255) / 256 * 256;
    return 0;
}
int cuMemFree_v2(uint64_t address) { (void)address; return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { (void)to; (void)from; (void)bytes; return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { (void)from; memset(to, 0, bytes); return 0; }
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) { (void)to; (void)value; (void)bytes; return 0; }
int cuModuleLoadData(void **module, const void *image) {
    *module = (void *)image;
    return memcmp(image, "\177ELF", 4) == 0 ? 0 : 200;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
    char text[200];
    (void)module;
    snprintf(text, sizeof text, "function %s", name);
    line(text);
    *function = (void *)0x77;
    return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
    char text[100];
    (void)function;
    snprintf(text, sizeof text, "attribute %d = %d", attribute, value);
    line(text);
    return 0;
}
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    char text[600];
    int at = snprintf(text, sizeof text, "map type %d at %p dims", type, address);
    for (unsigned i = 0; i < rank; i++) at += snprintf(text + at, sizeof text - at, " %llu", (unsigned long long)dims[i]);
    at += snprintf(text + at, sizeof text - at, " strides");
    for (unsigned i = 0; i + 1 < rank; i++) at += snprintf(text + at, sizeof text - at, " %llu", (unsigned long long)strides[i]);
    at += snprintf(text + at, sizeof text - at, " box");
    for (unsigned i = 0; i < rank; i++) at += snprintf(text + at, sizeof text - at, " %u/%u", box[i], steps[i]);
    snprintf(text + at, sizeof text - at, " interleave %d swizzle %d promotion %d fill %d", interleave, swizzle, promotion, fill);
    line(text);
    if ((uintptr_t)map % 64) return 1;
    /* What the launch is given must be this very map. */
    memset(map, 0, 128);
    memcpy(map, &address, sizeof address);
    ((unsigned char *)map)[120] = (unsigned char)box[1];
    return 0;
}
int cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra) {
    char *text = malloc(65536);
    int at = sprintf(text, "launch %u,%u,%u by %u,%u,%u shared %u stream %p", config->grid[0], config->grid[1], config->grid[2],
                     config->block[0], config->block[1], config->block[2], config->shared, config->stream);
    for (unsigned i = 0; i < config->count; i++)
        at += sprintf(text + at, " attribute %u = %u,%u,%u", config->attributes[i].id, config->attributes[i].value[0],
                      config->attributes[i].value[1], config->attributes[i].value[2]);
    const char *sizes = getenv("KILN_TEST_PARAMETERS");
    for (int n = 0; sizes && *sizes; n++) {
        char *end;
        long size = strtol(sizes, &end, 10);
        sizes = *end == ',' ? end + 1 : end;
        at += sprintf(text + at, " [");
        for (long i = 0; i < size; i++) at += sprintf(text + at, "%02x", ((unsigned char *)parameters[n])[i]);
        at += sprintf(text + at, "]");
    }
    line(text);
    free(text);
    return extra || function != (void *)0x77 ? 1 : 0;
}
int cuGetErrorName(int code, const char **name) { *name = code == 101 ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR_TEST"; return 0; }
