/*
 * The bucket of a file that the daemon helps to read. It reads what is in memory, and asks for what is not. Filters and ranges
 * split it as they split any bucket.
 */
#include "mod_flash.h"

#define READ_BYTES (64 << 10)

static apr_status_t flash_bucket_read(apr_bucket *b, const char **bytes, apr_size_t *length, apr_read_type_e block);

void flash_free(flash_file_t *f)
{
    if (f->file != -1) {
        close(f->file);
    }
    free(f);
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

static int flash_read_whole(int file, char *buffer, size_t bytes, uint64_t start)
{
    while (bytes > 0) {
        ssize_t count = pread(file, buffer, bytes, (off_t) start);
        if (count <= 0 && !(count == -1 && errno == EINTR)) {
            return 0;
        }
        buffer += count > 0 ? count : 0;
        bytes -= count > 0 ? count : 0;
        start += count > 0 ? count : 0;
    }
    return 1;
}

static int flash_read_resident(const flash_file_t *f, char *buffer, size_t bytes, uint64_t start, int is_loaded)
{
    enum flash_residency residency = flash_resident(f->file, start, bytes);
    if (f->is_access_due && !is_loaded) {
        return 0;
    }
    if (residency == FLASH_ABSENT || (residency == FLASH_UNTOLD && !is_loaded && !flash_was_resident(&f->stamp, start))) {
        return 0;
    }
    int is_read = flash_read_now(f->file, buffer, bytes, start);
    if (residency == FLASH_UNTOLD) {
        flash_note_resident(&f->stamp, start, is_read);
    }
    return is_read;
}

/* Reads a part of the file, with the daemon's help. */
static apr_status_t flash_fill(flash_file_t *f, char *buffer, size_t bytes, uint64_t start, int may_wait)
{
    if (f->is_memory) {
        return flash_read_whole(f->file, buffer, bytes, start) ? APR_SUCCESS : APR_EGENERAL;
    }
    if (f->file != -1 && flash_read_resident(f, buffer, bytes, start, start + bytes <= f->loaded_end)) {
        return APR_SUCCESS;
    }
    if (!may_wait) {
        return APR_EAGAIN;
    }
    /* If what was just read is gone already, memory is short, and the bytes themselves are asked for. */
    for (int copy = f->file == -1; copy < 2; copy++) {
        struct flash_question question =
            flash_question(FLASH_LOAD, f->root, f->file == -1 ? f->path_bytes : 0, 0);
        struct flash_answer answer;
        int memory = -1, is_read;
        question.flags = (copy ? FLASH_COPY : 0) | (f->file == -1 ? FLASH_KNOWN : 0);
        question.known = f->stamp;
        question.window_start = start;
        /* The file's next windows come with this one. */
        question.window_bytes = copy ? bytes : FLASH_WINDOW_BYTES_MAX;
        int kind = flash_ask(f->conf, &question, f->path, f->file, &answer, &memory);
        if (kind == FLASH_WINDOW && memory != -1) {
            is_read = answer.window_start <= start && answer.window_start + answer.window_bytes >= start + bytes
                      && flash_read_whole(memory, buffer, bytes, start - answer.window_start);
        } else {
            is_read = kind == FLASH_WINDOW && f->file != -1 && flash_read_resident(f, buffer, bytes, start, 1);
        }
        if (memory != -1) {
            close(memory);
        }
        if (is_read) {
            f->loaded_end = answer.window_start + answer.window_bytes;
            f->is_access_due = 0;
            return APR_SUCCESS;
        }
        if (kind != FLASH_WINDOW) {
            if (f->conf->blocks == 1 && f->file != -1 && kind != FLASH_CHANGED) {
                return flash_read_whole(f->file, buffer, bytes, start) ? APR_SUCCESS : APR_EGENERAL;
            }
            ap_log_error(APLOG_MARK, APLOG_ERR, 0, f->server, "flash helper: answer %d for a window of %s", kind, f->path);
            return APR_EGENERAL;
        }
    }
    return APR_EGENERAL;
}

static apr_status_t flash_bucket_read(apr_bucket *b, const char **bytes, apr_size_t *length, apr_read_type_e block)
{
    flash_file_t *f = b->data;
    size_t count = b->length < READ_BYTES ? b->length : READ_BYTES;
    char *buffer = apr_bucket_alloc(count, b->list);
    if (buffer == NULL) {
        return APR_ENOMEM;
    }
    apr_status_t status = flash_fill(f, buffer, count, b->start, block == APR_BLOCK_READ);
    if (status == APR_SUCCESS && count < b->length) {
        status = apr_bucket_split(b, count);
    }
    if (status != APR_SUCCESS) {
        apr_bucket_free(buffer);
        return status;
    }
    apr_bucket_heap_make(b, buffer, count, apr_bucket_free);
    flash_bucket_destroy(f);
    *bytes = buffer;
    *length = count;
    return APR_SUCCESS;
}

apr_bucket *flash_bucket_create(flash_file_t *f, apr_bucket_alloc_t *list)
{
    apr_bucket *b = apr_bucket_alloc(sizeof(*b), list);
    APR_BUCKET_INIT(b);
    b->free = apr_bucket_free;
    b->list = list;
    b = apr_bucket_shared_make(b, f, 0, f->stamp.size);
    b->type = &flash_bucket_type;
    return b;
}
