/*
 * Sending a file: the header, and windows that are in memory. The filters of nginx do the rest. How the file was found is not
 * known here.
 */
#include "ngx_http_flash.h"

#define COPIED_MAX (32 << 10)   /* a window up to this leaves in one call with the header */

const flash_coding_t flash_codings[FLASH_CODINGS] = {
    {FLASH_ACCEPT_BROTLI, ngx_string("br"), ngx_string(".br"), FLASH_BROTLI},
    {FLASH_ACCEPT_ZSTD, ngx_string("zstd"), ngx_string(".zst"), FLASH_ZSTD},
    {FLASH_ACCEPT_GZIP, ngx_string("gzip"), ngx_string(".gz"), FLASH_GZIP},
};

static void flash_writer(ngx_http_request_t *r)
{
    flash_ctx_t *ctx = ngx_http_get_module_ctx(r, ngx_http_flash_module);
    ngx_event_t *wev = r->connection->write;
    ngx_http_core_loc_conf_t *clcf = ngx_http_get_module_loc_conf(r->main, ngx_http_core_module);
    if (wev->timedout) {
        r->connection->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }
    if (wev->delayed) {
        if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
            ngx_http_finalize_request(r, NGX_ERROR);
        }
        return;
    }
    if (ngx_http_output_filter(r, NULL) == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }
    ngx_int_t rc = flash_body(ctx);
    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
    }
}

/* The client has not taken what was sent: goes on when it has. */
static ngx_int_t flash_writable_later(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_event_t *wev = r->connection->write;
    ngx_http_core_loc_conf_t *clcf = ngx_http_get_module_loc_conf(r->main, ngx_http_core_module);
    r->write_event_handler = flash_writer;
    if (!wev->delayed) {
        ngx_add_timer(wev, clcf->send_timeout);
    }
    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        return NGX_ERROR;
    }
    return flash_suspend(ctx);
}

/* Makes a buffer of the next window. NGX_DONE if the daemon has to read it first. */
static ngx_int_t flash_window(flash_ctx_t *ctx, ngx_buf_t *b)
{
    ngx_http_request_t *r = ctx->request;
    uint64_t end = ngx_min(ctx->end, ctx->at + FLASH_WINDOW_BYTES_MAX);
    if (ctx->memory != NULL && ctx->at >= ctx->memory_start && ctx->at < ctx->memory_end) {
        b->in_file = 1;
        b->file = ctx->memory;
        b->file_pos = ctx->at - ctx->memory_start;
        b->file_last = ngx_min(ctx->end, ctx->memory_end) - ctx->memory_start;
        return NGX_OK;
    }
    if (ctx->is_remote) {
        return flash_ask(ctx, FLASH_LOAD, FLASH_COPY, ctx->at, end);
    }
    if (!ctx->is_memory && !ctx->must_block) {
        enum flash_residency residency = flash_resident(ctx->file.fd, ctx->at, end - ctx->at);
        if (residency == FLASH_UNTOLD) {
            end = ngx_min(end, ctx->at / FLASH_SEEN_BYTES * FLASH_SEEN_BYTES + FLASH_SEEN_BYTES);
            if (!ctx->is_loaded && !flash_was_resident(&ctx->stamp, ctx->at)) {
                residency = FLASH_ABSENT;
            }
        }
        if (ctx->is_access_due && !ctx->is_loaded) {
            residency = FLASH_ABSENT;
        }
        size_t bytes = end - ctx->at;
        if (residency == FLASH_RESIDENT && bytes > COPIED_MAX && !flash_is_complete(ctx->file.fd, ctx->at, bytes)) {
            residency = FLASH_ABSENT;
        }
        if (residency == FLASH_UNTOLD || (residency == FLASH_RESIDENT && bytes <= COPIED_MAX)) {
            /* The buffer is free again, because the window before is sent. In a subrequest it may not be. */
            if (ctx->buffer == NULL || r != r->main) {
                ctx->buffer = ngx_palloc(r->pool, ngx_min(ctx->end - ctx->at, FLASH_SEEN_BYTES));
                if (ctx->buffer == NULL) {
                    return NGX_ERROR;
                }
            }
            int is_read = flash_read_now(ctx->file.fd, ctx->buffer, bytes, ctx->at);
            if (residency == FLASH_UNTOLD) {
                flash_note_resident(&ctx->stamp, ctx->at, is_read);
            }
            if (is_read) {
                b->temporary = 1;
                b->start = b->pos = ctx->buffer;
                b->end = b->last = ctx->buffer + bytes;
                return NGX_OK;
            }
            residency = FLASH_ABSENT;
        }
        if (residency == FLASH_ABSENT) {
            /* If what was just read is gone already, memory is short, and the bytes themselves are asked for. */
            return flash_ask(ctx, FLASH_LOAD, ctx->is_loaded ? FLASH_COPY : 0, ctx->at,
                             ngx_min(ctx->end, ctx->at + FLASH_WINDOW_BYTES_MAX));
        }
    }
    b->in_file = 1;
    b->file = &ctx->file;
    b->file_pos = ctx->at;
    b->file_last = ctx->is_memory ? ctx->end : end;
    return NGX_OK;
}

