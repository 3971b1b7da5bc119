/*
 * The connection of a worker to `flash helper`: questions, and answers as events. If the daemon is lost, requests that have asked
 * ask its successor once. What is asked is decided in ngx_http_flash_module.c.
 */
#include "ngx_http_flash.h"

#define RETRY_MS 100 /* after a failure to connect */

static void flash_read(ngx_event_t *ev);
static void flash_timeout(ngx_event_t *ev);

void flash_forget(flash_ctx_t *ctx)
{
    if (ctx->is_asked) {
        ngx_rbtree_delete(&ctx->conf->daemon->asked, &ctx->node);
    }
    if (ctx->is_waiting) {
        ngx_queue_remove(&ctx->queue);
    }
    ctx->is_asked = ctx->is_waiting = 0;
    if (ctx->timer.timer_set) {
        ngx_del_timer(&ctx->timer);
    }
}

ngx_int_t flash_suspend(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    if (!ctx->is_suspended) {
        ctx->is_suspended = 1;
        r->main->count++;
    }
    r->read_event_handler = ngx_http_test_reading;
    return NGX_DONE;
}

static void flash_start_timer(flash_ctx_t *ctx)
{
    ctx->timer.handler = flash_timeout;
    ctx->timer.data = ctx;
    ctx->timer.log = ctx->request->connection->log;
    /* The daemon answers when the deadline passes. This is for a daemon that does not. */
    ngx_add_timer(&ctx->timer, ctx->conf->deadline + 1000);
}

/* Ends a step of a request. After NGX_DONE the request may be gone already. */
static void flash_finish(ngx_connection_t *c, ngx_http_request_t *r, ngx_int_t rc)
{
    if (rc != NGX_DONE) {
        ngx_http_finalize_request(r, rc);
    }
    ngx_http_run_posted_requests(c);
}

/* Goes on with a request that has waited. */
static void flash_resume(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_connection_t *c = r->connection;
    ngx_http_set_log_request(c->log, r);
    flash_finish(c, r, ctx->is_sending ? flash_body(ctx) : flash_begin(ctx));
}

static void flash_timeout(ngx_event_t *ev)
{
    flash_ctx_t *ctx = ev->data;
    ngx_http_request_t *r = ctx->request;
    ngx_connection_t *c = r->connection;
    flash_forget(ctx);
    ngx_http_set_log_request(c->log, r);
    flash_finish(c, r, flash_go_on(ctx, flash_unavailable(ctx, "it has not answered in time:")));
}

static void flash_lost(flash_daemon_t *d)
{
    ngx_queue_t again;
    if (d->connection != NULL) {
        ngx_close_connection(d->connection);
        d->connection = NULL;
    }
    d->roots_told = d->roots_count = 0;
    /* Who has asked asks again, or is told that there is nobody. */
    ngx_queue_init(&again);
    while (d->asked.root != &d->sentinel) {
        ngx_rbtree_node_t *node = ngx_rbtree_min(d->asked.root, &d->sentinel);
        flash_ctx_t *ctx = (flash_ctx_t *) ((u_char *) node - offsetof(flash_ctx_t, node));
        ngx_rbtree_delete(&d->asked, node);
        ctx->is_asked = 0;
        ctx->is_waiting = 1;
        ngx_queue_insert_tail(&again, &ctx->queue);
    }
    while (!ngx_queue_empty(&d->waiting)) {
        ngx_queue_t *first = ngx_queue_head(&d->waiting);
        ngx_queue_remove(first);
        ngx_queue_insert_tail(&again, first);
    }
    while (!ngx_queue_empty(&again)) {
        flash_ctx_t *ctx = ngx_queue_data(ngx_queue_head(&again), flash_ctx_t, queue);
        flash_forget(ctx);
        ctx->lost++;
        flash_resume(ctx);
    }
}

/* Connects, unless it is connected already or has just failed to. */
ngx_int_t flash_reach(flash_daemon_t *d, ngx_log_t *log)
{
    if (d->connection != NULL) {
        return NGX_OK;
    }
    if (d->retry != 0 && (ngx_msec_int_t) (d->retry - ngx_current_msec) > 0) {
        return NGX_ERROR;
    }
    int s = flash_connect((char *) d->socket.data);
    if (s == -1) {
        d->retry = ngx_current_msec + RETRY_MS;
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno, "flash helper: cannot connect to unix:%V", &d->socket);
        return NGX_ERROR;
    }
    ngx_connection_t *c = ngx_get_connection(s, ngx_cycle->log);
    if (c == NULL) {
        close(s);
        return NGX_ERROR;
    }
    c->data = d;
    c->read->handler = flash_read;
    c->write->handler = flash_read;
    c->read->log = c->write->log = ngx_cycle->log;
    d->connection = c;
    d->retry = 0;
    if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
        ngx_close_connection(c);
        d->connection = NULL;
        return NGX_ERROR;
    }
    return NGX_OK;
}

