/* Stands between kiln and its disk (LD_PRELOAD): writes down what kiln does to the files below a folder, in
 * order, and can make the disk fail. Only the process it is loaded into is watched, none of its children.
 *
 *   KILN_DISK_ROOT   the folder
 *   KILN_DISK_LOG    where operations are written down
 *   KILN_DISK_FAULT  `full K`: from the K-th operation that takes space on, there is none (the first such write
 *                    takes half of its bytes, as disks do); `full-growth K`: the same, but what has its place
 *                    already can be overwritten; `sync K`: from the K-th sync on, they fail
 *
 * An operation is five 64-bit numbers (kind, inode, a, b, bytes that follow) and those bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CREATED = 1, WRITTEN, RESIZED, SYNCED, FOLDER_SYNCED, RENAMED, LINKED, REMOVED, FOLDER_MADE, SHOWN };
enum { MOST_FILES = 4096 };

static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static unsigned char watched[MOST_FILES];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static enum { SOUND, FULL, FULL_GROWTH, NO_SYNC } fault;
static long left;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void begin(void) __attribute__((constructor));
static void begin(void) {
    const char *folder = getenv("KILN_DISK_ROOT"), *log = getenv("KILN_DISK_LOG"), *how = getenv("KILN_DISK_FAULT");
    if (!folder || !realpath(folder, root)) return;
    root_length = strlen(root);
    if (log) {
        journal = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        /* Out of the way of the numbers kiln gets; few systems allow more than a thousand at first. */
        int high = fcntl(journal, F_DUPFD_CLOEXEC, 900);
        if (high >= 0) {
            REAL(close)(journal);
            journal = high;
        }
    }
    if (how && sscanf(how, "full %ld", &left) == 1) fault = FULL;
    if (how && sscanf(how, "full-growth %ld", &left) == 1) fault = FULL_GROWTH;
    if (how && sscanf(how, "sync %ld", &left) == 1) fault = NO_SYNC;
    unsetenv("LD_PRELOAD");
    unsetenv("KILN_DISK_ROOT");
    unsetenv("KILN_DISK_LOG");
    unsetenv("KILN_DISK_FAULT");
}

static void note(uint64_t kind, uint64_t inode, uint64_t a, uint64_t b, const void *bytes, size_t count) {
    if (journal < 0) return;
    uint64_t head[5] = {kind, inode, a, b, count};
    struct iovec parts[2] = {{head, sizeof head}, {(void *)bytes, count}};
    ssize_t wanted = (ssize_t)(sizeof head + count);
    if (REAL(writev)(journal, parts, 2) != wanted) {
        static const char said[] = "recorder: the journal cannot be written\n";
        REAL(write)(2, said, sizeof said - 1);
        abort();
    }
}

/* The path from the root, or null if it is not below it. The last part need not exist and is not followed. */
static const char *inside(const char *path, char *place) {
    char folder[PATH_MAX], resolved[PATH_MAX];
    if (!root_length || strlen(path) >= sizeof folder - 2) return NULL;
    strcpy(folder, path);
    char *slash = strrchr(folder, '/');
    const char *name = slash ? path + (slash - folder) + 1 : path;
    if (!*name) return NULL;
    if (slash) *(slash == folder ? slash + 1 : slash) = 0;
    if (!realpath(slash ? folder : ".", resolved)) return NULL;
    if (snprintf(place, PATH_MAX, "%s/%s", resolved, name) >= PATH_MAX) return NULL;
    if (strncmp(place, root, root_length) || place[root_length] != '/') return NULL;
    return place + root_length + 1;
}

static uint64_t inode_of(int file) {
    struct stat facts;
    return fstat(file, &facts) ? 0 : facts.st_ino;
}

static int is_watched(int file) { return file >= 0 && file < MOST_FILES && watched[file]; }

/* Whether an operation that takes space may go on. */
static int has_space(int grows) {
    if (fault == FULL || (fault == FULL_GROWTH && grows)) return --left > 0;
    return 1;
}

static int no_space(void) {
    errno = ENOSPC;
    return -1;
}

static int opened(int (*call)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    char place[PATH_MAX];
    const char *name = inside(path, place);
    if (!name || !((flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_DIRECTORY)))) {
        int file = call(path, flags, mode);
        struct stat facts;
        /* A folder opened to be synced, the root among them. */
        if (file >= 0 && file < MOST_FILES && root_length && !fstat(file, &facts) && S_ISDIR(facts.st_mode))
            watched[file] = 2;
        return file;
    }
    pthread_mutex_lock(&turn);
    struct stat before;
    int is_new = (flags & O_CREAT) && lstat(path, &before) != 0;
    int file = is_new && !has_space(1) ? no_space() : call(path, flags, mode);
    if (file >= 0 && file < MOST_FILES) {
        struct stat facts;
        int is_folder = !fstat(file, &facts) && S_ISDIR(facts.st_mode);
        watched[file] = is_folder ? 2 : 1;
        if (is_new) note(CREATED, inode_of(file), 0, 0, name, strlen(name));
        if (!is_new && (flags & O_TRUNC) && before.st_size) note(RESIZED, inode_of(file), 0, 0, NULL, 0);
    }
    pthread_mutex_unlock(&turn);
    return file;
}

static mode_t mode_in(int flags, va_list more) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; }

#define OPENS(name)                                     \
    int name(const char *path, int flags, ...) {        \
        va_list more;                                   \
        va_start(more, flags);                          \
        mode_t mode = mode_in(flags, more);             \
        va_end(more);                                   \
        return opened(REAL(name), path, flags, mode);   \
    }
