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

#include "flash_helper.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

#define FLASH_PAGE_BYTES 4096
#define FLASH_ROOTS_MAX 64

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
 * Pieces of files that were in memory when this process last looked, and when that was. A piece that was looked at a moment ago
 * is still there: the kernel evicts what was used longer ago. So hot files cost no further calls. A moment is 50 ms. For pieces
 * that were found twice it is learned, because the kernel keeps those longer. Pieces that are there lengthen it. It is at most a
 * quarter of the time after which a piece was gone.
 *
 * Of files of other users, whose pages the kernel does not tell, only pieces that were seen lately enough are tried. A read with
 * RWF_NOWAIT starts to read an absent page from the disk, and may wait for room in its queue. Each such wait halves the time that
 * counts as lately enough. It grows with pieces that are there, and doubles after 45,000 of them. A moment does after 1,400.
 */
#define FLASH_PIECES_LOG2 18 /* 2 MiB */
#define FLASH_WAYS_LOG2 3    /* places for a piece, in one line of the processor's cache */
#define FLASH_NEIGHBOURS 4   /* pieces of a file that have the same places */
#define FLASH_PIECE_BYTES (64 << 10)
#define FLASH_RUN_BYTES_MAX (1 << 20) /* what is looked at before it is sent in one call */
#define FLASH_TICK_MS_LOG2 2
#define FLASH_TICKS 0x7fffff
#define FLASH_KEPT 0x800000
#define FLASH_WAIT_TICKS 2 /* 4 to 12 ms */

/* When a piece was last seen, and whether it was found then, and not just read from the disk. */
struct flash_sight {
    uint64_t ago;
    int is_kept;
};

enum flash_memory { FLASH_NEVER, FLASH_ONCE, FLASH_LATELY }; /* seen: not at all or too long ago; and so on */

/* The ages of pieces that are learned. Their places are behind those of the pieces. */
enum flash_age {
    FLASH_MOMENT = 1 << FLASH_PIECES_LOG2, /* a piece that was seen so long ago is sent without a look */
    FLASH_TRIED,                           /* a piece that was seen so long ago is tried */
    FLASH_PLACES,
};

/* The piece, with the time in its low bits. Threads and processes may lose an entry to each other. */
/* One table for a module, however many of its files include this. */
__attribute__((weak, visibility("hidden"), aligned(64))) uint64_t flash_seen_alone[FLASH_PLACES];
__attribute__((weak, visibility("hidden"))) uint64_t *flash_seen = flash_seen_alone;

