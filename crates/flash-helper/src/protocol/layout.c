/* Prints messages with the layouts of flash_helper.h, in hexadecimal digits. A test compares them with the codec's. */
#include <stdio.h>
#include <string.h>

#include "flash_helper.h"

static void print(const void *part, size_t bytes)
{
    const unsigned char *byte = part;
    while (bytes-- > 0) {
        printf("%02x", *byte++);
    }
}

int main(void)
{
    struct flash_stamp stamp = {
        .size = (uint64_t) 1 << 40, .modified_ns = -5, .changed_ns = 9000000000, .inode = 7, .device = 0x0102,
    };

    struct flash_question question = {
        .version = FLASH_HELPER_VERSION, .kind = FLASH_LOAD,
        .flags = FLASH_ACCEPT_GZIP | FLASH_ACCEPT_ZSTD | FLASH_KNOWN | FLASH_COPY,
        .root = 3, .id = 0x0807060504030201, .deadline_ms = 250, .path_bytes = 6,
        .window_start = 4096, .window_bytes = 4096, .known = stamp,
    };
    print(&question, sizeof(question));
    print("/a/b c", 6);
    printf("\n");

    struct flash_answer answer = {
        .version = FLASH_HELPER_VERSION, .kind = FLASH_FILE, .flags = FLASH_MEMORY | FLASH_INDEX,
        .root = 3, .id = 17, .stamp = stamp, .window_start = 1, .window_bytes = 1,
        .etag_bytes = 5, .media_bytes = 24, .coding = FLASH_BROTLI,
    };
    memcpy(answer.etag, "\"abc\"", 5);
    memcpy(answer.media, "text/html; charset=utf-8", 24);
    print(&answer, sizeof(answer));
    printf("\n");

    struct flash_root root = {
        .version = FLASH_HELPER_VERSION, .kind = FLASH_ROOT, .flags = FLASH_INLINE | FLASH_ACCESS_TIMES,
        .root = 2, .path_bytes = 4,
    };
    print(&root, sizeof(root));
    print("/srv", 4);
    printf("\n");

    struct flash_hello hello = {
        .version = FLASH_HELPER_VERSION, .kind = FLASH_HELLO, .roots = 2, .questions_max = 99,
        .window_bytes_max = FLASH_WINDOW_BYTES_MAX,
    };
    print(&hello, sizeof(hello));
    printf("\n");

    printf("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d\n", FLASH_HELLO, FLASH_ROOT, FLASH_FILE, FLASH_WINDOW,
           FLASH_UNCHANGED, FLASH_FOLDER, FLASH_REDIRECT, FLASH_MISSING, FLASH_FORBIDDEN, FLASH_CHANGED, FLASH_BUSY,
           FLASH_TIMED_OUT, FLASH_DOWN, FLASH_FAILED, FLASH_REFUSED);
    printf("%d %d %d\n", FLASH_MESSAGE_BYTES_MAX, FLASH_PATH_BYTES_MAX, FLASH_WINDOW_BYTES_MAX);
    return 0;
}
