/* What the files of ngx_http_flash_module share. */
#ifndef NGX_HTTP_FLASH_H
#define NGX_HTTP_FLASH_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "../flash_asker.h"

#define ROOTS_MAX 64
#define FLASH_BLOCKS (-100) /* of no other meaning to nginx: make the window again, which may now wait for the disk */
#define LOST_MAX 2 /* a request is not asked again if the daemon is lost for the second time */

typedef struct {
    int folder; /* -1: not told yet */
    ngx_uint_t flags;
    ngx_str_t path;
} root_t;

/* The connection of this worker to a daemon. */
typedef struct {
    ngx_str_t socket;
    ngx_connection_t *connection;
    ngx_rbtree_t asked; /* requests by the number of their question */
    ngx_rbtree_node_t sentinel;
    ngx_queue_t waiting; /* requests that wait for the roots */
    uint64_t questions;
    ngx_msec_t retry;
    ngx_uint_t roots_told, roots_count;
    root_t roots[ROOTS_MAX];
} flash_daemon_t;

typedef struct {
    ngx_array_t daemons; /* of flash_daemon_t * */
} main_conf_t;

typedef struct {
    flash_daemon_t *daemon; /* NULL: off */
    ngx_uint_t accepts;
    ngx_msec_t deadline;
    ngx_uint_t blocks;
    ngx_str_t index;
} loc_conf_t;

typedef struct {
    ngx_rbtree_node_t node;
    ngx_queue_t queue;
    ngx_event_t timer;
    ngx_http_request_t *request;
    loc_conf_t *conf;
    uint32_t root;
    ngx_str_t path; /* from the root on, with its slash, and a zero byte behind it */
    ngx_file_t file;
    ngx_file_t *memory; /* NULL: none. Each has its own, because a subrequest's windows wait to be sent */
    uint64_t memory_start, memory_end; /* what of the file is in `memory` */
    struct flash_stamp stamp;
    uint64_t at, end;
    uint64_t loaded_end; /* the daemon has read up to here */
    u_char *buffer;
    ngx_uint_t lost;
    ngx_uint_t coding;
    unsigned is_asked : 1, is_waiting : 1, is_suspended : 1;
    unsigned is_sending : 1;  /* the header is sent */
    unsigned is_remote : 1;   /* each window is asked for by path */
    unsigned is_memory : 1;   /* the file is sealed memory */
    unsigned is_loaded : 1;   /* the daemon has just read the window */
    unsigned is_access_due : 1; /* the first read sets the time of access, so the daemon does it */
    unsigned must_block : 1;  /* the daemon cannot help, and fallback=block */
} flash_ctx_t;


/* A coding of precompressed copies. */
typedef struct {
    ngx_uint_t bit;
    ngx_str_t token, suffix;
    ngx_uint_t coding;
} flash_coding_t;

#define FLASH_CODINGS 3
/* In the order of preference. */
extern const flash_coding_t flash_codings[FLASH_CODINGS];
extern ngx_module_t ngx_http_flash_module;

/* The connection to the daemon. A step of a request returns NGX_DONE if it goes on later, and a status otherwise. */
void flash_init_daemon(flash_daemon_t *d, ngx_log_t *log);
ngx_int_t flash_reach(flash_daemon_t *d, ngx_log_t *log);
ngx_int_t flash_wait_for_roots(flash_ctx_t *ctx);
ngx_int_t flash_ask(flash_ctx_t *ctx, int kind, ngx_uint_t flags, uint64_t start, uint64_t end);
ngx_int_t flash_suspend(flash_ctx_t *ctx);
void flash_forget(flash_ctx_t *ctx);

/* Sending. */
ngx_int_t flash_send_file(flash_ctx_t *ctx);
ngx_int_t flash_body(flash_ctx_t *ctx);
ngx_int_t flash_go_on(flash_ctx_t *ctx, ngx_int_t rc);
ngx_int_t flash_take_window(flash_ctx_t *ctx, const struct flash_answer *answer, int memory);

/* The request. flash_unavailable may return FLASH_BLOCKS while the body is sent. */
ngx_int_t flash_begin(flash_ctx_t *ctx);
ngx_int_t flash_unavailable(flash_ctx_t *ctx, const char *why);
ngx_int_t flash_take_file(flash_ctx_t *ctx, const struct flash_answer *answer, int file);

#endif
