/* Stands between a process and its file system, for one folder: counts the calls that change something,
   and at one of them kills the process (mode 1), lets the disk be full from there on (mode 2), or kills it
   and leaves a log of what had been forced to the disk by then (mode 3), from which a power cut is made.
   Loaded with LD_PRELOAD; does nothing before shim_arm is called. Linux only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[PATH_MAX], logs[PATH_MAX];
static long count = 0, at = 0, synced = 0;
static int mode = -1;
static __thread int inside = 0;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

void shim_arm(const char *where, long when, int how, const char *log_folder) {
    strncpy(folder, where, PATH_MAX - 1);
    strncpy(logs, log_folder, PATH_MAX - 1);
    count = synced = 0; at = when; mode = how;
}
long shim_count(void) { mode = -1; return count; }

static int ours_path(const char *path) {
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}
static int name_of(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0) return 0;
    out[n] = 0;
    return 1;
}
static int ours(int dirfd, const char *path) {
    char full[2 * PATH_MAX], base[PATH_MAX];
    if (mode < 0 || inside) return 0;
    if (path && path[0] == '/') return ours_path(path);
    if (dirfd == AT_FDCWD) return 0;
    if (!name_of(dirfd, base)) return 0;
    snprintf(full, sizeof full, "%s%s%s", base, path ? "/" : "", path ? path : "");
    return ours_path(full);
}
static void note(const char *line) {
    char name[PATH_MAX + 16];
    snprintf(name, sizeof name, "%s/log", logs);
    FILE *file = fopen(name, "a");
    if (file) { fputs(line, file); fclose(file); }
}
/* Count a call; does not return where the process is to die there. Returns 1 if the disk is full. */
static int counted(int grows) {
    pthread_mutex_lock(&turn);
    long now = ++count;
    pthread_mutex_unlock(&turn);
    if (at <= 0 || now < at) return 0;
    if (mode == 1 || mode == 3) { kill(getpid(), SIGKILL); for (;;) pause(); }
    if (mode == 2 && grows) { errno = ENOSPC; return 1; }
    return 0;
}
/* What is on the disk of a file or a directory from now on. */
static void on_disk(int fd) {
    struct stat status;
    char name[PATH_MAX + 64], line[512], own[64];
    if (mode != 3 || inside) return;
    inside = 1;
    pthread_mutex_lock(&turn);
    if (fstat(fd, &status) == 0) {
        long number = ++synced;
        snprintf(name, sizeof name, "%s/%ld", logs, number);
        FILE *copy = fopen(name, "w");
        if (S_ISDIR(status.st_mode)) {
            snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
            DIR *listing = opendir(own);
            struct dirent *entry;
            while (listing && (entry = readdir(listing)))
                fprintf(copy, "%lu %s\n", (unsigned long)entry->d_ino, entry->d_name);
            if (listing) closedir(listing);
        } else {
            char block[65536];
            off_t place = 0;
            ssize_t n;
            snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
            int again = open(own, O_RDONLY);
            while (again >= 0 && (n = pread(again, block, sizeof block, place)) > 0) {
                fwrite(block, 1, n, copy);
                place += n;
            }
            (void)again; /* left open: to close it would drop SQLite's locks on the file */
        }
        fclose(copy);
        snprintf(line, sizeof line, "%c %lu %ld\n", S_ISDIR(status.st_mode) ? 'D' : 'F',
                 (unsigned long)status.st_ino, number);
        note(line);
    }
    pthread_mutex_unlock(&turn);
    inside = 0;
}
static void made(int dirfd, const char *path) {
    struct stat status;
    char line[128];
    if (mode != 3 || fstatat(dirfd, path, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    inside = 1;
    snprintf(line, sizeof line, "C %lu %c\n", (unsigned long)status.st_ino, S_ISDIR(status.st_mode) ? 'd' : 'f');
    note(line);
    inside = 0;
}
static int absent(int dirfd, const char *path) {
    struct stat status;
    int kept = errno, result = fstatat(dirfd, path, &status, AT_SYMLINK_NOFOLLOW) != 0;
    errno = kept;
    return result;
}

#define WRITE(name, type, declared, passed)                                          \
    ssize_t name declared {                                                          \
        REAL(name);                                                                  \
        if (ours(fd, NULL)) {                                                        \
            long next = count + 1;                                                   \
            if (next == at && mode == 1 && next % 2 && n > 1) { n /= 2; real passed; } \
            if (counted(1)) return -1;                                               \
        }                                                                            \
        return real passed;                                                          \
    }
WRITE(write, ssize_t, (int fd, const void *data, size_t n), (fd, data, n))
WRITE(pwrite, ssize_t, (int fd, const void *data, size_t n, off_t where), (fd, data, n, where))
WRITE(pwrite64, ssize_t, (int fd, const void *data, size_t n, off64_t where), (fd, data, n, where))

#define CHANGE(name, grows, declared, passed)                       \
    int name declared {                                             \
        REAL(name);                                                 \
        if (ours(fd, NULL) && counted(grows)) return -1;            \
        return real passed;                                         \
    }
CHANGE(ftruncate, 1, (int fd, off_t n), (fd, n))
CHANGE(ftruncate64, 1, (int fd, off64_t n), (fd, n))
int posix_fallocate(int fd, off_t a, off_t n) {
    REAL(posix_fallocate);
    if (ours(fd, NULL) && counted(1)) return ENOSPC;
    return real(fd, a, n);
}
int posix_fallocate64(int fd, off64_t a, off64_t n) {
    REAL(posix_fallocate64);
    if (ours(fd, NULL) && counted(1)) return ENOSPC;
    return real(fd, a, n);
}

#define SYNC(name)                                   \
    int name(int fd) {                               \
        REAL(name);                                  \
        int mine = ours(fd, NULL);                   \
        if (mine) counted(0);                        \
        int result = real(fd);                       \
        if (mine && result == 0) on_disk(fd);        \
        return result;                               \
    }
SYNC(fsync)
SYNC(fdatasync)

#define OPEN(name, dir, declared, passed)                                  \
    int name declared {                                                    \
        REAL(name);                                                        \
        mode_t rights = 0;                                                 \
        if (flags & O_CREAT) {                                             \
            va_list rest;                                                  \
            va_start(rest, flags);                                         \
            rights = va_arg(rest, mode_t);                                 \
            va_end(rest);                                                  \
            if (ours(dir, path) && absent(dir, path)) {                    \
                if (counted(1)) return -1;                                 \
                int fd = real passed;                                      \
                if (fd >= 0) made(dir, path);                              \
                return fd;                                                 \
            }                                                              \
        }                                                                  \
        return real passed;                                                \
    }
OPEN(open, AT_FDCWD, (const char *path, int flags, ...), (path, flags, rights))
OPEN(open64, AT_FDCWD, (const char *path, int flags, ...), (path, flags, rights))
OPEN(openat, dir_fd, (int dir_fd, const char *path, int flags, ...), (dir_fd, path, flags, rights))
OPEN(openat64, dir_fd, (int dir_fd, const char *path, int flags, ...), (dir_fd, path, flags, rights))

#define NAMES(name, grows, dir, what, declared, passed)                    \
    int name declared {                                                    \
        REAL(name);                                                        \
        int mine = ours(dir, what);                                        \
        if (mine && counted(grows)) return -1;                             \
        int result = real passed;                                          \
        if (mine && grows && result == 0) made(dir, what);                 \
        return result;                                                     \
    }
NAMES(mkdir, 1, AT_FDCWD, path, (const char *path, mode_t rights), (path, rights))
NAMES(mkdirat, 1, dir_fd, path, (int dir_fd, const char *path, mode_t rights), (dir_fd, path, rights))
NAMES(rmdir, 0, AT_FDCWD, path, (const char *path), (path))
NAMES(unlink, 0, AT_FDCWD, path, (const char *path), (path))
NAMES(unlinkat, 0, dir_fd, path, (int dir_fd, const char *path, int flags), (dir_fd, path, flags))
NAMES(linkat, 0, new_fd, new, (int old_fd, const char *old, int new_fd, const char *new, int flags),
      (old_fd, old, new_fd, new, flags)) /* no new file: what is on the disk of the old one is */
NAMES(rename, 0, AT_FDCWD, new, (const char *old, const char *new), (old, new))
NAMES(renameat, 0, new_fd, new, (int old_fd, const char *old, int new_fd, const char *new),
      (old_fd, old, new_fd, new))
