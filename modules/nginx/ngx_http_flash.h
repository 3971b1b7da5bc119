/* What the files of ngx_http_flash_module share. */
#ifndef NGX_HTTP_FLASH_H
#define NGX_HTTP_FLASH_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "../flash_file.h"

/* The connection of this worker to a daemon. */
typedef struct {
    char *socket;
    ngx_connection_t *connection; /* NULL: none */
    struct flash_link link;
    ngx_queue_t pending; /* requests that wait for it */
    uint64_t questions;
    ngx_msec_t retry; /* 0, or not before */
} flash_daemon_t;

typedef struct {
    flash_daemon_t *daemon; /* NULL: off */
    ngx_msec_t deadline;
    ngx_uint_t blocks;
    ngx_uint_t is_handler; /* the location has no other */
    ngx_flag_t precompressed;
    ngx_str_t index;
} flash_conf_t;

typedef struct {
    ngx_queue_t queue;
    ngx_event_t timer;
    ngx_http_request_t *request;
    flash_conf_t *conf;
    uint64_t question; /* 0: waits for the roots */
    ngx_uint_t lost;
    struct flash_file f;
    ngx_file_t file, memory; /* what nginx sends from: the file, or the window that was loaded last */
    ngx_chain_t *in;         /* what is to be sent */
    ngx_buf_t *copied;       /* the last copy; its memory is used again once it is sent */
    unsigned is_pending : 1, is_sending : 1; /* waits for the daemon; the header is sent */
    unsigned must_block : 1, is_failed : 1;  /* the daemon cannot help with the body: it may be done without, or not */
} flash_ctx_t;

extern ngx_module_t ngx_http_flash_module;

/* The connection to the daemon. */
ngx_int_t flash_ask(flash_ctx_t *ctx, int kind, ngx_uint_t accepts, uint64_t start, uint64_t bytes);
void flash_forget(flash_ctx_t *ctx);

/* How a request goes on. flash_lead_to takes the kind of an answer. */
ngx_int_t flash_begin(flash_ctx_t *ctx);
ngx_int_t flash_lead_to(flash_ctx_t *ctx, int kind);
ngx_int_t flash_unavailable(flash_ctx_t *ctx, const char *why);

#endif
