/* Asking the daemon: the connection of a thread, and how many workers may wait at once. */
#include <poll.h>
#include <pthread.h>
#include <sys/ipc.h>
#include <sys/sem.h>

#include "mod_flash.h"

#define DEADLINE_MS 10000
#define ROOTS_MS 100 /* how long any worker may wait for the roots */

/* The connection of a thread. */
static __thread struct flash_link link_of_thread = {.s = -1};
static __thread const char *socket_of_thread; /* of the configuration, which outlives all threads */
static __thread uint64_t questions;
/* Closes the connection of a thread that ends. */
static pthread_once_t key_is_made = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int has_key;

/* Of workers that may still wait for the daemon. The kernel gives back what a killed process has taken (SEM_UNDO). */
static int cold_semaphore = -1;
static pid_t parent;

static apr_time_t flash_deadline_ms(const flash_conf_t *conf)
{
    return conf->deadline > 0 ? conf->deadline * 1000 : DEADLINE_MS;
}

/* Receives what has come, up to the answer with this number: 1. 0 if that is not here yet, -1 if the daemon is gone. */
static int flash_take(uint64_t id, struct flash_answer *answer, int *descriptor)
{
    union flash_message message;
    for (;;) {
        enum flash_heard heard = flash_hear(&link_of_thread, &message, descriptor);
        if (heard == FLASH_ANSWERED && message.answer.id == id) {
            *answer = message.answer;
            return 1;
        }
        if (heard == FLASH_ANSWERED && *descriptor != -1) {
            close(*descriptor); /* it came too late */
        }
        if (heard != FLASH_ANSWERED && heard != FLASH_TOLD) {
            return heard == FLASH_SILENT ? 0 : -1;
        }
    }
}

static int flash_wait(apr_time_t until)
{
    struct pollfd wanted = {.fd = link_of_thread.s, .events = POLLIN};
    apr_time_t left = until - apr_time_now();
    int ready = left <= 0 ? 0 : poll(&wanted, 1, (int) (left / 1000) + 1);
    return ready > 0 || (ready == -1 && errno == EINTR);
}

/* Takes (-1) or gives back a place. Returns whether there is one. A restart removes the semaphore of old children. */
static int flash_change_places(int change)
{
    struct sembuf operation = {.sem_op = change, .sem_flg = SEM_UNDO | (change < 0 ? IPC_NOWAIT : 0)};
    return cold_semaphore == -1 || semop(cold_semaphore, &operation, 1) == 0 || errno == EINVAL || errno == EIDRM;
}

static void flash_end_thread(void *link)
{
    flash_disconnect(link);
}

static void flash_make_key(void)
{
    has_key = pthread_key_create(&key, flash_end_thread) == 0;
}

/* Connects, if need be, and learns the roots. NULL if the daemon is not there. */
const struct flash_link *flash_reach(const flash_conf_t *conf, int has_place)
{
    struct flash_answer answer;
    int descriptor;
    if (link_of_thread.s != -1 && socket_of_thread == conf->socket && flash_take(0, &answer, &descriptor) != -1) {
        return &link_of_thread;
    }
    flash_disconnect(&link_of_thread);
    link_of_thread.s = flash_connect(conf->socket);
    socket_of_thread = conf->socket;
    pthread_once(&key_is_made, flash_make_key);
    if (has_key) {
        pthread_setspecific(key, &link_of_thread);
    }
    apr_time_t now = apr_time_now(), soon = now + ROOTS_MS * 1000, until = now + flash_deadline_ms(conf) * 1000;
    int may_wait = has_place;
    while (link_of_thread.s != -1 && !flash_knows_roots(&link_of_thread)) {
        int is_there = flash_wait(may_wait ? until : soon);
        if (!is_there && !may_wait) {
            is_there = may_wait = flash_change_places(-1);
        }
        if (!is_there || flash_take(0, &answer, &descriptor) == -1) {
            flash_disconnect(&link_of_thread);
        }
    }
    if (may_wait && !has_place) {
        flash_change_places(1);
    }
    return link_of_thread.s != -1 ? &link_of_thread : NULL;
}

/* Asks, and waits for the answer. Returns its kind; FLASH_DOWN if the daemon is gone. */
int flash_ask(const flash_conf_t *conf, const struct flash_file *f, int kind, uint64_t start, uint64_t bytes,
              struct flash_answer *answer, int *descriptor)
{
    apr_time_t until = apr_time_now() + (flash_deadline_ms(conf) + 500) * 1000;
    struct flash_question question = flash_file_ask(f, kind, start, bytes);
    question.deadline_ms = flash_deadline_ms(conf);
    *descriptor = -1;
    if (!flash_change_places(-1)) {
        return FLASH_BUSY;
    }
    /* If the daemon is lost meanwhile, its successor is asked once. Its roots may have other numbers, so a name is placed anew first. */
    int tries = kind == FLASH_FIND ? 1 : 2;
    for (kind = FLASH_DOWN; tries > 0 && kind == FLASH_DOWN; tries--) {
        if (question.kind != FLASH_FIND && flash_reach(conf, 1) == NULL) {
            break;
        }
        question.id = ++questions;
        int taken = flash_send(link_of_thread.s, &question, f->path, question.path_bytes == 0 ? f->fd : -1);
        while (taken == 0 && kind != FLASH_TIMED_OUT) {
            taken = flash_take(question.id, answer, descriptor);
            kind = taken == 0 && !flash_wait(until) ? FLASH_TIMED_OUT : FLASH_DOWN;
        }
        if (taken == 1) {
            kind = answer->kind;
            break;
        }
        if (taken == -1) {
            flash_disconnect(&link_of_thread);
        }
    }
    flash_change_places(1);
    return kind;
}

static apr_status_t flash_end_asking(void *seen)
{
    /* The module is unloaded now. A child that exits comes here too: its threads may still run, and the others need the semaphore. */
    if (has_key) {
        has_key = 0;
        pthread_key_delete(key);
    }
    if (getpid() != parent) {
        return APR_SUCCESS;
    }
    if (seen != NULL) {
        munmap(seen, sizeof(flash_seen_alone));
        flash_seen = flash_seen_alone;
    }
    if (cold_semaphore != -1) {
        semctl(cold_semaphore, 0, IPC_RMID);
        cold_semaphore = -1;
    }
    return APR_SUCCESS;
}

/* What all children share, before they are forked. Returns whether that worked. */
int flash_init_asking(apr_pool_t *pool, int workers_max)
{
    union {
        int val;
        struct semid_ds *buf;
    } value = {.val = workers_max};
    struct semid_ds rights;
    parent = getpid();
    apr_pool_cleanup_register(pool, flash_share_seen(), flash_end_asking, apr_pool_cleanup_null);
    cold_semaphore = semget(IPC_PRIVATE, 1, 0600);
    if (cold_semaphore == -1 || semctl(cold_semaphore, 0, SETVAL, value) == -1) {
        return 0;
    }
    value.buf = &rights;
    if (geteuid() == 0 && semctl(cold_semaphore, 0, IPC_STAT, value) == 0) {
        rights.sem_perm.uid = ap_unixd_config.user_id;
        rights.sem_perm.gid = ap_unixd_config.group_id;
        semctl(cold_semaphore, 0, IPC_SET, value);
    }
    return 1;
}