/* Before processes are forked: what one of them has seen, the others know. Returns the memory, or NULL. */
static inline void *flash_share_seen(void)
{
    if (flash_seen != flash_seen_alone) {
        return flash_seen;
    }
    void *at = mmap(NULL, sizeof(flash_seen_alone), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    flash_seen = at == MAP_FAILED ? flash_seen_alone : at;
    return at == MAP_FAILED ? NULL : at;
}

static inline uint64_t flash_piece(const struct flash_stamp *stamp, uint64_t start)
{
    /* Whole seconds, because nginx's cache of open files knows no more. */
    uint64_t number = start / FLASH_PIECE_BYTES;
    uint64_t file = stamp->inode * 0x9e3779b97f4a7c15 ^ stamp->device << 48 ^ (uint64_t) stamp->modified_ns / 1000000000
                    ^ stamp->size * 0xc2b2ae3d27d4eb4f ^ number / FLASH_NEIGHBOURS;
    /* A product alone would place files with consecutive inodes together. */
    file = (file ^ file >> 32) * 0xff51afd7ed558ccd;
    file = (file ^ file >> 32) * 0xc4ceb9fe1a85ec53;
    /* Neighbours differ below the bits that choose the places. */
    return (file ^ number % FLASH_NEIGHBOURS << 32) | (FLASH_KEPT + FLASH_TICKS + 1);
}

static inline uint64_t flash_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return ((uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000) >> FLASH_TICK_MS_LOG2;
}

/* Whether an entry of the table is of this piece. */
static inline int flash_is_of(uint64_t seen, uint64_t piece)
{
    return ((seen ^ piece) & ~(uint64_t) (FLASH_KEPT | FLASH_TICKS)) == 0;
}

/* The places that a piece may have. */
static inline uint64_t *flash_table_places(uint64_t piece)
{
    return &flash_seen[(piece >> (64 - FLASH_PIECES_LOG2 + FLASH_WAYS_LOG2)) << FLASH_WAYS_LOG2];
}

/* What the table has of a piece, or 0. */
static inline uint64_t flash_table_get(uint64_t piece)
{
    const uint64_t *places = flash_table_places(piece);
    for (int i = 0; i < 1 << FLASH_WAYS_LOG2; i++) {
        uint64_t seen = __atomic_load_n(&places[i], __ATOMIC_RELAXED);
        if (flash_is_of(seen, piece)) {
            return seen;
        }
    }
    return 0;
}

/* Has the table know this of a piece: in its place, a free one, or that of the piece which was seen longest ago. */
static inline void flash_table_put(uint64_t piece, uint64_t value)
{
    uint64_t *places = flash_table_places(piece), *best = places, now = flash_now(), best_ago = 0;
    for (uint64_t *place = places; place < places + (1 << FLASH_WAYS_LOG2); place++) {
        uint64_t seen = __atomic_load_n(place, __ATOMIC_RELAXED);
        uint64_t ago = flash_is_of(seen, piece) ? UINT64_MAX : seen == 0 ? UINT64_MAX - 1 : (now - seen) & FLASH_TICKS;
        best = ago > best_ago ? place : best;
        best_ago = ago > best_ago ? ago : best_ago;
    }
    __atomic_store_n(best, value, __ATOMIC_RELAXED);
}

/* An age in parts of a tick, so that it can grow by little. */
static inline uint64_t flash_age(uint64_t ticks)
{
    return ticks << 20;
}

static inline uint64_t flash_age_min(enum flash_age which)
{
    return flash_age(which == FLASH_MOMENT ? 12 : 1 << 6); /* 50 and 256 ms */
}

static inline uint64_t flash_age_max(enum flash_age which)
{
    return flash_age(which == FLASH_MOMENT ? 1 << 10 : 1 << 14); /* 4 seconds and a minute */
}

static inline uint64_t flash_learned(enum flash_age which)
{
    uint64_t age = __atomic_load_n(&flash_seen[which], __ATOMIC_RELAXED);
    return age != 0 ? age : which == FLASH_MOMENT ? flash_age_min(which) : flash_age_max(which);
}

static inline void flash_learn(enum flash_age which, uint64_t age)
{
    uint64_t min = flash_age_min(which), max = flash_age_max(which);
    __atomic_store_n(&flash_seen[which], age < min ? min : age > max ? max : age, __ATOMIC_RELAXED);
}

static inline struct flash_sight flash_sight(const struct flash_stamp *stamp, uint64_t start)
{
    uint64_t seen = flash_table_get(flash_piece(stamp, start));
    uint64_t ago = seen != 0 ? flash_age((flash_now() - seen) & FLASH_TICKS) : UINT64_MAX;
    return (struct flash_sight) {ago, (seen & FLASH_KEPT) != 0};
}

/* The time for which a piece is sent without a look. */
static inline uint64_t flash_moment(struct flash_sight sight)
{
    return sight.is_kept ? flash_learned(FLASH_MOMENT) : flash_age_min(FLASH_MOMENT);
}

static inline enum flash_memory flash_judge(struct flash_sight sight)
{
    return sight.ago > flash_learned(FLASH_TRIED) ? FLASH_NEVER : sight.ago > flash_moment(sight) ? FLASH_ONCE : FLASH_LATELY;
}

static inline enum flash_memory flash_recall(const struct flash_stamp *stamp, uint64_t start)
{
    return flash_judge(flash_sight(stamp, start));
}

/*
 * Notes what a look or a try that began then has shown of a piece that was seen before. Of those that are there, one in 64
 * counts for all, and none that was seen a moment ago.
 */
static inline void flash_note_tried(struct flash_sight sight, uint64_t began, int is_resident)
{
    uint64_t now = flash_now(), moment = flash_learned(FLASH_MOMENT), tried = flash_learned(FLASH_TRIED);
    enum flash_memory memory = flash_judge(sight);
    if (memory == FLASH_NEVER || (is_resident && (memory == FLASH_LATELY || now % 64 != 0))) {
        return;
    }
    if (sight.is_kept) {
        moment = is_resident ? moment + moment / 32 : moment < sight.ago / 4 ? moment : sight.ago / 4;
    }
    if (is_resident || (memory == FLASH_ONCE && now - began >= FLASH_WAIT_TICKS)) {
        tried = is_resident ? tried + tried / 1024 : tried / 2;
    }
    flash_learn(FLASH_TRIED, tried);
    flash_learn(FLASH_MOMENT, moment < tried / 2 ? moment : tried / 2); /* so that there are pieces to learn from */
}

/* Notes what a look at a window has shown: of an absent one of all pieces, of one in memory of those that are whole in it. */
static inline void flash_note(const struct flash_stamp *stamp, uint64_t start, uint64_t end, int is_resident)
{
    for (uint64_t at = start / FLASH_PIECE_BYTES * FLASH_PIECE_BYTES; at < end; at += FLASH_PIECE_BYTES) {
        uint64_t piece = flash_piece(stamp, at);
        int is_whole = at >= start && (at + FLASH_PIECE_BYTES <= end || end >= stamp->size);
        uint64_t known = flash_table_get(piece);
        if (!is_resident && known != 0) {
            flash_table_put(piece, 0);
        } else if (is_resident && is_whole) {
            uint64_t seen = (piece & ~(uint64_t) (FLASH_KEPT | FLASH_TICKS)) | (known != 0 ? FLASH_KEPT : 0);
            flash_table_put(piece, seen | (flash_now() & FLASH_TICKS));
        }
    }
}

/* Notes that a part was sent, which had been seen a moment ago. If it is sent again and again, it needs no further look. */
static inline void flash_note_sent(const struct flash_stamp *stamp, uint64_t start, uint64_t end)
{
    struct flash_sight sight = flash_sight(stamp, start);
    if (flash_judge(sight) == FLASH_LATELY && sight.ago > flash_moment(sight) / 2) {
        flash_note(stamp, start, end, 1);
    }
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