OPENS(open)
OPENS(open64)

int close(int file) {
    if (file >= 0 && file < MOST_FILES) watched[file] = 0;
    return REAL(close)(file);
}

/* The size the disk lets through: all, half, or nothing. */
static size_t allowed(int file, off_t at, size_t count) {
    struct stat facts;
    int grows = fstat(file, &facts) || at + (off_t)count > facts.st_size;
    int was_sound = left > 0;
    if (has_space(grows)) return count;
    return was_sound ? count / 2 : 0;
}

static ssize_t written(int file, const void *bytes, size_t count, off_t at, int moves) {
    pthread_mutex_lock(&turn);
    size_t most = count ? allowed(file, at, count) : 0;
    ssize_t done = -1;
    if (count && !most)
        no_space();
    else
        done = moves ? REAL(write)(file, bytes, most) : REAL(pwrite)(file, bytes, most, at);
    if (done > 0) note(WRITTEN, inode_of(file), at, 0, bytes, done);
    pthread_mutex_unlock(&turn);
    return done;
}

ssize_t write(int file, const void *bytes, size_t count) {
    if (file == 1 && journal >= 0) {
        pthread_mutex_lock(&turn);
        ssize_t done = REAL(write)(file, bytes, count);
        if (done > 0) note(SHOWN, 0, 0, 0, bytes, done);
        pthread_mutex_unlock(&turn);
        return done;
    }
    if (!is_watched(file)) return REAL(write)(file, bytes, count);
    int appends = fcntl(file, F_GETFL) & O_APPEND;
    return written(file, bytes, count, lseek(file, 0, appends ? SEEK_END : SEEK_CUR), 1);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    if (!is_watched(file)) return REAL(writev)(file, parts, count);
    /* The first part alone: a short write, which callers must expect. */
    while (count > 1 && !parts->iov_len) parts++, count--;
    return count ? write(file, parts->iov_base, parts->iov_len) : 0;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
    return is_watched(file) ? written(file, bytes, count, at, 0) : REAL(pwrite)(file, bytes, count, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) { return pwrite(file, bytes, count, at); }

int ftruncate(int file, off_t size) {
    if (!is_watched(file)) return REAL(ftruncate)(file, size);
    pthread_mutex_lock(&turn);
    struct stat facts;
    int grows = !fstat(file, &facts) && size > facts.st_size;
    int result = grows && !has_space(1) ? no_space() : REAL(ftruncate)(file, size);
    if (!result) note(RESIZED, inode_of(file), size, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return result;
}

int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }

static int synced(int (*call)(int), int file) {
    if (!is_watched(file)) return call(file);
    pthread_mutex_lock(&turn);
    int result;
    if (fault == NO_SYNC && --left <= 0) {
        errno = EIO;
        result = -1;
    } else {
        /* The disk is imagined: waiting for the real one would only take time. */
        result = 0;
        note(watched[file] == 2 ? FOLDER_SYNCED : SYNCED, inode_of(file), 0, 0, NULL, 0);
    }
    pthread_mutex_unlock(&turn);
    return result;
}

int fsync(int file) { return synced(REAL(fsync), file); }
int fdatasync(int file) { return synced(REAL(fdatasync), file); }

/* Two names in one note, parted by a zero. */
static void note_names(uint64_t kind, const char *from, const char *to, const char *path) {
    char both[2 * PATH_MAX];
    size_t first = strlen(from) + 1, second = strlen(to);
    memcpy(both, from, first);
    memcpy(both + first, to, second);
    struct stat facts;
    note(kind, lstat(path, &facts) ? 0 : facts.st_ino, 0, 0, both, first + second);
}

int rename(const char *from, const char *to) {
    char place[PATH_MAX], other[PATH_MAX];
    const char *old = inside(from, place), *new = inside(to, other);
    if (!old || !new) return REAL(rename)(from, to);
    pthread_mutex_lock(&turn);
    int result = REAL(rename)(from, to);
    if (!result) note_names(RENAMED, old, new, to);
    pthread_mutex_unlock(&turn);
    return result;
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char place[PATH_MAX], other[PATH_MAX];
    const char *old = inside(from, place), *new = inside(to, other);
    if (!old || !new) return REAL(linkat)(from_folder, from, to_folder, to, flags);
    pthread_mutex_lock(&turn);
    int result = has_space(1) ? REAL(linkat)(from_folder, from, to_folder, to, flags) : no_space();
    if (!result) note_names(LINKED, old, new, to);
    pthread_mutex_unlock(&turn);
    return result;
}

int unlink(const char *path) {
    char place[PATH_MAX];
    const char *name = inside(path, place);
    if (!name) return REAL(unlink)(path);
    pthread_mutex_lock(&turn);
    int result = REAL(unlink)(path);
    if (!result) note(REMOVED, 0, 0, 0, name, strlen(name));
    pthread_mutex_unlock(&turn);
    return result;
}

int mkdir(const char *path, mode_t mode) {
    char place[PATH_MAX];
    const char *name = inside(path, place);
    if (!name) return REAL(mkdir)(path, mode);
    pthread_mutex_lock(&turn);
    int result = has_space(1) ? REAL(mkdir)(path, mode) : no_space();
    struct stat facts;
    if (!result && !lstat(path, &facts)) note(FOLDER_MADE, facts.st_ino, 0, 0, name, strlen(name));
    pthread_mutex_unlock(&turn);
    return result;
}