/* Whether what was sent waits for the client. Filters of nginx set other bits, for which no event comes. */
static int flash_waits_for_client(ngx_http_request_t *r)
{
    unsigned waits = NGX_HTTP_WRITE_BUFFERED;
#if (NGX_SSL)
    waits |= NGX_SSL_BUFFERED;
#endif
#if (NGX_HTTP_V2)
    waits |= NGX_HTTP_V2_BUFFERED;
#endif
    return r->buffered || r->postponed || ((r == r->main || r == r->connection->data) && (r->connection->buffered & waits));
}

/* Goes on with the body after a step that has failed, if blocking is allowed. */
ngx_int_t flash_go_on(flash_ctx_t *ctx, ngx_int_t rc)
{
    return rc == FLASH_BLOCKS ? flash_body(ctx) : rc;
}

ngx_int_t flash_body(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    for (;;) {
        if (flash_waits_for_client(r)) {
            return flash_writable_later(ctx);
        }
        if (r->connection->write->timer_set && !r->connection->write->delayed) {
            ngx_del_timer(r->connection->write);
        }
        ngx_chain_t out = {ngx_calloc_buf(r->pool), NULL};
        if (out.buf == NULL) {
            return NGX_ERROR;
        }
        ngx_int_t rc = flash_window(ctx, out.buf);
        if (rc == FLASH_BLOCKS) {
            rc = flash_window(ctx, out.buf);
        }
        if (rc != NGX_OK) {
            return rc;
        }
        ctx->at += ngx_buf_size(out.buf);
        ctx->is_loaded = ctx->at < ctx->loaded_end;
        ngx_uint_t is_last = ctx->at >= ctx->end;
        out.buf->last_buf = is_last && r == r->main;
        out.buf->last_in_chain = is_last;
        out.buf->flush = !is_last;
        rc = ngx_http_output_filter(r, &out);
        if (is_last || rc == NGX_ERROR) {
            return rc;
        }
    }
}

/* The part of the file that a single range asks for. The range filter counts bytes, so it gets the part before as a buffer. */
static ngx_int_t flash_skip_to_range(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    if (r->headers_out.status != NGX_HTTP_PARTIAL_CONTENT || r->headers_out.content_range == NULL) {
        return NGX_OK;
    }
    ngx_str_t value = r->headers_out.content_range->value;
    u_char *start = value.data + sizeof("bytes ") - 1, *last = value.data + value.len;
    u_char *dash = ngx_strlchr(start, last, '-'), *slash = ngx_strlchr(start, last, '/');
    if (dash == NULL || slash == NULL) {
        return NGX_OK;
    }
    off_t from = ngx_atoof(start, dash - start), to = ngx_atoof(dash + 1, slash - dash - 1);
    if (from == NGX_ERROR || to == NGX_ERROR || (uint64_t) to >= ctx->end) {
        return NGX_OK;
    }
    ctx->end = to + 1;
    if (from == 0) {
        return NGX_OK;
    }
    ngx_chain_t out = {ngx_calloc_buf(r->pool), NULL};
    if (out.buf == NULL) {
        return NGX_ERROR;
    }
    out.buf->in_file = 1;
    out.buf->file = &ctx->file;
    out.buf->file_last = from;
    ctx->at = from;
    return ngx_http_output_filter(r, &out) == NGX_ERROR ? NGX_ERROR : NGX_OK;
}

