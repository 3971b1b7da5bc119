/*
 * What askers of `flash helper` in C have in common: the socket, and what they may try themselves because it does not wait.
 * Nothing of a server is known here.
 */
#ifndef FLASH_ASKER_H
#define FLASH_ASKER_H

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "flash_seen.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

#define FLASH_PAGE_BYTES 4096 /* no machine has smaller pages */
#define FLASH_ROOTS_MAX 64
#define FLASH_RUN_BYTES_MAX (1 << 20) /* what is looked at before it is sent in one call */

/* A connection to the daemon, and the roots that it has told. */
struct flash_link {
    int s; /* -1: none */
    unsigned roots_count, roots_told;
    struct flash_known_root {
        int folder;
        unsigned flags;
        size_t path_bytes;
        char *path; /* NULL: not told yet */
    } roots[FLASH_ROOTS_MAX];
};

/* A message of the daemon. */
union flash_message {
    struct flash_answer answer;
    struct flash_hello hello;
    struct flash_root root;
    char bytes[FLASH_MESSAGE_BYTES_MAX];
};

/* What a look at the connection has brought. */
enum flash_heard {
    FLASH_SILENT,   /* nothing, for now */
    FLASH_TOLD,     /* something of the roots */
    FLASH_ANSWERED, /* an answer */
    FLASH_GONE,     /* the daemon is gone */
    FLASH_UNFIT,    /* it refuses this asker, speaks another version, or a root has come without its folder */
};

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

/* Forgets the roots, and closes the connection unless that is done. */
static inline void flash_disconnect(struct flash_link *link)
{
    if (link->s != -1) {
        close(link->s);
    }
    for (unsigned i = 0; i < FLASH_ROOTS_MAX; i++) {
        if (link->roots[i].path != NULL) {
            close(link->roots[i].folder);
            free(link->roots[i].path);
        }
    }
    memset(link, 0, sizeof(*link));
    link->s = -1;
}

/* Takes a root with its folder. Returns whether it is one. */
static inline int flash_take_root(struct flash_link *link, const struct flash_root *told, ssize_t length, int folder)
{
    char *path = NULL;
    if (told->root < link->roots_count && folder != -1 && length == (ssize_t) sizeof(*told) + told->path_bytes) {
        path = malloc(told->path_bytes + 1);
    }
    if (path == NULL) {
        if (folder != -1) {
            close(folder);
        }
        return 0;
    }
    struct flash_known_root *root = &link->roots[told->root];
    if (root->path != NULL) {
        close(root->folder);
        free(root->path);
    } else {
        link->roots_told++;
    }
    *root = (struct flash_known_root) {folder, told->flags, told->path_bytes, path};
    memcpy(path, told + 1, told->path_bytes);
    return 1;
}

/* Receives one message. With an answer, its descriptor is the caller's. */
static inline enum flash_heard flash_hear(struct flash_link *link, union flash_message *message, int *descriptor)
{
    ssize_t length = flash_receive(link->s, message, sizeof(*message), descriptor);
    const struct flash_answer *answer = &message->answer;
    if (length <= 0) {
        return length == -1 ? FLASH_SILENT : FLASH_GONE;
    }
    if (length >= (ssize_t) sizeof(message->root) && message->root.kind == FLASH_ROOT) {
        return flash_take_root(link, &message->root, length, *descriptor) ? FLASH_TOLD : FLASH_UNFIT;
    }
    /* Number 0 is nobody's: the daemon says why it closes the connection. */
    if (length == (ssize_t) sizeof(*answer) && answer->version == FLASH_HELPER_VERSION && answer->kind >= FLASH_FILE
        && answer->kind <= FLASH_REFUSED && answer->id != 0 && (*descriptor == -1 || answer->kind <= FLASH_WINDOW)) {
        return FLASH_ANSWERED;
    }
    if (*descriptor != -1) {
        close(*descriptor);
    }
    if (length == (ssize_t) sizeof(message->hello) && message->hello.kind == FLASH_HELLO
        && message->hello.version == FLASH_HELPER_VERSION && message->hello.roots <= FLASH_ROOTS_MAX) {
        link->roots_count = message->hello.roots;
        return FLASH_TOLD;
    }
    return FLASH_UNFIT;
}

