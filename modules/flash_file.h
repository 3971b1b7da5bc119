/*
 * A file that the daemon helps to find and read: what an asker may try itself, what it has to ask, and what an answer means.
 * Nothing of a server is known here.
 */
#ifndef FLASH_FILE_H
#define FLASH_FILE_H

#include <stdio.h>
#include <strings.h>

#include "flash_asker.h"

struct flash_file {
    uint32_t root;
    const char *path; /* from the root on, with its slash, and a zero byte behind it */
    size_t path_bytes;
    int fd;            /* -1: none */
    int memory;        /* the bytes of the window that was loaded last; -1: the window is in the page cache */
    uint64_t loaded_start, loaded_end; /* of that window */
    struct flash_stamp stamp;
    enum flash_coding coding;
    unsigned is_borrowed : 1;   /* the descriptor belongs to the server */
    unsigned is_remote : 1;     /* each window is asked for by path */
    unsigned is_memory : 1;     /* the file is sealed memory */
    unsigned is_access_due : 1; /* the first read sets the time of access, so the daemon does it */
};

/* Copies of files that are compressed already, in the order of preference. */
static const struct {
    enum flash_coding coding;
    const char *token, *suffix;
} flash_codings[] = {{FLASH_BROTLI, "br", ".br"}, {FLASH_ZSTD, "zstd", ".zst"}, {FLASH_GZIP, "gzip", ".gz"}};

#define FLASH_CODINGS (sizeof(flash_codings) / sizeof(flash_codings[0]))
#define FLASH_ACCEPT(coding) (1u << ((coding) - 1)) /* FLASH_ACCEPT_GZIP and so on */

/* What an Accept-Encoding field names, unless with q=0. NULL: there is none. */
static inline unsigned flash_accepts(const char *field)
{
    unsigned accepts = 0;
    for (size_t i = 0; field != NULL && i < FLASH_CODINGS; i++) {
        const char *token = flash_codings[i].token, *at = strcasestr(field, token);
        if (at != NULL) {
            at += strlen(token);
            at += strspn(at, " ;");
            int is_refused = strncmp(at, "q=0", 3) == 0 && !(at[3] == '.' && at[4] >= '1' && at[4] <= '9');
            accepts |= is_refused ? 0 : FLASH_ACCEPT(flash_codings[i].coding);
        }
    }
    return accepts;
}

/* The name of the coding of what is sent; NULL for the file itself. */
static inline const char *flash_token(const struct flash_file *f)
{
    for (size_t i = 0; i < FLASH_CODINGS; i++) {
        if (f->coding == flash_codings[i].coding) {
            return flash_codings[i].token;
        }
    }
    return NULL;
}

static inline void flash_file_close(struct flash_file *f)
{
    if (f->fd != -1 && !f->is_borrowed) {
        close(f->fd);
    }
    if (f->memory != -1) {
        close(f->memory);
    }
    f->fd = f->memory = -1;
}

/* Makes one of several slashes in a row, also with dots between them, as the kernel does. Returns the bytes that are left. */
static inline size_t flash_tidy(char *path, size_t bytes)
{
    size_t left = 0;
    for (size_t at = 0; at < bytes; at++) {
        int is_behind_slash = left > 0 && path[left - 1] == '/';
        int is_dot = path[at] == '.' && at + 1 < bytes && path[at + 1] == '/';
        if (!is_behind_slash || (path[at] != '/' && !is_dot)) {
            path[left++] = path[at];
        }
    }
    path[left] = '\0';
    return left;
}

/* Whether a part of the path is `.` or `..`. The daemon finds no such path. */
static inline int flash_has_dots(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/.")) != NULL; at += 2) {
        char next = at[2] == '.' ? at[3] : at[2];
        if (next == '/' || next == '\0') {
            return 1;
        }
    }
    return 0;
}

/* Places the file by its full path below the innermost root. NULL: there is none, or the path is too long. */
static inline const struct flash_known_root *flash_file_place(struct flash_file *f, const struct flash_link *link,
                                                              const char *path, size_t bytes)
{
    const struct flash_known_root *found = NULL;
    for (unsigned i = 0; i < link->roots_count; i++) {
        const struct flash_known_root *root = &link->roots[i];
        if (root->path != NULL && bytes > root->path_bytes && path[root->path_bytes] == '/'
            && memcmp(path, root->path, root->path_bytes) == 0 && (found == NULL || root->path_bytes > found->path_bytes)) {
            found = root;
            f->root = i;
            f->path = path + root->path_bytes;
            f->path_bytes = bytes - root->path_bytes;
        }
    }
    return f->path_bytes <= FLASH_PATH_BYTES_MAX ? found : NULL;
}