static void flash_take_root(flash_daemon_t *d, const struct flash_root *root, ssize_t length, int folder)
{
    const u_char *path = (const u_char *) (root + 1);
    ngx_log_t *log = ngx_cycle->log;
    if (root->root >= ROOTS_MAX || folder == -1 || length != (ssize_t) sizeof(*root) + root->path_bytes) {
        ngx_log_error(NGX_LOG_ERR, log, 0, "flash helper: root %uD cannot be used", root->root);
        if (folder != -1) {
            close(folder);
        } else if (root->root < d->roots_count) {
            /* It is not told again on this connection. */
            d->retry = ngx_current_msec + RETRY_MS;
            flash_lost(d);
        }
        return;
    }
    root_t *known = &d->roots[root->root];
    if (known->folder != -1) {
        close(known->folder);
    }
    known->folder = folder;
    known->flags = root->flags;
    if (known->path.len != root->path_bytes || ngx_memcmp(known->path.data, path, root->path_bytes) != 0) {
        ngx_free(known->path.data);
        known->path.data = ngx_alloc(root->path_bytes + 1, log);
        known->path.len = known->path.data == NULL ? 0 : root->path_bytes;
        ngx_memcpy(known->path.data, path, known->path.len);
    }
    if (d->roots_told < d->roots_count && ++d->roots_told == d->roots_count) {
        while (!ngx_queue_empty(&d->waiting)) {
            flash_ctx_t *ctx = ngx_queue_data(ngx_queue_head(&d->waiting), flash_ctx_t, queue);
            flash_forget(ctx);
            flash_resume(ctx);
        }
    }
}

/* Goes on when the daemon has told its roots. */
ngx_int_t flash_wait_for_roots(flash_ctx_t *ctx)
{
    ngx_queue_insert_tail(&ctx->conf->daemon->waiting, &ctx->queue);
    ctx->is_waiting = 1;
    flash_start_timer(ctx);
    return flash_suspend(ctx);
}

ngx_int_t flash_ask(flash_ctx_t *ctx, int kind, ngx_uint_t flags, uint64_t start, uint64_t end)
{
    ngx_http_request_t *r = ctx->request;
    flash_daemon_t *d = ctx->conf->daemon;
    size_t path_bytes = kind == FLASH_LOAD && !ctx->is_remote ? 0 : ctx->path.len;
    if (ctx->lost >= LOST_MAX || flash_reach(d, r->connection->log) != NGX_OK) {
        return flash_unavailable(ctx, "it is gone: cannot find");
    }
    struct flash_question question = flash_question(kind, ctx->root, path_bytes, ++d->questions);
    question.flags = flags | (ctx->is_remote ? FLASH_KNOWN : 0);
    question.deadline_ms = ctx->conf->deadline;
    question.window_start = start;
    question.window_bytes = end - start;
    question.known = ctx->stamp;
    int file = kind == FLASH_LOAD && !ctx->is_remote ? ctx->file.fd : -1;
    if (flash_send(d->connection->fd, &question, (char *) ctx->path.data, file) == -1) {
        /* If it does not take questions, it is overloaded. If it is gone, that is an event of its own. */
        return flash_unavailable(ctx, "it takes no more questions, cannot find");
    }
    ctx->node.key = question.id;
    ngx_rbtree_insert(&d->asked, &ctx->node);
    ctx->is_asked = 1;
    flash_start_timer(ctx);
    r->write_event_handler = ngx_http_request_empty_handler;
    return flash_suspend(ctx);
}

static void flash_read(ngx_event_t *ev)
{
    ngx_connection_t *c = ev->data;
    flash_daemon_t *d = c->data;
    static union {
        struct flash_answer answer;
        struct flash_hello hello;
        struct flash_root root;
        u_char bytes[FLASH_MESSAGE_BYTES_MAX];
    } message;
    while (d->connection == c) {
        int file;
        ssize_t length = flash_receive(c->fd, &message, sizeof(message), &file);
        if (length == -1) {
            if (ngx_handle_read_event(c->read, 0) != NGX_OK) {
                flash_lost(d);
            }
            return;
        }
        if (length == (ssize_t) sizeof(message.hello) && message.hello.kind == FLASH_HELLO
            && message.hello.version == FLASH_HELPER_VERSION) {
            d->roots_count = ngx_min(message.hello.roots, ROOTS_MAX);
            continue;
        }
        if (length >= (ssize_t) sizeof(message.root) && message.root.kind == FLASH_ROOT) {
            flash_take_root(d, &message.root, length, file);
            continue;
        }
        if (!flash_is_answer(&message.answer, length) || (message.answer.kind == FLASH_REFUSED && message.answer.id == 0)) {
            ngx_log_error(NGX_LOG_ERR, c->log, 0, "flash helper: %s", length == 0 ? "it is gone" : "it refuses this worker");
            d->retry = length == 0 ? 0 : ngx_current_msec + RETRY_MS;
            if (file != -1) {
                close(file);
            }
            flash_lost(d);
            return;
        }
        ngx_rbtree_node_t *node = d->asked.root;
        while (node != &d->sentinel && node->key != message.answer.id) {
            node = message.answer.id < node->key ? node->left : node->right;
        }
        if (node == &d->sentinel) {
            /* The request is over. */
            if (file != -1) {
                close(file);
            }
            continue;
        }
        flash_ctx_t *ctx = (flash_ctx_t *) ((u_char *) node - offsetof(flash_ctx_t, node));
        ngx_http_request_t *r = ctx->request;
        ngx_connection_t *of_client = r->connection;
        flash_forget(ctx);
        ngx_http_set_log_request(of_client->log, r);
        flash_finish(of_client, r, ctx->is_sending ? flash_take_window(ctx, &message.answer, file)
                                                   : flash_take_file(ctx, &message.answer, file));
    }
}

void flash_init_daemon(flash_daemon_t *d, ngx_log_t *log)
{
    ngx_rbtree_init(&d->asked, &d->sentinel, ngx_rbtree_insert_value);
    ngx_queue_init(&d->waiting);
    for (ngx_uint_t i = 0; i < ROOTS_MAX; i++) {
        d->roots[i].folder = -1;
    }
    /* Without the daemon the worker starts all the same, and tries again at the first request. */
    (void) flash_reach(d, log);
}
