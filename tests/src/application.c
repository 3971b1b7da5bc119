/* A FastCGI application that says who it is, and where. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {
    for (;;) {
        int client = accept(0, 0, 0), done = 0;
        unsigned char head[8], rest[70000];
        while (!done && recv(client, head, 8, MSG_WAITALL) == 8) {
            int length = head[4] * 256 + head[5] + head[6];
            if (length) recv(client, rest, length, MSG_WAITALL);
            done = head[1] == 5 && length == 0;
        }
        char folder[4096], text[8000];
        getcwd(folder, sizeof folder);
        int length = snprintf(text, sizeof text, "Content-Type: text/plain\r\n\r\nids %d %d %d in %s", getuid(), getgid(), getgroups(0, 0), folder);
        unsigned char out[8] = {1, 6, 0, 1, length / 256, length % 256, 0, 0}, end[16] = {1, 3, 0, 1, 0, 8};
        write(client, out, 8), write(client, text, length), write(client, end, 16), close(client);
    }
}