ngx_int_t flash_send_file(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    if (ctx->conf->accepts) {
        r->gzip_vary = 1;
    }
    r->root_tested = !r->error_page;
    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = ctx->stamp.size;
    r->headers_out.last_modified_time = ctx->stamp.modified_ns / 1000000000;
    if (ngx_http_set_etag(r) != NGX_OK || ngx_http_set_content_type(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    for (ngx_uint_t i = 0; i < FLASH_CODINGS; i++) {
        if (ctx->coding == flash_codings[i].coding) {
            ngx_table_elt_t *h = ngx_list_push(&r->headers_out.headers);
            if (h == NULL) {
                return NGX_HTTP_INTERNAL_SERVER_ERROR;
            }
            h->hash = 1;
            ngx_str_set(&h->key, "Content-Encoding");
            h->value = flash_codings[i].token;
            r->headers_out.content_encoding = h;
        }
    }
    r->allow_ranges = 1;
    /* Several ranges are one response only if the file is one window. */
    r->single_range = ctx->stamp.size > FLASH_WINDOW_BYTES_MAX;
    ctx->is_sending = 1;
    ctx->end = ctx->stamp.size;
    ngx_int_t rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }
    if (ctx->end == 0) {
        return ngx_http_send_special(r, NGX_HTTP_LAST);
    }
    if (flash_skip_to_range(ctx) != NGX_OK) {
        return NGX_ERROR;
    }
    return flash_body(ctx);
}

/* Takes over a window that is in memory. */
static ngx_int_t flash_take_memory(flash_ctx_t *ctx, int memory)
{
    ngx_pool_t *pool = ctx->request->pool;
    ngx_file_t *file = ngx_pcalloc(pool, sizeof(ngx_file_t));
    if (file == NULL) {
        close(memory);
        return NGX_ERROR;
    }
    file->fd = memory;
    file->log = ctx->file.log;
    file->name = ctx->path;
    if (ctx->memory != NULL && ctx->request == ctx->request->main) {
        close(ctx->memory->fd);
    } else if (ctx->memory != NULL) {
        /* A subrequest's windows before may not be sent yet: they stay open until the request ends. */
        ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(pool, sizeof(ngx_pool_cleanup_file_t));
        if (cleanup == NULL) {
            close(memory);
            return NGX_ERROR;
        }
        cleanup->handler = ngx_pool_cleanup_file;
        *(ngx_pool_cleanup_file_t *) cleanup->data =
            (ngx_pool_cleanup_file_t) {ctx->memory->fd, ctx->path.data, ctx->file.log};
    }
    ctx->memory = file;
    return NGX_OK;
}

/* The answer to a load. */
ngx_int_t flash_take_window(flash_ctx_t *ctx, const struct flash_answer *answer, int memory)
{
    uint64_t end = answer->window_start + answer->window_bytes;
    int is_memory = (answer->flags & FLASH_MEMORY) != 0;
    if (memory != -1 && (answer->kind != FLASH_WINDOW || !is_memory)) {
        close(memory);
        memory = -1;
    }
    /* A file that has shrunk has nothing there. To ask again would bring the same answer. */
    if (answer->kind == FLASH_CHANGED || (answer->kind == FLASH_WINDOW && (ctx->at < answer->window_start || ctx->at >= end))) {
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0, "flash helper: \"%V\" has changed", &ctx->path);
        if (memory != -1) {
            close(memory);
        }
        return NGX_ERROR;
    }
    if (answer->kind != FLASH_WINDOW) {
        return flash_go_on(ctx, flash_unavailable(ctx, "a window cannot be read of"));
    }
    if (is_memory && memory == -1) {
        return flash_go_on(ctx, flash_unavailable(ctx, "there is no room for a window of"));
    }
    if (is_memory) {
        if (flash_take_memory(ctx, memory) != NGX_OK) {
            return NGX_ERROR;
        }
        ctx->memory_start = answer->window_start;
        ctx->memory_end = end;
    }
    ctx->loaded_end = end;
    ctx->is_loaded = 1;
    ctx->is_access_due = 0;
    return flash_body(ctx);
}
