/*
 * The connection of a worker to `flash helper`: questions, and answers as events. If the daemon is lost, requests ask its
 * successor once. What is asked is decided in ngx_http_flash_module.c.
 */
#include "ngx_http_flash.h"

#define RETRY_MS 100 /* after a failure to connect */
#define TURN_MAX 8   /* messages that are taken before other connections have their turn */
#define LOST_MAX 2   /* a request is not asked again if the daemon is lost for the second time */

static ngx_int_t flash_reach(flash_ctx_t *ctx);

void flash_forget(flash_ctx_t *ctx)
{
    if (ctx->is_pending) {
        ngx_queue_remove(&ctx->queue);
        ctx->is_pending = 0;
    }
    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }
}

/* Goes on with a request that has waited: with an answer, or as if one of this kind had come. 0: asks again. */
static void flash_resume(flash_ctx_t *ctx, const struct flash_answer *answer, int descriptor, int kind)
{
    ngx_http_request_t *r = ctx->request;
    ngx_connection_t *c = r->connection;
    flash_forget(ctx);
    ngx_http_set_log_request(c->log, r);
    if (!ctx->is_sending) {
        kind = answer != NULL ? flash_file_take(&ctx->f, answer, descriptor) : kind;
        ngx_http_finalize_request(r, kind == 0 ? flash_begin(ctx) : flash_lead_to(ctx, kind));
    } else {
        kind = answer != NULL ? flash_file_take_window(&ctx->f, answer, descriptor, ctx->in->buf->file_pos) : kind;
        if (kind != 0 && kind != FLASH_WINDOW) {
            (void) flash_unavailable(ctx, kind == FLASH_CHANGED ? "it has changed:" : "a window cannot be read of");
            ctx->is_failed |= kind == FLASH_CHANGED;
        }
        r->write_event_handler(r);
    }
    ngx_http_run_posted_requests(c);
}

static void flash_timeout(ngx_event_t *ev)
{
    flash_resume(ev->data, NULL, -1, FLASH_TIMED_OUT);
}

/* The request that waits for the answer to a question; for 0, the next one that waits for the roots. */
static flash_ctx_t *flash_pending(flash_daemon_t *d, uint64_t question)
{
    for (ngx_queue_t *at = ngx_queue_head(&d->pending); at != &d->pending; at = ngx_queue_next(at)) {
        flash_ctx_t *ctx = ngx_queue_data(at, flash_ctx_t, queue);
        if (ctx->question == question) {
            return ctx;
        }
    }
    return NULL;
}

/* Who has asked waits for the successor's roots, or is told that there is nobody. */
static void flash_lost(flash_daemon_t *d)
{
    ngx_close_connection(d->connection);
    d->connection = NULL;
    d->link.s = -1;
    flash_disconnect(&d->link);
    for (ngx_queue_t *at = ngx_queue_head(&d->pending); at != &d->pending; at = ngx_queue_next(at)) {
        flash_ctx_t *ctx = ngx_queue_data(at, flash_ctx_t, queue);
        ctx->question = 0;
        ctx->lost++;
    }
    while (!ngx_queue_empty(&d->pending)) {
        flash_ctx_t *ctx = ngx_queue_data(ngx_queue_head(&d->pending), flash_ctx_t, queue);
        if (flash_reach(ctx) == NGX_OK) {
            break;
        }
        flash_resume(ctx, NULL, -1, FLASH_DOWN);
    }
}

