/* What the files of mod_flash share. */
#ifndef MOD_FLASH_H
#define MOD_FLASH_H

#include <ap_mpm.h>
#include <apr_buckets.h>
#include <apr_strings.h>
#include <http_config.h>
#include <http_core.h>
#include <http_log.h>
#include <http_protocol.h>
#include <http_request.h>
#include <httpd.h>
#include <unixd.h>

#include "flash_file.h"

#define SMALL_BYTES (16 << 10) /* up to this, Apache's own buffers take copies */

extern module AP_MODULE_DECLARE_DATA flash_module;
APLOG_USE_MODULE(flash);

typedef struct {
    const char *socket; /* NULL: not set; "": off */
    int deadline;       /* in seconds. 0: not set */
    int blocks;         /* -1: not set */
    int cold_max;       /* of the main server: how many workers may wait at once. 0: not set */
} flash_conf_t;

/* A file on its way to a client. It outlives its request, because the last bytes may wait for the client. */
typedef struct {
    apr_bucket_refcount refcount;
    const flash_conf_t *conf;
    server_rec *server;
    struct flash_file f;
    char path[];
} flash_body_t;

/* Asking. A worker that has a place may wait for the daemon to begin. What is found is asked once: roots may change meanwhile. */
const struct flash_link *flash_reach(const flash_conf_t *conf, int has_place);
int flash_ask(const flash_conf_t *conf, const struct flash_file *f, int kind, uint64_t start, uint64_t bytes,
              struct flash_answer *answer, int *descriptor);
int flash_init_asking(apr_pool_t *pool, int workers_max);

/* The bucket. */
apr_status_t flash_free(void *body);
apr_bucket *flash_bucket_create(flash_body_t *body, apr_bucket_alloc_t *list);

#endif
