/* Count the file-system calls a process makes below one folder, and let one of them go wrong.
 *
 * Preloaded (LD_PRELOAD), this does nothing until faults_arm() is called. From then on each
 * call below the folder has a number, from 1. At the chosen number the fault happens instead
 * of the call: the process is killed, the call fails with an error, or it does half of what
 * it was asked for. That call, or every call if none is chosen, is written down as a line:
 *
 *     SORTS <tab> NAME <tab> PATH
 *
 * Sorts, told by letters: h makes a handle, c changes something, a allocates space,
 * i may be interrupted, s may do a part of its work.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

#define KILL (-1)
#define SHORT (-2)

static long chosen, count;
static int what, tracing = -1, is_armed;
static char top[PATH_MAX];
static size_t top_length;

static long (*kernel)(long, ...);

__attribute__((constructor)) static void find_kernel(void) { *(void **)&kernel = dlsym(RTLD_NEXT, "syscall"); }

/* Begin to count below `folder`; at call number `at` (0: never) comes `fault`: an errno, KILL or SHORT.
 * Lines go to the handle `trace`. */
void faults_arm(const char *folder, long at, int fault, int trace) {
    top_length = strlen(folder);
    memcpy(top, folder, top_length + 1);
    chosen = at, what = fault, tracing = trace, count = 0;
    __atomic_store_n(&is_armed, 1, __ATOMIC_SEQ_CST);
}

void faults_disarm(void) { __atomic_store_n(&is_armed, 0, __ATOMIC_SEQ_CST); }

static int is_below(const char *path) {
    return strncmp(path, top, top_length) == 0 && (path[top_length] == '/' || path[top_length] == 0);
}

