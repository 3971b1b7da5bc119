/* What an asker may try itself: pieces that were seen lately enough. Ends with the line of the first check that fails. */
#include <stdio.h>
#include <unistd.h>

#include "flash_asker.h"

#define CHECK(holds)                                                                                                         \
    if (!(holds)) {                                                                                                           \
        fprintf(stderr, "line %d: %s\n", __LINE__, #holds);                                                                   \
        return 1;                                                                                                             \
    }

/* So many tries that waited for the disk and found nothing, or found the piece. */
static void tries(int count, int is_resident)
{
    for (int i = 0; i < count; i++) {
        flash_note_tried(FLASH_ONCE, flash_now() - (is_resident ? 0 : 10), is_resident);
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

    /* Looks that did not wait change nothing, and neither do pieces that were seen a moment ago. */
    for (int i = 0; i < 100; i++) {
        flash_note_tried(FLASH_ONCE, flash_now(), 0);
        flash_note_tried(FLASH_LATELY, flash_now() - 10, 0);
        flash_note_tried(FLASH_NEVER, flash_now() - 10, 0);
    }
    CHECK(flash_kept() == FLASH_KEPT_MAX);

    /* A minute, halved eight times. */
    tries(4, 0);
    CHECK(flash_recall(&stamp, 0) == FLASH_ONCE);
    tries(96, 0);
    CHECK(flash_kept() == FLASH_KEPT_MIN && flash_recall(&stamp, 0) == FLASH_NEVER);
    flash_note(&stamp, 0, 100000, 1);
    CHECK(flash_recall(&stamp, 0) == FLASH_LATELY);

    /* Pieces that are there lengthen it again, and not beyond its limit. */
    uint64_t before = flash_kept();
    for (int i = 0; i < 400 && flash_kept() < 2 * before; i++) {
        tries(10000, 1);
        usleep(1000);
    }
    CHECK(flash_kept() >= 2 * before && flash_kept() <= FLASH_KEPT_MAX);
    return 0;
}
