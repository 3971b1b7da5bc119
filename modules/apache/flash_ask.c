/*
 * Asking the daemon: the connection of a thread, its roots, and how many workers may wait at once. What is asked is decided in
 * mod_flash.c.
 */
#include <poll.h>
#include <sys/ipc.h>
#include <sys/sem.h>

#include "mod_flash.h"

#define DEADLINE_MS 10000

__thread flash_asker_t asker = {.s = -1};

/* Of workers that may still wait for the daemon. The kernel gives back what a killed process has taken (SEM_UNDO). */
static int cold_semaphore = -1;

static apr_time_t flash_deadline_ms(const flash_conf_t *conf)
{
    return conf->deadline_ms ? conf->deadline_ms : DEADLINE_MS;
}

static void flash_disconnect(void)
{
    if (asker.s != -1) {
        close(asker.s);
    }
    for (unsigned i = 0; i < asker.roots_count; i++) {
        if (asker.roots[i].path != NULL) {
            close(asker.roots[i].folder);
            free(asker.roots[i].path);
        }
    }
    memset(asker.roots, 0, sizeof(asker.roots));
    asker.roots_count = asker.roots_told = 0;
    asker.s = -1;
}

static int flash_take_root(const struct flash_root *told, ssize_t length, int folder)
{
    if (told->root >= asker.roots_count || folder == -1 || length != (ssize_t) sizeof(*told) + told->path_bytes) {
        if (folder != -1) {
            close(folder);
        }
        return 0;
    }
    flash_root_t *root = &asker.roots[told->root];
    if (root->path == NULL) {
        root->path = malloc(told->path_bytes + 1);
        root->folder = -1;
        asker.roots_told++;
    }
    if (root->folder != -1) {
        close(root->folder);
    }
    root->folder = folder;
    root->flags = told->flags;
    root->path_bytes = told->path_bytes;
    memcpy(root->path, told + 1, told->path_bytes);
    return 1;
}

/*
 * Receives what has come: roots, and the answer with this number if it is among it. 1 with the answer, 0 if there is nothing
 * more, -1 if the daemon is gone.
 */
static int flash_take(uint64_t id, struct flash_answer *answer, int *descriptor)
{
    union {
        struct flash_answer answer;
        struct flash_hello hello;
        struct flash_root root;
        char bytes[FLASH_MESSAGE_BYTES_MAX];
    } message;
    for (;;) {
        int came;
        ssize_t length = flash_receive(asker.s, &message, sizeof(message), &came);
        if (length == -1) {
            return 0;
        }
        if (length == (ssize_t) sizeof(message.hello) && message.hello.kind == FLASH_HELLO
            && message.hello.version == FLASH_HELPER_VERSION && message.hello.roots <= ROOTS_MAX) {
            asker.roots_count = message.hello.roots;
        } else if (length >= (ssize_t) sizeof(message.root) && message.root.kind == FLASH_ROOT) {
            if (!flash_take_root(&message.root, length, came)) {
                return -1;
            }
        } else if (flash_is_answer(&message.answer, length) && message.answer.id == id && id != 0) {
            *answer = message.answer;
            *descriptor = came;
            return 1;
        } else {
            if (came != -1) {
                close(came);
            }
            /* An answer that came too late is no harm. Anything else is: a worker that may not ask, another version. */
            if (!flash_is_answer(&message.answer, length) || message.answer.id == 0) {
                return -1;
            }
        }
    }
}

static int flash_wait(apr_time_t until)
{
    struct pollfd wanted = {.fd = asker.s, .events = POLLIN};
    apr_time_t left = until - apr_time_now();
    int ready;
    if (left <= 0) {
        return 0;
    }
    ready = poll(&wanted, 1, (int) (left / 1000) + 1);
    return ready > 0 || (ready == -1 && errno == EINTR);
}

/* Connects, if need be, and learns the roots. Returns whether the daemon is there. */
int flash_reach(const flash_conf_t *conf)
{
    struct flash_answer answer;
    int descriptor;
    if (asker.s != -1 && asker.socket == conf->socket && flash_take(0, &answer, &descriptor) != -1) {
        return 1;
    }
    flash_disconnect();
    asker.s = flash_connect(conf->socket);
    asker.socket = conf->socket;
    apr_time_t until = apr_time_now() + flash_deadline_ms(conf) * 1000;
    while (asker.s != -1 && (asker.roots_count == 0 || asker.roots_told < asker.roots_count)) {
        if (!flash_wait(until) || flash_take(0, &answer, &descriptor) == -1) {
            flash_disconnect();
        }
    }
    return asker.s != -1;
}

/* Whether one more worker may wait. A restart has removed the semaphore of old children, which finish without one. */
static int flash_enter(void)
{
    struct sembuf take = {.sem_op = -1, .sem_flg = IPC_NOWAIT | SEM_UNDO};
    return cold_semaphore == -1 || semop(cold_semaphore, &take, 1) == 0 || errno == EINVAL || errno == EIDRM;
}

static void flash_leave(void)
{
    struct sembuf give = {.sem_op = 1, .sem_flg = SEM_UNDO};
    if (cold_semaphore != -1) {
        semop(cold_semaphore, &give, 1);
    }
}

/* Asks, and waits for the answer. Returns its kind; FLASH_DOWN if the daemon is gone. */
int flash_ask(const flash_conf_t *conf, struct flash_question *question, const char *path, int file,
              struct flash_answer *answer, int *descriptor)
{
    apr_time_t until = apr_time_now() + (flash_deadline_ms(conf) + 500) * 1000;
    int kind = FLASH_BUSY;
    if (!flash_enter()) {
        return FLASH_BUSY;
    }
    /* If the daemon is lost meanwhile, its successor is asked once. */
    for (int tries = 0; tries < 2; tries++) {
        kind = FLASH_DOWN;
        if (!flash_reach(conf)) {
            break;
        }
        question->id = ++asker.questions;
        question->deadline_ms = flash_deadline_ms(conf);
        int taken = flash_send(asker.s, question, path, file);
        while (taken == 0) {
            taken = flash_take(question->id, answer, descriptor);
            if (taken == 0 && !flash_wait(until)) {
                kind = FLASH_TIMED_OUT;
                break;
            }
        }
        if (taken == 1) {
            kind = answer->kind;
        }
        if (kind != FLASH_DOWN) {
            break;
        }
        flash_disconnect();
    }
    flash_leave();
    return kind;
}

static apr_status_t flash_remove_semaphore(void *unused)
{
    (void) unused;
    if (cold_semaphore != -1) {
        semctl(cold_semaphore, 0, IPC_RMID);
        cold_semaphore = -1;
    }
    return APR_SUCCESS;
}

int flash_init_cold(apr_pool_t *pool, int workers_max)
{
    union {
        int val;
        struct semid_ds *buf;
    } value = {.val = workers_max};
    struct semid_ds rights;
    cold_semaphore = semget(IPC_PRIVATE, 1, 0600);
    if (cold_semaphore == -1 || semctl(cold_semaphore, 0, SETVAL, value) == -1) {
        return 0;
    }
    apr_pool_cleanup_register(pool, NULL, flash_remove_semaphore, apr_pool_cleanup_null);
    value.buf = &rights;
    if (geteuid() == 0 && semctl(cold_semaphore, 0, IPC_STAT, value) == 0) {
        rights.sem_perm.uid = ap_unixd_config.user_id;
        rights.sem_perm.gid = ap_unixd_config.group_id;
        semctl(cold_semaphore, 0, IPC_SET, value);
    }
    return 1;
}