/* The whole path of what a call is about; `path` is NULL when it is about the handle itself. */
static int whole_path(int handle, const char *path, char *whole) {
    char link[64];
    long length;
    if (path != NULL && path[0] == '/')
        return snprintf(whole, PATH_MAX, "%s", path) < PATH_MAX;
    if (handle == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    length = kernel(SYS_readlinkat, AT_FDCWD, link, whole, (long)PATH_MAX - 1);
    if (length <= 0 || whole[0] != '/')
        return 0;
    whole[length] = 0;
    if (path != NULL && path[0] != 0 && strcmp(path, ".") != 0)
        snprintf(whole + length, PATH_MAX - length, "/%s", path);
    return 1;
}

/* What becomes of a call: 0 as it is, SHORT, or an errno. */
static int judged(const char *name, const char *sorts, int handle, const char *path) {
    char whole[PATH_MAX], line[PATH_MAX + 64];
    const int saved = errno;
    int result = 0;
    if (!__atomic_load_n(&is_armed, __ATOMIC_SEQ_CST))
        return 0;
    if (whole_path(handle, path, whole) && is_below(whole)) {
        const long number = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
        if (chosen == 0 || number == chosen) {
            const int length = snprintf(line, sizeof line, "%s\t%s\t%s\n", sorts, name, whole + top_length);
            kernel(SYS_write, tracing, line, (long)length);
        }
        if (number == chosen) {
            if (what == KILL)
                kernel(SYS_kill, (long)getpid(), (long)SIGKILL);
            result = what;
        }
    }
    errno = saved;
    return result;
}

/* Declare the real function, find it once. */
#define REAL(type, name, ...)                                                                                          \
    static type (*real)(__VA_ARGS__);                                                                                  \
    if (real == NULL)                                                                                                  \
        *(void **)&real = dlsym(RTLD_NEXT, #name);

#define FAIL_IF(failure, value)                                                                                        \
    do {                                                                                                               \
        const int code_ = (failure);                                                                                   \
        if (code_ > 0) {                                                                                               \
            errno = code_;                                                                                             \
            return value;                                                                                              \
        }                                                                                                              \
    } while (0)

/* A call that only succeeds or fails. */
#define PLAIN(name, sorts, handle, path, parameters, arguments)                                                        \
    int name parameters {                                                                                              \
        static int(*real) parameters;                                                                                  \
        if (real == NULL)                                                                                              \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                 \
        FAIL_IF(judged(#name, sorts, handle, path), -1);                                                               \
        return real arguments;                                                                                         \
    }

/* A call that may do a part of its work. */
#define PARTIAL(name, sorts, handle, size, parameters, arguments)                                                      \
    ssize_t name parameters {                                                                                          \
        static ssize_t(*real) parameters;                                                                              \
        if (real == NULL)                                                                                              \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                                                 \
        const int code = judged(#name, sorts, handle, NULL);                                                           \
        FAIL_IF(code, -1);                                                                                             \
        if (code == SHORT && size > 1)                                                                                 \
            size = size / 2;                                                                                           \
        return real arguments;                                                                                         \
    }

#define HERE AT_FDCWD

/* opening */

static const char *open_sorts(int flags) { return flags & (O_CREAT | O_TRUNC) ? "hcai" : "hi"; }

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        REAL(int, name, const char *, int, ...)                                                                        \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                                \
        va_end(more);                                                                                                  \
        FAIL_IF(judged(#name, open_sorts(flags), HERE, path), -1);                                                     \
        return real(path, flags, mode);                                                                                \
    }
#define OPENAT(name)                                                                                                   \
    int name(int handle, const char *path, int flags, ...) {                                                           \
        REAL(int, name, int, const char *, int, ...)                                                                   \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;                                \
        va_end(more);                                                                                                  \
        FAIL_IF(judged(#name, open_sorts(flags), handle, path), -1);                                                   \
        return real(handle, path, flags, mode);                                                                        \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

/* openat2 has no function of its own: only this number of the general call is looked at. */
long syscall(long number, ...) {
    long a[6];
    va_list more;
    va_start(more, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(more, long);
    va_end(more);
    if (number == SYS_openat2) {
        const unsigned long long *how = (const unsigned long long *)a[2];
        FAIL_IF(judged("openat2", open_sorts((int)how[0]), (int)a[0], (const char *)a[1]), -1);
    }
    return kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* folders */

DIR *opendir(const char *path) {
    REAL(DIR *, opendir, const char *)
    FAIL_IF(judged("opendir", "h", HERE, path), NULL);
    return real(path);
}
DIR *fdopendir(int handle) {
    REAL(DIR *, fdopendir, int)
    FAIL_IF(judged("fdopendir", "", handle, NULL), NULL);
    return real(handle);
}
struct dirent *readdir(DIR *folder) {
    REAL(struct dirent *, readdir, DIR *)
    FAIL_IF(judged("readdir", "", dirfd(folder), NULL), NULL);
    return real(folder);
}
struct dirent64 *readdir64(DIR *folder) {
    REAL(struct dirent64 *, readdir64, DIR *)
    FAIL_IF(judged("readdir64", "", dirfd(folder), NULL), NULL);
    return real(folder);
}
PLAIN(mkdir, "ca", HERE, path, (const char *path, mode_t mode), (path, mode))
PLAIN(mkdirat, "ca", handle, path, (int handle, const char *path, mode_t mode), (handle, path, mode))
PLAIN(mknodat, "ca", handle, path, (int handle, const char *path, mode_t mode, dev_t device),
      (handle, path, mode, device))
PLAIN(rmdir, "c", HERE, path, (const char *path), (path))

/* names */

PLAIN(rename, "ca", HERE, old, (const char *old, const char *new), (old, new))
PLAIN(renameat, "ca", from, old, (int from, const char *old, int to, const char *new), (from, old, to, new))
PLAIN(renameat2, "ca", from, old, (int from, const char *old, int to, const char *new, unsigned flags),
      (from, old, to, new, flags))
PLAIN(link, "ca", HERE, new, (const char *old, const char *new), (old, new))
PLAIN(linkat, "ca", to, new, (int from, const char *old, int to, const char *new, int flags),
      (from, old, to, new, flags))
PLAIN(symlink, "ca", HERE, path, (const char *target, const char *path), (target, path))
PLAIN(symlinkat, "ca", handle, path, (const char *target, int handle, const char *path), (target, handle, path))
PLAIN(unlink, "c", HERE, path, (const char *path), (path))
PLAIN(unlinkat, "c", handle, path, (int handle, const char *path, int flags), (handle, path, flags))
ssize_t readlink(const char *path, char *to, size_t size) {
    REAL(ssize_t, readlink, const char *, char *, size_t)
    FAIL_IF(judged("readlink", "", HERE, path), -1);
    return real(path, to, size);
}
ssize_t readlinkat(int handle, const char *path, char *to, size_t size) {
    REAL(ssize_t, readlinkat, int, const char *, char *, size_t)
    FAIL_IF(judged("readlinkat", "", handle, path), -1);
    return real(handle, path, to, size);
}

/* bytes */

/* A buffer is often larger than the file: a short read gives half of what there is, not half of what was asked for. */
ssize_t read(int handle, void *to, size_t size) {
    REAL(ssize_t, read, int, void *, size_t)
    const int code = judged("read", "is", handle, NULL);
    FAIL_IF(code, -1);
    const ssize_t found = real(handle, to, size);
    if (code == SHORT && found > 1 && lseek(handle, -(off_t)(found - found / 2), SEEK_CUR) >= 0)
        return found / 2;
    return found;
}
#define PREAD(name, offset)                                                                                            \
    ssize_t name(int handle, void *to, size_t size, offset at) {                                                       \
        REAL(ssize_t, name, int, void *, size_t, offset)                                                               \
        const int code = judged(#name, "is", handle, NULL);                                                            \
        FAIL_IF(code, -1);                                                                                             \
        const ssize_t found = real(handle, to, size, at);                                                              \
        return code == SHORT && found > 1 ? found / 2 : found;                                                         \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)
PARTIAL(write, "cais", handle, size, (int handle, const void *from, size_t size), (handle, from, size))
PARTIAL(pwrite, "cais", handle, size, (int handle, const void *from, size_t size, off_t at), (handle, from, size, at))
PARTIAL(pwrite64, "cais", handle, size, (int handle, const void *from, size_t size, off64_t at),
        (handle, from, size, at))
PARTIAL(copy_file_range, "cais", into, size,
        (int from, off64_t *start, int into, off64_t *end, size_t size, unsigned flags),
        (from, start, into, end, size, flags))
PARTIAL(sendfile, "cais", into, size, (int into, int from, off_t *at, size_t size), (into, from, at, size))
PARTIAL(sendfile64, "cais", into, size, (int into, int from, off64_t *at, size_t size), (into, from, at, size))
PLAIN(ftruncate, "cai", handle, NULL, (int handle, off_t size), (handle, size))
PLAIN(ftruncate64, "cai", handle, NULL, (int handle, off64_t size), (handle, size))
PLAIN(fsync, "cai", handle, NULL, (int handle), (handle))
PLAIN(fdatasync, "cai", handle, NULL, (int handle), (handle))

/* what is known of a file */

PLAIN(stat, "", HERE, path, (const char *path, struct stat *to), (path, to))
PLAIN(stat64, "", HERE, path, (const char *path, struct stat64 *to), (path, to))
PLAIN(lstat, "", HERE, path, (const char *path, struct stat *to), (path, to))
PLAIN(lstat64, "", HERE, path, (const char *path, struct stat64 *to), (path, to))
PLAIN(fstat, "", handle, NULL, (int handle, struct stat *to), (handle, to))
PLAIN(fstat64, "", handle, NULL, (int handle, struct stat64 *to), (handle, to))
PLAIN(fstatat, "", handle, path, (int handle, const char *path, struct stat *to, int flags), (handle, path, to, flags))
PLAIN(fstatat64, "", handle, path, (int handle, const char *path, struct stat64 *to, int flags),
      (handle, path, to, flags))
PLAIN(statx, "", handle, path, (int handle, const char *path, int flags, unsigned mask, struct statx *to),
      (handle, path, flags, mask, to))
PLAIN(chmod, "c", HERE, path, (const char *path, mode_t mode), (path, mode))
PLAIN(fchmod, "c", handle, NULL, (int handle, mode_t mode), (handle, mode))
PLAIN(fchmodat, "c", handle, path, (int handle, const char *path, mode_t mode, int flags),
      (handle, path, mode, flags))
PLAIN(fchown, "c", handle, NULL, (int handle, uid_t user, gid_t group), (handle, user, group))
PLAIN(utimensat, "c", handle, path, (int handle, const char *path, const struct timespec times[2], int flags),
      (handle, path, times, flags))
PLAIN(futimens, "c", handle, NULL, (int handle, const struct timespec times[2]), (handle, times))
PLAIN(fsetxattr, "ca", handle, NULL, (int handle, const char *name, const void *value, size_t size, int flags),
      (handle, name, value, size, flags))
ssize_t fgetxattr(int handle, const char *name, void *to, size_t size) {
    REAL(ssize_t, fgetxattr, int, const char *, void *, size_t)
    FAIL_IF(judged("fgetxattr", "", handle, NULL), -1);
    return real(handle, name, to, size);
}
ssize_t flistxattr(int handle, char *to, size_t size) {
    REAL(ssize_t, flistxattr, int, char *, size_t)
    FAIL_IF(judged("flistxattr", "", handle, NULL), -1);
    return real(handle, to, size);
}
PLAIN(flock, "i", handle, NULL, (int handle, int operation), (handle, operation))