static inline void flash_file_stamp(struct flash_file *f, uint64_t size, uint64_t inode, const struct timespec *modified)
{
    int64_t modified_ns = (int64_t) modified->tv_sec * 1000000000 + modified->tv_nsec;
    /* Files of one root are on one device. */
    f->stamp = (struct flash_stamp) {.size = size, .modified_ns = modified_ns, .inode = inode, .device = f->root};
}

/* Whether the beginning of the open file is not in the page cache, as far as that is known without a read. */
static inline int flash_file_is_cold(const struct flash_file *f)
{
    uint64_t bytes = f->stamp.size < FLASH_WINDOW_BYTES_MAX ? f->stamp.size : FLASH_WINDOW_BYTES_MAX;
    enum flash_memory memory = flash_recall(&f->stamp, 0);
    enum flash_residency residency = memory == FLASH_LATELY ? FLASH_RESIDENT : flash_resident(f->fd, 0, bytes);
    return residency == FLASH_ABSENT || (residency == FLASH_UNTOLD && memory == FLASH_NEVER);
}

/*
 * Finds the file, or a compressed copy that is no older, through names that are in memory. Returns the kind of the answer that
 * the daemon would give, or 0: it has to be asked. Of a file that is sent from its beginning on, the daemon reads that as it
 * finds it, so such a file is left to the daemon if it is cold. The daemon's descriptor sets no time of access.
 */
static inline int flash_file_open(struct flash_file *f, const struct flash_known_root *root, unsigned accepts, int is_sent)
{
    struct stat stat, copy_stat;
    int access_times = (root->flags & FLASH_ACCESS_TIMES) != 0, is_due = access_times;
    if (flash_has_dots(f->path)) {
        return FLASH_MISSING;
    }
    if (!(root->flags & FLASH_INLINE)) {
        return 0;
    }
    int file = flash_open(root->folder, f->path + 1, &is_due, &stat);
    if (file == -1) {
        return errno == EAGAIN ? 0 : errno == EACCES ? FLASH_FORBIDDEN : FLASH_MISSING;
    }
    if (!S_ISREG(stat.st_mode)) {
        close(file);
        return S_ISDIR(stat.st_mode) ? FLASH_REDIRECT : FLASH_FORBIDDEN;
    }
    for (size_t i = 0; i < FLASH_CODINGS && f->coding == FLASH_IDENTITY; i++) {
        char path[FLASH_PATH_BYTES_MAX + sizeof(".zst")];
        int is_copy_due = access_times;
        if (!(accepts & FLASH_ACCEPT(flash_codings[i].coding))) {
            continue;
        }
        snprintf(path, sizeof(path), "%s%s", f->path + 1, flash_codings[i].suffix);
        int copy = flash_open(root->folder, path, &is_copy_due, &copy_stat);
        if (copy == -1 && errno == EAGAIN) {
            close(file);
            return 0;
        }
        int is_fit = copy != -1 && S_ISREG(copy_stat.st_mode) && !flash_is_later(&stat.st_mtim, &copy_stat.st_mtim);
        if (is_fit) {
            f->coding = flash_codings[i].coding;
            stat = copy_stat;
            is_due = is_copy_due;
        }
        if (copy != -1) {
            close(is_fit ? file : copy);
        }
        file = is_fit ? copy : file;
    }
    f->fd = file;
    f->is_access_due = is_due;
    flash_file_stamp(f, stat.st_size, stat.st_ino, &stat.st_mtim);
    if (is_sent && flash_file_is_cold(f)) {
        flash_file_close(f);
        f->coding = FLASH_IDENTITY;
        f->is_access_due = 0;
        return 0;
    }
    return FLASH_FILE;
}

/* The question of the file, or of a window of it. */
static inline struct flash_question flash_file_ask(const struct flash_file *f, int kind, uint64_t start, uint64_t bytes)
{
    int has_path = kind == FLASH_FIND || f->is_remote;
    struct flash_question question = flash_question(kind, f->root, has_path ? f->path_bytes : 0, 0);
    question.window_start = start;
    question.window_bytes = bytes < FLASH_WINDOW_BYTES_MAX ? bytes : FLASH_WINDOW_BYTES_MAX;
    question.known = f->stamp;
    question.flags = f->is_remote ? FLASH_KNOWN : 0;
    /* If what was just read is gone already, memory is short, and the bytes themselves are asked for. */
    if (kind == FLASH_LOAD && (f->is_remote || (start >= f->loaded_start && start < f->loaded_end))) {
        question.flags |= FLASH_COPY;
    }
    return question;
}

