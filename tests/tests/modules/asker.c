/* What an asker sends without a look, and what it may try: pieces that were seen lately enough. Ends with the line of the first check that fails. */
#include <stdio.h>
#include <unistd.h>

#include "flash_asker.h"

#define CHECK(holds)                                                                                                         \
    if (!(holds)) {                                                                                                           \
        fprintf(stderr, "line %d: %s\n", __LINE__, #holds);                                                                   \
        return 1;                                                                                                             \
    }

/* So many tries of pieces that were seen a little more than a moment ago. Those that found nothing waited for the disk. */
static void tries(int count, int is_resident)
{
    for (int i = 0; i < count; i++) {
        flash_note_tried((struct flash_sight) {flash_learned(FLASH_MOMENT) + 1, 1}, flash_now() - (is_resident ? 0 : 10), is_resident);
    }
}

int main(void)
{
    struct flash_stamp stamp = {.size = 100000, .inode = 7, .modified_ns = 1}, other = stamp, shrunk = stamp;
    other.inode = 8;
    shrunk.size = 10;
    CHECK(flash_recall(&stamp, 0) == FLASH_NEVER);
    flash_note(&stamp, 0, 100000, 1);
    CHECK(flash_recall(&stamp, 0) == FLASH_LATELY && flash_recall(&stamp, 99999) == FLASH_LATELY);
    CHECK(flash_recall(&other, 0) == FLASH_NEVER && flash_recall(&shrunk, 0) == FLASH_NEVER);
    usleep(400000);
    CHECK(flash_recall(&stamp, 0) == FLASH_ONCE);

    /* Many pieces do not displace each other. */
    struct flash_stamp many = {.size = 100};
    for (many.inode = 1000; many.inode < 21000; many.inode++) {
        flash_note(&many, 0, 100, 1);
    }
    for (many.inode = 1000; many.inode < 21000; many.inode++) {
        CHECK(flash_recall(&many, 0) != FLASH_NEVER);
    }
    CHECK(flash_recall(&stamp, 0) == FLASH_ONCE);

    /* A piece that two threads have put in two places is gone from both. */
    uint64_t piece = flash_piece(&many, 0), *places = flash_table_places(piece);
    places[2] = places[5] = piece;
    CHECK(flash_table_get(piece) != 0);
    flash_note(&many, 0, 100, 0);
    CHECK(flash_table_get(piece) == 0);

    /* Looks that did not wait, and pieces that were seen a moment or too long ago, say nothing of what may be tried. */
    for (int i = 0; i < 100; i++) {
        flash_note_tried((struct flash_sight) {flash_age(100), 1}, flash_now(), 0);
        flash_note_tried((struct flash_sight) {flash_age(1), 1}, flash_now() - 10, 0);
        flash_note_tried((struct flash_sight) {UINT64_MAX, 1}, flash_now() - 10, 0);
    }
    CHECK(flash_learned(FLASH_TRIED) == flash_age_max(FLASH_TRIED));

    /* A minute, halved eight times. */
    tries(4, 0);
    CHECK(flash_recall(&stamp, 0) == FLASH_ONCE);
    tries(96, 0);
    CHECK(flash_learned(FLASH_TRIED) == flash_age_min(FLASH_TRIED) && flash_recall(&stamp, 0) == FLASH_NEVER);
    flash_note(&stamp, 0, 100000, 1);
    CHECK(flash_recall(&stamp, 0) == FLASH_LATELY);

    /* Pieces that are there lengthen both ages, and not beyond their limits. */
    uint64_t tried = flash_learned(FLASH_TRIED);
    CHECK(flash_learned(FLASH_MOMENT) == flash_age_min(FLASH_MOMENT));
    for (int i = 0; i < 400 && flash_learned(FLASH_TRIED) < 2 * tried; i++) {
        tries(10000, 1);
        usleep(1000);
    }
    CHECK(flash_learned(FLASH_TRIED) >= 2 * tried && flash_learned(FLASH_TRIED) <= flash_age_max(FLASH_TRIED));
    CHECK(flash_learned(FLASH_MOMENT) >= 2 * flash_age_min(FLASH_MOMENT));
    CHECK(flash_learned(FLASH_MOMENT) <= flash_learned(FLASH_TRIED) / 2);

    /* What was found 150 ms ago needs no look then, unless it had just been read from the disk. After a piece that was gone
       within 400 ms it does, and not after one within 40 s. */
    flash_note(&stamp, 0, 100000, 1);
    flash_note(&other, 0, 100000, 1);
    usleep(150000);
    flash_learn(FLASH_TRIED, flash_age_max(FLASH_TRIED));
    flash_learn(FLASH_MOMENT, flash_age(90));
    flash_note_tried((struct flash_sight) {flash_age(10000), 1}, flash_now(), 0);
    CHECK(flash_recall(&stamp, 0) == FLASH_LATELY && flash_recall(&other, 0) == FLASH_ONCE);

    /* What is sent needs no look for another moment, unless it needed one already. */
    usleep(100000);
    flash_note_sent(&stamp, 0, 100000, flash_now());
    flash_note_sent(&other, 0, 100000, flash_now());
    usleep(200000);
    CHECK(flash_recall(&stamp, 0) == FLASH_LATELY && flash_recall(&stamp, 99999) == FLASH_LATELY);
    CHECK(flash_recall(&other, 0) == FLASH_ONCE);

    flash_note_tried((struct flash_sight) {flash_age(100), 0}, flash_now(), 0);
    CHECK(flash_recall(&stamp, 0) == FLASH_LATELY);
    flash_note_tried((struct flash_sight) {flash_age(100), 1}, flash_now(), 0);
    CHECK(flash_recall(&stamp, 0) == FLASH_ONCE);

    /* A piece that is gone although it was seen a moment ago shortens the moment too. */
    flash_learn(FLASH_MOMENT, flash_age(1000));
    flash_note_tried((struct flash_sight) {flash_age(400), 1}, flash_now(), 0);
    CHECK(flash_learned(FLASH_MOMENT) == flash_age(100));
    return 0;
}
