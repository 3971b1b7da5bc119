/*
 * The bucket of a file that the daemon helps to read. It reads what is in memory, and asks for what is not. Filters and ranges
 * split it as they split any bucket.
 */
#include <sys/mman.h>

#include "mod_flash.h"

#define READ_BYTES (64 << 10)

static apr_status_t flash_bucket_read(apr_bucket *b, const char **bytes, apr_size_t *length, apr_read_type_e block);

apr_status_t flash_free(void *data)
{
    flash_file_close(&((flash_body_t *) data)->f);
    free(data);
    return APR_SUCCESS;
}

static void flash_bucket_destroy(void *data)
{
    if (apr_bucket_shared_destroy(data)) {
        flash_free(data);
    }
}

static const apr_bucket_type_t flash_bucket_type = {
    "FLASH", 5, APR_BUCKET_DATA, flash_bucket_destroy, flash_bucket_read, apr_bucket_setaside_noop,
    apr_bucket_shared_split, apr_bucket_shared_copy,
};

/* Reads a part of the file, with the daemon's help. */
static apr_status_t flash_fill(flash_body_t *body, char *buffer, size_t bytes, uint64_t start, apr_read_type_e block)
{
    struct flash_file *f = &body->f;
    /* The second time, the daemon sends the bytes themselves. */
    for (int asked = 0; !flash_file_read(f, buffer, bytes, start); asked++) {
        struct flash_answer answer;
        int descriptor, kind = FLASH_FAILED;
        if (block != APR_BLOCK_READ) {
            return APR_EAGAIN;
        }
        if (asked < 3) {
            /* The file's next parts come with this one. */
            kind = flash_ask(body->conf, f, FLASH_LOAD, start, FLASH_WINDOW_BYTES_MAX, &answer, &descriptor);
            kind = kind == FLASH_WINDOW ? flash_file_take_window(f, &answer, descriptor, start) : kind;
        }
        if (kind != FLASH_WINDOW && body->conf->blocks == 1 && !f->is_remote && kind != FLASH_CHANGED) {
            return pread(f->fd, buffer, bytes, (off_t) start) == (ssize_t) bytes ? APR_SUCCESS : APR_EGENERAL;
        }
        if (kind != FLASH_WINDOW) {
            ap_log_error(APLOG_MARK, APLOG_ERR, 0, body->server, "flash helper: answer %d for a part of %s", kind, body->path);
            return APR_EGENERAL;
        }
    }
    return APR_SUCCESS;
}

static void flash_unmap(void *buffer)
{
    (void) munmap(buffer, READ_BYTES);
}

/* Apache's allocators keep what is freed, in each process or thread. So only small buffers come from there. */
static apr_status_t flash_bucket_read(apr_bucket *b, const char **bytes, apr_size_t *length, apr_read_type_e block)
{
    flash_body_t *body = b->data;
    size_t rest = READ_BYTES - (size_t) b->start % READ_BYTES; /* of one piece, so that what is seen of it can be noted */
    size_t count = b->length < rest ? b->length : rest;
    int is_small = count <= SMALL_BYTES;
    void (*free_buffer)(void *) = is_small ? apr_bucket_free : flash_unmap;
    char *buffer = is_small ? apr_bucket_alloc(count, b->list)
                            : mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == NULL || buffer == MAP_FAILED) {
        return APR_ENOMEM;
    }
    apr_status_t status = flash_fill(body, buffer, count, b->start, block);
    if (status == APR_SUCCESS && count < b->length) {
        status = apr_bucket_split(b, count);
    }
    if (status != APR_SUCCESS) {
        free_buffer(buffer);
        return status;
    }
    apr_bucket_heap_make(b, buffer, count, free_buffer);
    flash_bucket_destroy(body);
    *bytes = buffer;
    *length = count;
    return APR_SUCCESS;
}

apr_bucket *flash_bucket_create(flash_body_t *body, apr_bucket_alloc_t *list)
{
    apr_bucket *b = apr_bucket_alloc(sizeof(*b), list);
    APR_BUCKET_INIT(b);
    b->free = apr_bucket_free;
    b->list = list;
    b = apr_bucket_shared_make(b, body, 0, body->f.stamp.size);
    b->type = &flash_bucket_type;
    return b;
}