static inline int flash_knows_roots(const struct flash_link *link)
{
    return link->roots_count > 0 && link->roots_told == link->roots_count;
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
    /* Only its owner may leave a file's time of access as it is. Files of a site mostly have one owner. */
    static __thread int is_owner = 1;
    static __thread uid_t user = (uid_t) -1;
    struct open_how how = {
        .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (is_owner ? O_NOATIME : 0),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | RESOLVE_CACHED,
    };
    int file = syscall(SYS_openat2, root, *path == '\0' ? "." : path, &how, sizeof(how));
    if (file == -1 && errno == EPERM && is_owner) {
        is_owner = 0;
        how.flags &= ~O_NOATIME;
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
    *access_times = *access_times && !(how.flags & O_NOATIME) && S_ISREG(stat->st_mode)
                    && (!flash_is_later(&stat->st_atim, &stat->st_mtim) || !flash_is_later(&stat->st_atim, &stat->st_ctim)
                        || time(NULL) - stat->st_atime >= 23 * 3600);
    user = user == (uid_t) -1 ? geteuid() : user;
    is_owner |= stat->st_uid == user;
    return file;
}

/* The size of this machine's pages. */
static inline uint64_t flash_page_bytes(void)
{
    static long bytes = 0; /* shared by threads, which ask once more at worst */
    if (bytes == 0) {
        bytes = sysconf(_SC_PAGESIZE);
    }
    return bytes < FLASH_PAGE_BYTES ? FLASH_PAGE_BYTES : (uint64_t) bytes;
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
    uint64_t page = flash_page_bytes(), pages = (start + bytes + page - 1) / page - start / page;
    return told[0] >= pages ? FLASH_RESIDENT : FLASH_ABSENT;
}

/*
 * Whether all pages of a resident window are complete. cachestat also counts pages that are still being read, for which sendfile
 * would wait. The mapping is named to mincore only, and never read.
 */
static inline int flash_is_complete(int file, uint64_t start, uint64_t bytes)
{
    unsigned char pages[FLASH_WINDOW_BYTES_MAX / FLASH_PAGE_BYTES + 1];
    uint64_t page = flash_page_bytes(), first = start / page * page;
    size_t length = start + bytes - first, count = (length + page - 1) / page;
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
 * Marks the page of a byte as used, that was just read through a descriptor that stays open. The kernel takes several such reads
 * of one page for a single use, and would evict what is hot. `sendfile` counts each time. While a moment is at its longest, the
 * kernel evicts nothing that matters.
 */
static inline void flash_mark_used(int file, uint64_t start)
{
    static int null = -1; /* shared by threads, which open it once more at worst */
    off_t offset = (off_t) start;
    if (flash_learned(FLASH_MOMENT) == flash_age_max(FLASH_MOMENT)) {
        return;
    }
    if (null == -1) {
        null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    (void) !sendfile(null, file, &offset, 1);
}

/* Reads a window if all of it is in the page cache. Returns whether it was. */
static inline int flash_read_now(int file, void *buffer, size_t bytes, uint64_t start)
{
    struct iovec part = {.iov_base = buffer, .iov_len = bytes};
    return preadv2(file, &part, 1, (off_t) start, RWF_NOWAIT) == (ssize_t) bytes;
}

/* The same for up to a piece that nobody wants yet. All pages are read into one, which stays in the processor's cache. */
static inline int flash_touch_now(int file, size_t bytes, uint64_t start)
{
    char unused[FLASH_PAGE_BYTES];
    struct iovec parts[FLASH_PIECE_BYTES / FLASH_PAGE_BYTES];
    int count = 0;
    for (size_t left = bytes; left > 0; left -= parts[count++].iov_len) {
        parts[count] = (struct iovec) {unused, left < sizeof(unused) ? left : sizeof(unused)};
    }
    return preadv2(file, parts, count, (off_t) start, RWF_NOWAIT) == (ssize_t) bytes;
}

/* The same, but an absent page is not touched. The daemon may just have loaded the window. */
static inline int flash_read_resident(int file, const struct flash_stamp *stamp, void *buffer, size_t bytes, uint64_t start,
                                      int is_loaded)
{
    struct flash_sight sight = flash_sight(stamp, start);
    enum flash_memory memory = flash_judge(sight);
    if (memory != FLASH_LATELY && !is_loaded) {
        enum flash_residency residency = flash_resident(file, start, bytes);
        if (residency == FLASH_ABSENT || (residency == FLASH_UNTOLD && memory == FLASH_NEVER)) {
            flash_note_tried(sight, flash_now(), 0);
            return 0;
        }
    }
    uint64_t began = flash_now();
    int is_read = flash_read_now(file, buffer, bytes, start);
    flash_note_tried(sight, began, is_read);
    if (!is_read || memory != FLASH_LATELY) {
        flash_note(stamp, start, start + bytes, is_read);
    }
    return is_read;
}

/* How many bytes of a window are complete in the page cache. */
static inline uint64_t flash_look(int file, const struct flash_stamp *stamp, uint64_t start, uint64_t bytes, int is_loaded)
{
    uint64_t end = start + bytes, at = start;
    enum flash_residency residency = flash_resident(file, start, bytes);
    if (residency != FLASH_UNTOLD) {
        int is_resident = residency == FLASH_RESIDENT && flash_is_complete(file, start, bytes);
        flash_note_tried(flash_sight(stamp, start), flash_now(), is_resident);
        flash_note(stamp, start, end, is_resident);
        return is_resident ? bytes : 0;
    }
    while (at < end) {
        struct flash_sight sight = flash_sight(stamp, at);
        if (flash_judge(sight) == FLASH_NEVER && !is_loaded) {
            break;
        }
        /* The whole piece, so that it is known for the next time. */
        uint64_t from = is_loaded ? at : at / FLASH_PIECE_BYTES * FLASH_PIECE_BYTES;
        uint64_t to = (at / FLASH_PIECE_BYTES + 1) * FLASH_PIECE_BYTES;
        to = is_loaded && to > end ? end : to > stamp->size ? stamp->size : to;
        uint64_t began = flash_now();
        int is_resident = flash_touch_now(file, to - from, from);
        flash_note_tried(sight, began, is_resident);
        flash_note(stamp, from, to, is_resident);
        if (!is_resident) {
            break;
        }
        at = to;
    }
    return (at < end ? at : end) - start;
}

/* How many bytes can be sent from the page cache without a wait. 0: the daemon has to read them. It may just have done so. */
static inline uint64_t flash_ready(int file, const struct flash_stamp *stamp, uint64_t start, uint64_t bytes, int is_loaded)
{
    uint64_t end = start + (bytes < FLASH_RUN_BYTES_MAX ? bytes : FLASH_RUN_BYTES_MAX), at = start, ready = 1;
    while (at < end && ready > 0) {
        if (flash_recall(stamp, at) == FLASH_LATELY) {
            at = (at / FLASH_PIECE_BYTES + 1) * FLASH_PIECE_BYTES;
        } else {
            ready = end - at < FLASH_WINDOW_BYTES_MAX ? end - at : FLASH_WINDOW_BYTES_MAX;
            ready = flash_look(file, stamp, at, ready, is_loaded && at == start);
            at += ready;
        }
    }
    return (at < end ? at : end) - start;
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
