/*
 * The protocol of `flash helper`, for askers in C. docs/helper-protocol.md explains it.
 *
 * Messages travel over a Unix socket of the type SOCK_SEQPACKET. Numbers are little-endian, layouts are fixed, and no message
 * holds a pointer. This header needs no library. On a big-endian machine the asker converts the numbers.
 */
#ifndef FLASH_HELPER_H
#define FLASH_HELPER_H

#include <stdint.h>

#define FLASH_HELPER_VERSION 1

/* The longest path, and the longest message in either direction. */
#define FLASH_PATH_BYTES_MAX 4095
#define FLASH_MESSAGE_BYTES_MAX (272 + FLASH_PATH_BYTES_MAX)
/* A longer window is shortened. The answer says how much of it is ready. */
#define FLASH_WINDOW_BYTES_MAX (256 << 10)

/* Kinds of questions. */
enum flash_question_kind {
    FLASH_FIND = 1, /* find and open a file */
    FLASH_LOAD = 2, /* bring a window of a file into memory */
};

/* Flags of questions. */
enum flash_question_flags {
    FLASH_ACCEPT_GZIP = 1 << 0, /* a precompressed copy may answer */
    FLASH_ACCEPT_BROTLI = 1 << 1,
    FLASH_ACCEPT_ZSTD = 1 << 2,
    FLASH_KNOWN = 1 << 3, /* `known` is the stamp of the file that the asker has */
    FLASH_COPY = 1 << 4,  /* LOAD: send the window's bytes, in memory of their own */
};

/* Kinds of messages from the daemon. The first two are not answers. */
enum flash_answer_kind {
    FLASH_HELLO = 1,      /* struct flash_hello, once for each connection */
    FLASH_ROOT = 2,       /* struct flash_root with the open folder: at the start, and when the root changes */
    FLASH_FILE = 3,       /* FIND: the file */
    FLASH_WINDOW = 4,     /* LOAD: the window is ready */
    FLASH_UNCHANGED = 5,  /* FIND: the file is the one that the asker knows */
    FLASH_FOLDER = 6,     /* FIND: a folder without an index file */
    FLASH_REDIRECT = 7,   /* FIND: a folder, and the path has no slash at its end */
    FLASH_MISSING = 8,    /* there is nothing */
    FLASH_FORBIDDEN = 9,  /* it may not be read, or it is outside of the root */
    FLASH_CHANGED = 10,   /* LOAD: the file is another one now */
    FLASH_BUSY = 11,      /* a queue or a quota is full: 503 */
    FLASH_TIMED_OUT = 12, /* the deadline has passed: 503 */
    FLASH_DOWN = 13,      /* the device does not answer: 503 */
    FLASH_FAILED = 14,    /* the disk reports an error: 500 */
    FLASH_REFUSED = 15,   /* the question is malformed. After a wrong version or length, the daemon closes the connection */
};

/* Flags of messages from the daemon. */
enum flash_answer_flags {
    FLASH_MEMORY = 1 << 0,       /* the descriptor is sealed memory; its byte 0 is the file's byte `window_start` */
    FLASH_REMOTE = 1 << 1,       /* no descriptor: ask for each window, by path, with FLASH_COPY */
    FLASH_INDEX = 1 << 2,        /* the file is the folder's index */
    FLASH_INLINE = 1 << 3,       /* ROOT: the asker may try RESOLVE_CACHED and cachestat itself */
    FLASH_ACCESS_TIMES = 1 << 4, /* ROOT: a read may set the time of access */
};

enum flash_coding {
    FLASH_IDENTITY = 0,
    FLASH_GZIP = 1,
    FLASH_BROTLI = 2,
    FLASH_ZSTD = 3,
};

/* What distinguishes one version of a file from another. Times are in nanoseconds since 1970. */
struct flash_stamp {
    uint64_t size;
    int64_t modified_ns;
    int64_t changed_ns;
    uint64_t inode;
    uint64_t device;
};

/* The path follows, without a zero byte at its end. It begins with a slash, which is the root. */
struct flash_question {
    uint8_t version;
    uint8_t kind;
    uint16_t flags;
    uint32_t root;
    uint64_t id;
    uint32_t deadline_ms; /* 0: the daemon's */
    uint16_t path_bytes;
    uint16_t reserved; /* 0 */
    uint64_t window_start;
    uint64_t window_bytes;
    struct flash_stamp known;
};

struct flash_answer {
    uint8_t version;
    uint8_t kind;
    uint16_t flags;
    uint32_t root;
    uint64_t id;
    struct flash_stamp stamp;
    uint64_t window_start; /* what is in memory */
    uint64_t window_bytes;
    uint8_t etag_bytes;
    uint8_t media_bytes;
    uint8_t coding;
    uint8_t reserved[5];
    char etag[64]; /* with its quotes */
    char media[128];
};

struct flash_hello {
    uint8_t version;
    uint8_t kind;
    uint16_t flags;
    uint32_t roots; /* as many FLASH_ROOT messages follow */
    uint32_t questions_max;
    uint32_t window_bytes_max;
};

/* The path follows, without a zero byte at its end. The open folder (O_PATH) comes with the message. */
struct flash_root {
    uint8_t version;
    uint8_t kind;
    uint16_t flags;
    uint32_t root;
    uint16_t path_bytes;
    uint8_t reserved[6];
};

#endif
