/* A CGI program that does as little as a CGI program can, or as much as its query says:
 *     (nothing)    says hello
 *     bytes=N      sends N bytes
 *     sleep=MS     says hello later
 *     spin=MS      says hello after so much work
 * For a request with a body it says how many bytes have come. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int send_all(const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = write(STDOUT_FILENO, bytes, count);
        if (sent < 0)
            return 0;
        bytes += sent;
        count -= sent;
    }
    return 1;
}

int main(void)
{
    static char block[65536];
    const char *query = getenv("QUERY_STRING"), *length = getenv("CONTENT_LENGTH");
    unsigned long long bytes = 0, milliseconds = 0, have = 0;
    query = query ? query : "";
    /* Some servers say 0 where there is no body. */
    if (length && strtoull(length, NULL, 10) > 0) {
        for (ssize_t got; (got = read(STDIN_FILENO, block, sizeof block)) > 0;)
            have += got;
        dprintf(STDOUT_FILENO, "Content-Type: text/plain\r\nContent-Length: 21\r\n\r\n%20llu\n", have);
        return 0;
    }
    if (sscanf(query, "bytes=%llu", &bytes) == 1) {
        memset(block, 'x', sizeof block);
        dprintf(STDOUT_FILENO, "Content-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n", bytes);
        while (bytes > 0) {
            size_t here = bytes < sizeof block ? bytes : sizeof block;
            if (!send_all(block, here))
                return 1;
            bytes -= here;
        }
        return 0;
    }
    if (sscanf(query, "sleep=%llu", &milliseconds) == 1) {
        struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
        nanosleep(&time, NULL);
    } else if (sscanf(query, "spin=%llu", &milliseconds) == 1) {
        while (seconds(CLOCK_PROCESS_CPUTIME_ID) < milliseconds / 1000.0)
            ;
    }
    const char hello[] = "Content-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n";
    return send_all(hello, sizeof hello - 1) ? 0 : 1;
}
