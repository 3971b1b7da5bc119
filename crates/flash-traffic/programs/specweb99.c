/* Answers the dynamic requests of the SPECweb99-like mix as a CGI program (RFC 3875). A page holds one file of the set,
 * which the query names, or for a POST the form. A visitor's cookie asks for an advertisement that suits him; a POST is
 * written to a log first. Every page is longer than its file by the same number of bytes, so that clients can check it. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FORM_BYTES_MAX = 1024, VISITOR_BYTES = 16, AD_BYTES = 32 };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static int refuse(const char *status)
{
    printf("Status: %s\r\nContent-Type: text/plain\r\n\r\n%s\n", status, status);
    return 0;
}

/* Only names of the set are opened: /file_set/dir00012/class1_3. */
static int is_of_the_set(const char *name)
{
    const char *shape = "/file_set/dir00000/class0_0";
    for (; *shape && *name; shape++, name++)
        if (*shape == '0' ? *name < '0' || *name > '9' : *name != *shape)
            return 0;
    return *shape == *name;
}

static int open_below_root(const char *name, int flags)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s%s", variable("DOCUMENT_ROOT"), name);
    return length < (int)sizeof path ? open(path, flags | O_CLOEXEC) : -1;
}

/* One line of a table in which all lines are of one length; 0 where there is none. */
static int line_of(int table, char *line, size_t bytes, unsigned number)
{
    if (pread(table, line, bytes, (off_t)number * bytes) != (ssize_t)bytes)
        return 0;
    line[bytes - 1] = 0;
    return 1;
}

/* The next advertisement after the last one seen that has enough in common with the visitor; -1 where there is none. */
static int advertisement(unsigned visitor, unsigned last)
{
    char line[AD_BYTES];
    unsigned likes, number, wants, least;
    int chosen = -1;
    int visitors = open_below_root("/specweb99/User.Personality", O_RDONLY);
    int ads = open_below_root("/specweb99/Custom.Ads", O_RDONLY);
    struct stat table;
    if (line_of(visitors, line, VISITOR_BYTES, visitor) && sscanf(line, "%u %x", &number, &likes) == 2
        && fstat(ads, &table) == 0 && table.st_size >= AD_BYTES) {
        unsigned count = table.st_size / AD_BYTES;
        for (unsigned step = 1; step <= count && chosen < 0; step++)
            if (line_of(ads, line, AD_BYTES, (last % count + step) % count)
                && sscanf(line, "%u %x %u", &number, &wants, &least) == 3
                && (unsigned)__builtin_popcount(likes & wants) >= least)
                chosen = number;
    }
    close(visitors);
    close(ads);
    return chosen;
}

/* Reads the form, writes it to the log, and names the file that it asks for. */
static int post(char *name, size_t name_bytes)
{
    char form[FORM_BYTES_MAX + 1], line[256];
    size_t length = strtoul(variable("CONTENT_LENGTH"), NULL, 10), have = 0;
    unsigned dir, class, num, client;
    if (length == 0 || length > FORM_BYTES_MAX)
        return 0;
    while (have < length) {
        ssize_t got = read(STDIN_FILENO, form + have, length - have);
        if (got <= 0 && errno != EINTR)
            return 0;
        have += got > 0 ? got : 0;
    }
    form[length] = 0;
    if (sscanf(form, "urlroot=/file_set/&dir=%5u&class=%1u&num=%1u&client=%10u", &dir, &class, &num, &client) != 4)
        return 0;
    snprintf(name, name_bytes, "/file_set/dir%05u/class%u_%u", dir, class, num);
    int bytes = snprintf(line, sizeof line, "%10lld %10d %05u %1u %1u %10u %-40s\n", (long long)time(NULL), (int)getpid(),
                         dir, class, num, client, name);
    int log = open_below_root("/specweb99/Post.Log", O_WRONLY | O_APPEND);
    /* One write, so that lines of several programs never mix. */
    int logged = write(log, line, bytes) == bytes;
    close(log);
    return logged;
}

/* A variable in so many characters, and without those that mean something in HTML. */
static void field(char *to, const char *name, size_t bytes)
{
    snprintf(to, bytes + 1, "%-*.*s", (int)bytes, (int)bytes, variable(name));
    for (; *to; to++)
        if (strchr("<>&\"'", *to) || *to < ' ')
            *to = '_';
}

int main(void)
{
    char name[64], cookie[96] = "", server[33], peer[41], script[41], query[65], buffer[65536];
    unsigned visitor, last;
    int ad = 0;
    struct stat file;
    if (strcmp(variable("REQUEST_METHOD"), "POST") == 0) {
        if (!post(name, sizeof name))
            return refuse("400 Bad Request");
        snprintf(cookie, sizeof cookie, "Set-Cookie: my_cookie=logged\r\n");
    } else {
        snprintf(name, sizeof name, "%s", variable("QUERY_STRING"));
    }
    if (sscanf(variable("HTTP_COOKIE"), "my_cookie=user_id=%10u&last_ad=%10u", &visitor, &last) == 2) {
        ad = advertisement(visitor, last);
        snprintf(cookie, sizeof cookie, "Set-Cookie: found_cookie=Ad_id=%d\r\n", ad);
    }
    int content = is_of_the_set(name) ? open_below_root(name, O_RDONLY) : -1;
    if (content < 0 || fstat(content, &file) != 0)
        return refuse("404 Not Found");
    field(server, "SERVER_SOFTWARE", 32);
    field(peer, "REMOTE_ADDR", 40);
    field(script, "SCRIPT_NAME", 40);
    field(query, "QUERY_STRING", 64);
    int bytes = snprintf(buffer, sizeof buffer,
                         "<html><head><title>SPECweb99-like</title></head><body>\n<p>%s\n<p>%s\n<p>%s\n<p>%s\n"
                         "<p>ad %6d\n<pre>\n",
                         server, peer, script, query, ad);
    const char *end = "\n</pre></body></html>\n";
    printf("Content-Type: text/html\r\nContent-Length: %lld\r\n%s\r\n", bytes + (long long)file.st_size + (long long)strlen(end),
           cookie);
    fwrite(buffer, 1, bytes, stdout);
    for (ssize_t got; (got = read(content, buffer, sizeof buffer)) > 0;)
        if (fwrite(buffer, 1, got, stdout) != (size_t)got)
            return 1;
    fputs(end, stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
