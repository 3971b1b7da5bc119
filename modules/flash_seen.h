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
#ifndef FLASH_SEEN_H
#define FLASH_SEEN_H

#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include "flash_helper.h"

#define FLASH_PIECES_LOG2 18 /* 2 MiB */
#define FLASH_WAYS_LOG2 3    /* places for a piece, in one line of the processor's cache */
#define FLASH_NEIGHBOURS 4   /* pieces of a file that have the same places */
#define FLASH_PIECE_BYTES (64 << 10)
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

/* The piece as the table knows it, without a time. */
static inline uint64_t flash_piece(const struct flash_stamp *stamp, uint64_t start)
{
    uint64_t number = start / FLASH_PIECE_BYTES;
    /* Whole seconds, because nginx's cache of open files knows no more. */
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

/* Has the table know that a piece is seen now: in its place, a free one, or that of the piece which was seen longest ago. */
static inline void flash_table_put(uint64_t piece)
{
    uint64_t *places = flash_table_places(piece), *best = places, now = flash_now(), best_ago = 0;
    for (uint64_t *place = places; place < places + (1 << FLASH_WAYS_LOG2); place++) {
        uint64_t seen = __atomic_load_n(place, __ATOMIC_RELAXED);
        uint64_t ago = flash_is_of(seen, piece) ? UINT64_MAX : seen == 0 ? UINT64_MAX - 1 : (now - seen) & FLASH_TICKS;
        best = ago > best_ago ? place : best;
        best_ago = ago > best_ago ? ago : best_ago;
    }
    uint64_t kept = best_ago == UINT64_MAX ? FLASH_KEPT : 0; /* it was there */
    piece = (piece & ~(uint64_t) (FLASH_KEPT | FLASH_TICKS)) | kept | (now & FLASH_TICKS);
    __atomic_store_n(best, piece, __ATOMIC_RELAXED);
}

/* Has the table forget a piece. Two threads may have put it in two places. */
static inline void flash_table_remove(uint64_t piece)
{
    uint64_t *places = flash_table_places(piece);
    for (int i = 0; i < 1 << FLASH_WAYS_LOG2; i++) {
        if (flash_is_of(__atomic_load_n(&places[i], __ATOMIC_RELAXED), piece)) {
            __atomic_store_n(&places[i], 0, __ATOMIC_RELAXED);
        }
    }
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
        if (!is_resident) {
            flash_table_remove(piece);
        } else if (is_whole) {
            flash_table_put(piece);
        }
    }
}

/*
 * Notes that a part was sent, by a call that began then. Pieces that had been seen a moment ago need no further look if they are
 * sent again and again. If the call waited long, one may have been gone.
 */
static inline void flash_note_sent(const struct flash_stamp *stamp, uint64_t start, uint64_t end, uint64_t began)
{
    uint64_t first = (start + FLASH_PIECE_BYTES - 1) / FLASH_PIECE_BYTES * FLASH_PIECE_BYTES;
    if (flash_now() - began >= FLASH_WAIT_TICKS) {
        return;
    }
    for (uint64_t at = first; at < end && (at + FLASH_PIECE_BYTES <= end || end >= stamp->size); at += FLASH_PIECE_BYTES) {
        struct flash_sight sight = flash_sight(stamp, at);
        if (flash_judge(sight) == FLASH_LATELY && sight.ago > flash_moment(sight) / 2) {
            flash_table_put(flash_piece(stamp, at));
        } else if (at == first) {
            return; /* most have its age */
        }
    }
}

#endif
