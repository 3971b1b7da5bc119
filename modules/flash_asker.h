/*
 * What askers of `flash helper` in C have in common: the socket, and what they may try themselves because it does not wait.
 * Nothing of a server is known here.
 */
#ifndef FLASH_ASKER_H
#define FLASH_ASKER_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "flash_helper.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

#define FLASH_PAGE_BYTES 4096

/* Whether a window is in memory. */
enum flash_residency {
    FLASH_ABSENT,
    FLASH_RESIDENT,
    FLASH_UNTOLD, /* the kernel does not tell: before Linux 6.5, or of a file that this user does not own */
};

/* A nonblocking connection to the daemon, or -1. */
static inline int flash_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s == -1) {
        return -1;
    }
    if (connect(s, (struct sockaddr *) &address, sizeof(address)) == -1) {
        int error = errno;
        close(s);
        errno = error;
        return -1;
    }
    return s;
}

/* Sends a question, with a descriptor unless that is -1. Returns 0, or -1. */
static inline int flash_send(int s, const struct flash_question *question, const char *path, int descriptor)
{
    struct iovec parts[2] = {
        {.iov_base = (void *) question, .iov_len = sizeof(*question)},
        {.iov_base = (void *) path, .iov_len = question->path_bytes},
    };
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr alignment;
    } control = {{0}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (descriptor != -1) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof(control.space);
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(part), &descriptor, sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(s, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent == -1 && errno == EINTR);
    return sent == -1 ? -1 : 0;
}

