/* What the files of mod_flash share. */
#ifndef MOD_FLASH_H
#define MOD_FLASH_H

#include <stdlib.h>

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

#include "flash_asker.h"

#define ROOTS_MAX 64

extern module AP_MODULE_DECLARE_DATA flash_module;
APLOG_USE_MODULE(flash);

typedef struct {
    const char *socket; /* NULL: not set; "": off */
    int deadline_ms;    /* 0: not set */
    int blocks;         /* -1: not set */
} flash_conf_t;

typedef struct {
    int folder;
    unsigned flags;
    char *path;
    size_t path_bytes;
} flash_root_t;

/* The connection of a thread to the daemon. */
typedef struct {
    const char *socket; /* of the configuration, which outlives all threads */
    int s;
    uint64_t questions;
    unsigned roots_count, roots_told;
    flash_root_t roots[ROOTS_MAX];
} flash_asker_t;

extern __thread flash_asker_t asker;

/* A file on its way to a client. It outlives its request, because the last bytes may wait for the client. */
typedef struct {
    apr_bucket_refcount refcount;
    const flash_conf_t *conf;
    server_rec *server;
    uint32_t root;
    int file; /* -1: each window is asked for by path */
    int is_memory;
    int is_access_due; /* the first read sets the time of access, so the daemon does it */
    struct flash_stamp stamp;
    uint64_t loaded_end; /* the daemon has read up to here */
    size_t path_bytes;
    char path[FLASH_PATH_BYTES_MAX + 1];
} flash_file_t;

/* Asking. */
int flash_reach(const flash_conf_t *conf);
int flash_ask(const flash_conf_t *conf, struct flash_question *question, const char *path, int file,
              struct flash_answer *answer, int *descriptor);
/* Makes the semaphore of the workers that may wait at once. Returns whether that worked. */
int flash_init_cold(apr_pool_t *pool, int workers_max);

/* The bucket. */
void flash_free(flash_file_t *f);
apr_bucket *flash_bucket_create(flash_file_t *f, apr_bucket_alloc_t *list);

#endif
