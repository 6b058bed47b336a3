/* System calls of a process that fail when a test wants them to (LD_PRELOAD), about files below FAULT_ROOT.
 *
 * The file FAULT_CONTROL is mapped: which errno (0: none), for which kinds of calls, and how many have failed so far.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OPEN = 1, CREATE = 2, WRITE = 4, SYNC = 8, MAP = 16, NAMES = 32, SPACE = 64, READ = 128, LIST = 256 };
enum { MOST_FDS = 1 << 16 };

struct control {
    volatile int number;
    volatile unsigned calls;
    volatile unsigned long failed;
};

static struct control *control;
static const char *root;
static unsigned char ours[MOST_FDS];
static unsigned turn;

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_CONTROL");
    int fd = path ? open(path, O_RDWR) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    root = getenv("FAULT_ROOT");
    if (mapped != MAP_FAILED && root) control = mapped;
}

static int is_ours(const char *path) { return control && path && !strncmp(path, root, strlen(root)); }
static int is_our_fd(int fd) { return control && fd >= 0 && fd < MOST_FDS && ours[fd]; }

/* The errno that a call gets; 0: none. */
static int fault(int mine, unsigned call) {
    int number = mine ? control->number : 0;
    if (!number || !(control->calls & call)) return 0;
    if (number == EINTR && __sync_fetch_and_add(&turn, 1) % 2) return 0; /* who is interrupted tries again, and Python for ever */
    __sync_fetch_and_add(&control->failed, 1);
    return number;
}

static int fails(int mine, unsigned call) {
    int number = fault(mine, call);
    if (number) errno = number;
    return number;
}

typedef int (*open_type)(const char *, int, ...);
static int opened(open_type real, const char *path, int flags, mode_t mode) {
    int mine = is_ours(path);
    unsigned call = flags & O_CREAT && access(path, F_OK) ? CREATE : OPEN;
    if (fails(mine, call)) return -1;
    int fd = real(path, flags, mode);
    if (fd >= 0 && fd < MOST_FDS) ours[fd] = mine;
    return fd;
}

#define MODE mode_t mode = 0; if (flags & O_CREAT) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *path, int flags, ...) { REAL(open); MODE return opened(real, path, flags, mode); }
int open64(const char *path, int flags, ...) { REAL(open64); MODE return opened(real, path, flags, mode); }

int close(int fd) {
    REAL(close);
    if (fd >= 0 && fd < MOST_FDS) ours[fd] = 0;
    return real(fd);
}

#define BY_FD(result, name, call, parameters, arguments) \
    result name parameters { REAL(name); return fails(is_our_fd(fd), call) ? (result)-1 : real arguments; }
BY_FD(ssize_t, write, WRITE, (int fd, const void *data, size_t size), (fd, data, size))
BY_FD(ssize_t, pwrite, WRITE, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
BY_FD(ssize_t, pwrite64, WRITE, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
BY_FD(ssize_t, pread, READ, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
BY_FD(ssize_t, pread64, READ, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
BY_FD(int, ftruncate, SPACE, (int fd, off_t size), (fd, size))
BY_FD(int, ftruncate64, SPACE, (int fd, off64_t size), (fd, size))
BY_FD(int, fsync, SYNC, (int fd), (fd))
BY_FD(int, fdatasync, SYNC, (int fd), (fd))

int posix_fallocate(int fd, off_t at, off_t size) {
    REAL(posix_fallocate);
    int number = fault(is_our_fd(fd), SPACE);
    return number ? number : real(fd, at, size);
}
int posix_fallocate64(int fd, off64_t at, off64_t size) {
    REAL(posix_fallocate64);
    int number = fault(is_our_fd(fd), SPACE);
    return number ? number : real(fd, at, size);
}

/* Only files below the root are mapped and synced so. */
int msync(void *at, size_t size, int flags) {
    REAL(msync);
    return fails(control != NULL, SYNC) ? -1 : real(at, size, flags);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    REAL(mmap);
    return fails(is_our_fd(fd), MAP) ? MAP_FAILED : real(at, size, protection, flags, fd, offset);
}
void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset) {
    REAL(mmap64);
    return fails(is_our_fd(fd), MAP) ? MAP_FAILED : real(at, size, protection, flags, fd, offset);
}

#define BY_PATH(name, parameters, arguments) \
    int name parameters { REAL(name); return fails(is_ours(path), NAMES) ? -1 : real arguments; }
BY_PATH(mkdir, (const char *path, mode_t mode), (path, mode))
BY_PATH(unlink, (const char *path), (path))
BY_PATH(rmdir, (const char *path), (path))
BY_PATH(rename, (const char *path, const char *to), (path, to))

DIR *opendir(const char *path) {
    REAL(opendir);
    return fails(is_ours(path), LIST) ? NULL : real(path);
}