/* Receives a message. Returns its length, 0 if the daemon is gone, or -1 with EAGAIN. The descriptor is -1 if none came. */
static inline ssize_t flash_receive(int s, void *buffer, size_t bytes, int *descriptor)
{
    struct iovec part = {.iov_base = buffer, .iov_len = bytes};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr alignment;
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t length;
    *descriptor = -1;
    do {
        message.msg_control = control.space;
        message.msg_controllen = sizeof(control.space);
        length = recvmsg(s, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (length == -1 && errno == EINTR);
    if (length == -1) {
        return errno == EAGAIN ? -1 : 0;
    }
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (rights != NULL && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
        memcpy(descriptor, CMSG_DATA(rights), sizeof(int));
    }
    return length;
}

/* Whether a message is an answer of this version. */
static inline int flash_is_answer(const struct flash_answer *answer, ssize_t length)
{
    return length == (ssize_t) sizeof(*answer) && answer->version == FLASH_HELPER_VERSION
           && answer->kind >= FLASH_FILE && answer->kind <= FLASH_REFUSED;
}

static inline int flash_is_later(const struct timespec *time, const struct timespec *other)
{
    return time->tv_sec > other->tv_sec || (time->tv_sec == other->tv_sec && time->tv_nsec > other->tv_nsec);
}

/*
 * Opens a file through names that are in memory. The path begins behind the root's slash. -1 with EAGAIN means: ask. If
 * `access_times` is set at first, it is set afterwards if a read would set the file's time of access, which may wait. The asker
 * then has the daemon read the first window of this descriptor, which sets the time.
 */
static inline int flash_open(int root, const char *path, int *access_times, struct stat *stat)
{
    struct open_how how = {
        .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOATIME,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | RESOLVE_CACHED,
    };
    int is_noted = 0;
    int file = syscall(SYS_openat2, root, *path == '\0' ? "." : path, &how, sizeof(how));
    if (file == -1 && errno == EPERM) {
        /* Only the owner may leave the time of access as it is. */
        how.flags &= ~O_NOATIME;
        is_noted = *access_times;
        file = syscall(SYS_openat2, root, *path == '\0' ? "." : path, &how, sizeof(how));
    }
    if (file == -1) {
        switch (errno) {
        case ENOENT:
        case ENOTDIR:
        case EACCES:
            break;
        default:
            errno = EAGAIN; /* the daemon finds out */
        }
        return -1;
    }
    if (fstat(file, stat) == -1) {
        close(file);
        errno = EAGAIN;
        return -1;
    }
    *access_times = is_noted && S_ISREG(stat->st_mode)
                    && (!flash_is_later(&stat->st_atim, &stat->st_mtim) || !flash_is_later(&stat->st_atim, &stat->st_ctim)
                        || time(NULL) - stat->st_atime >= 23 * 3600);
    return file;
}

/* Whether all of a window is in the page cache. */
static inline enum flash_residency flash_resident(int file, uint64_t start, uint64_t bytes)
{
    uint64_t range[2] = {start, bytes};
    uint64_t told[5];
    if (bytes == 0) {
        return FLASH_RESIDENT;
    }
    if (syscall(SYS_cachestat, file, range, told, 0) == -1) {
        return FLASH_UNTOLD;
    }
    uint64_t pages = (start + bytes + FLASH_PAGE_BYTES - 1) / FLASH_PAGE_BYTES - start / FLASH_PAGE_BYTES;
    return told[0] >= pages ? FLASH_RESIDENT : FLASH_ABSENT;
}

/*
 * Whether all pages of a resident window are complete. cachestat also counts pages that are still being read, for which sendfile
 * would wait. The mapping is named to mincore only, and never read.
 */
static inline int flash_is_complete(int file, uint64_t start, uint64_t bytes)
{
    unsigned char pages[FLASH_WINDOW_BYTES_MAX / FLASH_PAGE_BYTES + 1];
    uint64_t first = start / FLASH_PAGE_BYTES * FLASH_PAGE_BYTES;
    size_t length = start + bytes - first, count = (length + FLASH_PAGE_BYTES - 1) / FLASH_PAGE_BYTES;
    if (bytes == 0 || count > sizeof(pages)) {
        return bytes == 0;
    }
    void *at = mmap(NULL, length, PROT_READ, MAP_SHARED, file, (off_t) first);
    if (at == MAP_FAILED) {
        return 0;
    }
    int is_complete = mincore(at, length, pages) == 0;
    for (size_t i = 0; i < count && is_complete; i++) {
        is_complete = pages[i] & 1;
    }
    munmap(at, length);
    return is_complete;
}

/*
 * Pieces of files that were in memory when this process last read them, of files whose pages the kernel does not tell of. A read
 * with RWF_NOWAIT would start to read an absent page from the disk, and may wait for room in its queue. So it is tried for these
 * pieces alone.
 */
#define FLASH_SEEN_PIECES 16384
#define FLASH_SEEN_BYTES (64 << 10)

static inline uint64_t flash_piece(const struct flash_stamp *stamp, uint64_t start)
{
    uint64_t piece = stamp->inode * 0x9e3779b97f4a7c15 ^ stamp->device ^ (uint64_t) stamp->modified_ns;
    return (piece ^ (start / FLASH_SEEN_BYTES + 1)) * 0xff51afd7ed558ccd | 1;
}

/* Of each process its own. Threads may lose an entry to each other, which costs a question. */
static uint64_t flash_seen[FLASH_SEEN_PIECES];

static inline int flash_was_resident(const struct flash_stamp *stamp, uint64_t start)
{
    uint64_t piece = flash_piece(stamp, start);
    return __atomic_load_n(&flash_seen[piece >> 50], __ATOMIC_RELAXED) == piece;
}

static inline void flash_note_resident(const struct flash_stamp *stamp, uint64_t start, int resident)
{
    uint64_t piece = flash_piece(stamp, start);
    __atomic_store_n(&flash_seen[piece >> 50], resident ? piece : 0, __ATOMIC_RELAXED);
}

/* Reads a window if all of it is in the page cache. Returns whether it was. */
static inline int flash_read_now(int file, void *buffer, size_t bytes, uint64_t start)
{
    struct iovec part = {.iov_base = buffer, .iov_len = bytes};
    return preadv2(file, &part, 1, (off_t) start, RWF_NOWAIT) == (ssize_t) bytes;
}

/* A question about a path, with the stamp of no file. */
static inline struct flash_question flash_question(int kind, uint32_t root, size_t path_bytes, uint64_t id)
{
    struct flash_question question = {
        .version = FLASH_HELPER_VERSION,
        .kind = (uint8_t) kind,
        .root = root,
        .id = id,
        .path_bytes = (uint16_t) path_bytes,
    };
    return question;
}

#endif