/* Takes the answer to a find. Returns its kind, or what kind it amounts to. */
static inline int flash_file_take(struct flash_file *f, const struct flash_answer *answer, int descriptor)
{
    if (answer->kind != FLASH_FILE) {
        return answer->kind == FLASH_REFUSED ? FLASH_MISSING : answer->kind; /* it is not a path */
    }
    f->fd = descriptor;
    f->stamp = answer->stamp;
    f->coding = answer->coding;
    f->loaded_start = answer->window_start;
    f->loaded_end = answer->window_start + answer->window_bytes;
    f->is_access_due = 0;
    f->is_remote = (answer->flags & FLASH_REMOTE) != 0;
    f->is_memory = (answer->flags & FLASH_MEMORY) != 0;
    if (!f->is_remote) {
        f->stamp.device = f->root; /* as flash_file_open names it */
    }
    /* A descriptor for which there was no room does not come. */
    return descriptor == -1 && f->stamp.size > 0 && !f->is_remote ? FLASH_BUSY : FLASH_FILE;
}

/* Takes the answer to a load. Returns FLASH_WINDOW if the byte at `start` is there now, or why it is not. */
static inline int flash_file_take_window(struct flash_file *f, const struct flash_answer *answer, int descriptor,
                                         uint64_t start)
{
    int has_memory = (answer->flags & FLASH_MEMORY) != 0, kind = answer->kind;
    uint64_t end = answer->window_start + answer->window_bytes;
    if (kind == FLASH_WINDOW
        && (start < answer->window_start || start >= end || answer->stamp.size < f->stamp.size)) {
        kind = FLASH_CHANGED; /* it has shrunk, and to ask again would bring the same answer */
    } else if (kind == FLASH_WINDOW && has_memory != (descriptor != -1)) {
        kind = FLASH_BUSY;
    }
    if (kind != FLASH_WINDOW && descriptor != -1) {
        close(descriptor);
    }
    if (f->memory != -1) {
        close(f->memory);
    }
    f->memory = kind == FLASH_WINDOW ? descriptor : -1;
    f->loaded_start = answer->window_start;
    f->loaded_end = kind == FLASH_WINDOW ? end : answer->window_start;
    f->is_access_due = f->is_access_due && kind != FLASH_WINDOW;
    return kind;
}

/* Whether the daemon has just loaded this byte. */
static inline int flash_file_is_loaded(const struct flash_file *f, uint64_t start)
{
    return start >= f->loaded_start && start < f->loaded_end;
}

/*
 * How many bytes the daemon has just loaded that this asker can only look at by reading them. They are sent as they are read. A
 * look before `sendfile` would be a second use of their pages, and the kernel would keep them as hot ones.
 */
static inline uint64_t flash_file_fresh(const struct flash_file *f, uint64_t start)
{
    uint64_t piece_end = (start / FLASH_PIECE_BYTES + 1) * FLASH_PIECE_BYTES;
    if (!flash_file_is_loaded(f, start) || f->memory != -1 || f->is_memory || flash_recall(&f->stamp, start) == FLASH_LATELY
        || flash_resident(f->fd, start, 1) != FLASH_UNTOLD) {
        return 0;
    }
    return (piece_end < f->loaded_end ? piece_end : f->loaded_end) - start;
}

/* How many bytes can be sent from here on without a wait: of `memory` if the window is there, or of the file. 0: ask. */
static inline uint64_t flash_file_ready(const struct flash_file *f, uint64_t start, uint64_t bytes)
{
    int is_loaded = flash_file_is_loaded(f, start);
    if (f->is_memory) {
        return bytes;
    }
    if (is_loaded && f->memory != -1) {
        return bytes < f->loaded_end - start ? bytes : f->loaded_end - start;
    }
    if (f->is_remote || (f->is_access_due && !is_loaded)) {
        return 0;
    }
    return flash_ready(f->fd, &f->stamp, start, bytes, is_loaded);
}

/* Notes that a part of the file was sent, by a call that began then. */
static inline void flash_file_note_sent(const struct flash_file *f, uint64_t start, uint64_t end, uint64_t began)
{
    if (!f->is_memory && !f->is_remote) {
        flash_note_sent(&f->stamp, start, end, began);
    }
}

/* Whether all of a file of moderate size is in the page cache. */
static inline int flash_file_is_resident(const struct flash_file *f)
{
    return f->stamp.size <= FLASH_RUN_BYTES_MAX && f->memory == -1 && flash_file_ready(f, 0, f->stamp.size) == f->stamp.size;
}

/* Reads a part of a file into a buffer, if it is in memory. */
static inline int flash_file_read(const struct flash_file *f, void *buffer, size_t bytes, uint64_t start)
{
    int is_loaded = flash_file_is_loaded(f, start);
    if (bytes == 0) {
        return 1;
    }
    if (f->is_memory || (is_loaded && f->memory != -1)) {
        uint64_t offset = f->is_memory ? start : start - f->loaded_start;
        return pread(f->is_memory ? f->fd : f->memory, buffer, bytes, (off_t) offset) == (ssize_t) bytes;
    }
    if (f->is_remote || (f->is_access_due && !is_loaded)) {
        return 0;
    }
    return flash_read_resident(f->fd, &f->stamp, buffer, bytes, start, is_loaded);
}

#endif
