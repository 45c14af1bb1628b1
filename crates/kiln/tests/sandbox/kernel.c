/* y = 2 x + 1, and everything a kernel has no business doing. What the sandbox refuses with an error
   leaves the answer right; an attempt that gets through leaves it unwritten. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    honest, threads_and_memory,
    writes_outside, writes_home, writes_project, writes_cache, appends, truncates, removes, renames, links,
    makes_folder, reads_secret, reads_passwd, lists_folder, reads_parents_memory, writes_own_memory,
    signals_parent, raises_limits, hidden_clone, short_pointers,
    opens_socket, opens_local_socket, forks, forks_and_execs, execs, spawns, runs_shell, traces_parent,
    reads_parent, new_namespaces, uses_io_uring, changes_rights, sets_times, loads_bpf, uses_keys, limits_parent, changes_rights_anew
};

#ifndef ATTACK
#define ATTACK honest
#define AT_LOAD 0
#endif

static int refused(int result) { return result == -1 && (errno == EACCES || errno == EPERM || errno == EXDEV); }

static int refused_path(const char *path, int flags) {
    int fd = open(path, flags, 0600);
    int was_refused = refused(fd);
    if (fd >= 0) close(fd);
    return was_refused;
}

static const char *in_home(const char *name) {
    static char path[4096];
    const char *home = getenv("HOME");
    snprintf(path, sizeof path, "%s/%s", home ? home : "/root", name);
    return path;
}

static void *thread(void *argument) { return argument; }

/* What many kernels do: must go on working. */
static int works(void) {
    pthread_t other;
    cpu_set_t cores;
    char *memory = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || madvise(memory, 1 << 20, MADV_HUGEPAGE) == 12345) return 0;
    memory[5] = 1;
    if (pthread_create(&other, 0, thread, &other) != 0 || pthread_join(other, 0) != 0) return 0;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 0;
    if (sched_setaffinity(0, sizeof cores, &cores) != 0) return 0;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 1 || access("/proc/self/status", R_OK) != 0) return 0;
    FILE *cpu = fopen("/proc/cpuinfo", "r");
    if (!cpu) return 0;
    fclose(cpu);
    return munmap(memory, 1 << 20) == 0;
}

/* 1: refused, or nothing was tried. */
static int attempt(void) {
    static char *const none[] = {"/bin/true", 0};
    char parent[64];
    char buffer[8];
    struct iovec here = {buffer, sizeof buffer}, there = {&refused, sizeof buffer};
    struct rlimit limit = {1 << 20, 1 << 20};
    pid_t child = -1;
    DIR *folder;
    switch (ATTACK) {
    case threads_and_memory: return works();
    case writes_outside: return refused_path(OUTSIDE "/written", O_CREAT | O_WRONLY);
    case writes_home: return refused_path(in_home(".kiln-test-written"), O_CREAT | O_WRONLY);
    case writes_project: return refused_path(PROJECT "/written", O_CREAT | O_WRONLY);
    case writes_cache: return refused_path(CACHE "/images-2/images/written", O_CREAT | O_WRONLY);
    case appends: return refused_path(OUTSIDE "/secret", O_WRONLY | O_APPEND);
    case truncates: return refused_path(OUTSIDE "/secret", O_WRONLY | O_TRUNC);
    case removes: return refused(unlink(OUTSIDE "/secret"));
    case renames: return refused(rename(OUTSIDE "/secret", OUTSIDE "/moved"));
    case links: return refused(symlink("/", OUTSIDE "/link"));
    case makes_folder: return refused(mkdir(OUTSIDE "/folder", 0700));
    case reads_secret: return refused_path(OUTSIDE "/secret", O_RDONLY);
    case reads_passwd: return refused_path("/etc/passwd", O_RDONLY);
    case lists_folder:
        folder = opendir(OUTSIDE);
        return folder == 0 && errno == EACCES;
    case reads_parents_memory:
        snprintf(parent, sizeof parent, "/proc/%d/mem", getppid());
        if (!refused_path(parent, O_RDONLY)) return 0;
        snprintf(parent, sizeof parent, "/proc/%d/environ", getppid());
        return refused_path(parent, O_RDONLY);
    case writes_own_memory: return refused_path("/proc/self/mem", O_RDWR);
    case signals_parent: return refused(kill(getppid(), SIGTERM));
    case raises_limits: return setrlimit(RLIMIT_FSIZE, &limit) != 0 || getuid() == 0;
    case hidden_clone: return syscall(SYS_clone3, 0, 0) == -1 && errno == ENOSYS;
    case short_pointers:
#ifdef __x86_64__
        return syscall(0x40000000 | 39) == -1 && errno == ENOSYS;
#else
        return 1;
#endif
    case opens_socket: return refused(socket(AF_INET, SOCK_STREAM, 0));
    case opens_local_socket: return refused(socket(AF_UNIX, SOCK_STREAM, 0));
    case forks: return refused(fork());
    case forks_and_execs:
        if (fork() == 0) { execv("/bin/true", none); _exit(1); }
        return 0;
    case execs: execv("/bin/true", none); return 0;
    case spawns: return posix_spawn(&child, "/bin/true", 0, 0, none, 0) != 0;
    case runs_shell: return system("echo x > " OUTSIDE "/written") != 0;
    case traces_parent: return refused((int)ptrace(PTRACE_ATTACH, getppid(), 0, 0));
    case reads_parent: return refused((int)process_vm_readv(getppid(), &here, 1, &there, 1, 0));
    case new_namespaces: return refused(unshare(CLONE_NEWUSER));
    case uses_io_uring: return refused((int)syscall(SYS_io_uring_setup, 1, buffer));
    case changes_rights: return refused(chmod(OUTSIDE "/secret", 0777));
    case sets_times: return refused(utimensat(AT_FDCWD, OUTSIDE "/secret", 0, 0));
    case loads_bpf: return refused((int)syscall(SYS_bpf, 0, buffer, 8));
    case uses_keys: return refused((int)syscall(SYS_keyctl, 0, 0, 0, 0, 0));
    case limits_parent: return refused(prlimit(getppid(), RLIMIT_CPU, &limit, 0));
    case changes_rights_anew: return refused((int)syscall(452, AT_FDCWD, OUTSIDE "/secret", 0777, 0));
    default: return 1;
    }
}

static int refused_at_load = 1;

__attribute__((constructor)) static void at_load(void) {
    if (AT_LOAD) refused_at_load = attempt();
}

void kernel(const float *x, float *y, int n) {
    if (!refused_at_load || (!AT_LOAD && !attempt())) return;
    for (int i = 0; i < n; i++) y[i] = 2.0f * x[i] + 1.0f;
}