static void flash_read(ngx_event_t *ev)
{
    ngx_connection_t *c = ev->data;
    flash_daemon_t *d = c->data;
    static union flash_message message;
    flash_ctx_t *ctx;
    for (int taken = 0; d->connection == c; taken++) {
        int descriptor;
        if (taken == TURN_MAX) {
            ngx_post_event(c->read, &ngx_posted_next_events);
            return;
        }
        enum flash_heard heard = flash_hear(&d->link, &message, &descriptor);
        if (heard == FLASH_SILENT) {
            c->read->ready = 0;
            if (ngx_handle_read_event(c->read, 0) == NGX_OK) {
                return;
            }
        }
        if (heard == FLASH_ANSWERED) {
            ctx = flash_pending(d, message.answer.id);
            if (ctx != NULL) {
                flash_resume(ctx, &message.answer, descriptor, 0);
            } else if (descriptor != -1) {
                close(descriptor); /* the request is over */
            }
        } else if (heard == FLASH_TOLD) {
            while (flash_knows_roots(&d->link) && (ctx = flash_pending(d, 0)) != NULL) {
                flash_resume(ctx, NULL, -1, 0);
            }
        } else {
            ngx_log_error(NGX_LOG_ERR, c->log, 0, "flash helper: it is %s", heard == FLASH_GONE ? "gone" : "of no use here");
            d->retry = heard == FLASH_GONE ? 0 : ngx_current_msec + RETRY_MS;
            flash_lost(d);
        }
    }
}

/* Connects, unless it is connected already or has just failed to. */
static ngx_int_t flash_reach(flash_ctx_t *ctx)
{
    flash_daemon_t *d = ctx->conf->daemon;
    if (ctx->lost >= LOST_MAX || (d->retry != 0 && (ngx_msec_int_t) (d->retry - ngx_current_msec) > 0)) {
        return NGX_ERROR;
    }
    if (d->connection != NULL) {
        return NGX_OK;
    }
    int s = flash_connect(d->socket);
    ngx_connection_t *c = s == -1 ? NULL : ngx_get_connection(s, ngx_cycle->log);
    if (c == NULL) {
        d->retry = ngx_current_msec + RETRY_MS;
        ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, ngx_errno, "flash helper: cannot connect to %s", d->socket);
        if (s != -1) {
            close(s);
        }
        return NGX_ERROR;
    }
    c->data = d;
    c->read->handler = c->write->handler = flash_read;
    c->read->log = c->write->log = ngx_cycle->log;
    c->read->resolver = 1; /* it stays open when the worker ends, and nginx shall not miss it then */
    d->connection = c;
    d->link.s = s;
    d->retry = 0;
    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        flash_lost(d);
        return NGX_ERROR;
    }
    return NGX_OK;
}

/* Asks, or with kind 0 only waits for the roots. NGX_DONE: the request goes on later. */
ngx_int_t flash_ask(flash_ctx_t *ctx, int kind, ngx_uint_t accepts, uint64_t start, uint64_t bytes)
{
    flash_daemon_t *d = ctx->conf->daemon;
    if (flash_reach(ctx) != NGX_OK) {
        return flash_unavailable(ctx, "it is gone: cannot find");
    }
    struct flash_question question = flash_file_ask(&ctx->f, kind, start, bytes);
    question.id = kind == 0 ? 0 : ++d->questions;
    question.flags |= accepts;
    question.deadline_ms = ctx->conf->deadline;
    if (kind != 0 && flash_send(d->link.s, &question, ctx->f.path, question.path_bytes == 0 ? ctx->f.fd : -1) == -1
        && errno != EPIPE && errno != ECONNRESET) {
        /* It is overloaded. If it is gone, that is an event of its own, and its successor is asked. */
        return flash_unavailable(ctx, "it takes no more questions, cannot find");
    }
    ctx->question = question.id;
    ctx->is_pending = 1;
    ngx_queue_insert_tail(&d->pending, &ctx->queue);
    ctx->timer.handler = flash_timeout;
    ctx->timer.data = ctx;
    ctx->timer.log = ctx->request->connection->log;
    /* The daemon answers when the deadline passes. This is for a daemon that does not. */
    ngx_add_timer(&ctx->timer, ctx->conf->deadline + 1000);
    if (!ctx->is_sending) {
        ctx->request->main->count++;
        ctx->request->read_event_handler = ngx_http_test_reading;
    }
    return NGX_DONE;
}
