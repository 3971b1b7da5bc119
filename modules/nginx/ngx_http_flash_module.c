/*
 * flash_static: `flash helper` finds, opens and reads files, so that the worker never waits for a disk.
 *
 * A request first tries names and pages that are in memory (RESOLVE_CACHED, cachestat). If that is not enough, the worker asks
 * the daemon, goes on with other requests, and gets the answer as an event. The file goes to nginx's filters as a whole. Behind
 * the one that cuts ranges, a filter here holds back what is not in memory yet. The rest is nginx's own.
 */
#include "ngx_http_flash.h"

#define COPIED_MAX (32 << 10) /* a file up to this leaves in one call with the header */
#define CHEAP_MAX (12 << 10)  /* up to this, that is cheaper than a `sendfile` of its own */
#define FLASH_BUFFERED 0x08   /* of r->buffered, where the filters of nginx leave it free */
#define FILTERS_BUFFERED (NGX_HTTP_GZIP_BUFFERED | 0x08) /* of connections: gzip; image_filter and xslt */

static ngx_http_output_body_filter_pt flash_next_body_filter;
static int flash_is_used; /* some location asks a daemon */

static void flash_cleanup(void *data)
{
    flash_forget(data);
}

/* When nothing sends from them any more: a frame of HTTP/2 or a thread may outlast the request's end. */
static void flash_close_files(void *data)
{
    flash_ctx_t *ctx = data;
    flash_forget(ctx);
    flash_file_close(&ctx->f);
}

/* The daemon cannot help now. NGX_DECLINED if the worker may do it itself. */
ngx_int_t flash_unavailable(flash_ctx_t *ctx, const char *why)
{
    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0, "flash helper: %s \"%V\"", why, &ctx->file.name);
    ctx->must_block = ctx->is_sending && ctx->conf->blocks && !ctx->f.is_remote;
    ctx->is_failed = ctx->is_sending && !ctx->must_block;
    return ctx->is_failed ? NGX_ERROR : ctx->conf->blocks ? NGX_DECLINED : NGX_HTTP_SERVICE_UNAVAILABLE;
}

static ngx_table_elt_t *flash_add_field(ngx_http_request_t *r, const char *name, const char *value)
{
    ngx_table_elt_t *field = value == NULL ? NULL : ngx_list_push(&r->headers_out.headers);
    if (field != NULL) {
        *field = (ngx_table_elt_t) {
            .hash = 1, .key = {strlen(name), (u_char *) name}, .value = {strlen(value), (u_char *) value}};
    }
    return field;
}

/* Three strings in one, with a zero byte behind it. */
static ngx_str_t flash_text(ngx_http_request_t *r, ngx_str_t *a, const char *b, ngx_str_t *c)
{
    ngx_str_t text = {0, ngx_pnalloc(r->pool, a->len + strlen(b) + c->len + 1)};
    if (text.data != NULL) {
        text.len = ngx_sprintf(text.data, "%V%s%V%Z", a, b, c) - text.data - 1;
    }
    return text;
}

static ngx_int_t flash_send_file(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_buf_t *b = ngx_calloc_buf(r->pool);
    r->root_tested = !r->error_page;
    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = ctx->f.stamp.size;
    r->headers_out.last_modified_time = ctx->f.stamp.modified_ns / 1000000000;
    r->allow_ranges = 1;
    if (b == NULL || ngx_http_set_etag(r) != NGX_OK || ngx_http_set_content_type(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ctx->is_sending = 1;
    ngx_int_t rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only || (ctx->f.stamp.size == 0 && r != r->main)) {
        return rc;
    }
    ctx->file.fd = ctx->f.fd;
    b->file = &ctx->file;
    b->file_last = ctx->f.stamp.size;
    b->in_file = b->file_last > 0;
    b->last_buf = r == r->main;
    b->last_in_chain = 1;
    return ngx_http_output_filter(r, &(ngx_chain_t) {b, NULL});
}

/* Answers with what a path has led to: the kind of an answer. */
ngx_int_t flash_lead_to(flash_ctx_t *ctx, int kind)
{
    ngx_http_request_t *r = ctx->request;
    ngx_http_core_loc_conf_t *clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    ngx_str_t uri;
    ngx_uint_t is_folder = r->uri.data[r->uri.len - 1] == '/';
    ngx_err_t error = kind == FLASH_MISSING ? NGX_ENOENT : NGX_EACCES;
    switch (kind) {
    case FLASH_FILE:
        if (is_folder) {
            /* The index of a folder is a request of its own, as nginx's index makes it. */
            uri = flash_text(r, &r->uri, "", &ctx->conf->index);
            return uri.data == NULL ? NGX_HTTP_INTERNAL_SERVER_ERROR : ngx_http_internal_redirect(r, &uri, &r->args);
        }
        r->gzip_vary = ctx->conf->precompressed;
        r->headers_out.content_encoding = flash_add_field(r, "Content-Encoding", flash_token(&ctx->f));
        return flash_send_file(ctx);
    case FLASH_REDIRECT:
        if (is_folder) {
            return NGX_DECLINED; /* the index is a folder */
        }
        ngx_http_clear_location(r);
        uri.len = r->uri.len + 2 * ngx_escape_uri(NULL, r->uri.data, r->uri.len, NGX_ESCAPE_URI);
        uri.data = ngx_pnalloc(r->pool, uri.len);
        if (uri.data == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
        ngx_escape_uri(uri.data, r->uri.data, r->uri.len, NGX_ESCAPE_URI);
        uri = flash_text(r, &uri, r->args.len ? "/?" : "/", &r->args);
        r->headers_out.location = flash_add_field(r, "Location", (char *) uri.data);
        return r->headers_out.location == NULL ? NGX_HTTP_INTERNAL_SERVER_ERROR : NGX_HTTP_MOVED_PERMANENTLY;
    case FLASH_FOLDER:
    case FLASH_MISSING:
    case FLASH_FORBIDDEN:
        if (is_folder || kind == FLASH_FOLDER) {
            return NGX_DECLINED; /* no such index: nginx's own index and autoindex have their turn */
        }
        if (kind != FLASH_MISSING || clcf->log_not_found) {
            ngx_log_error(NGX_LOG_ERR, r->connection->log, error, "open() \"%V\" failed", &ctx->file.name);
        }
        return kind == FLASH_MISSING ? NGX_HTTP_NOT_FOUND : NGX_HTTP_FORBIDDEN;
    default:
        return kind == FLASH_FAILED && !ctx->conf->blocks
                   ? NGX_HTTP_INTERNAL_SERVER_ERROR
                   : flash_unavailable(ctx, "it is busy, or its device does not answer:");
    }
}

/* The entry of an open file in nginx's cache. NULL: there is none, or nginx would look at the file again. */
static ngx_cached_open_file_t *flash_held(ngx_open_file_cache_t *cache, ngx_str_t *path, time_t valid)
{
    uint32_t hash = ngx_crc32_long(path->data, path->len);
    ngx_rbtree_node_t *node = cache->rbtree.root;
    while (node != &cache->sentinel) {
        ngx_cached_open_file_t *held = (ngx_cached_open_file_t *) node;
        ngx_int_t order = hash != node->key ? (hash < node->key ? -1 : 1) : ngx_strcmp(path->data, held->name);
        if (order == 0) {
            return held->fd != NGX_INVALID_FILE && ngx_time() - held->created < valid ? held : NULL;
        }
        node = order < 0 ? node->left : node->right;
    }
    return NULL;
}

/* Takes a file from nginx's cache of open files. nginx may open it, so only if it is held, or was just found in memory. */
static int flash_open_cached(flash_ctx_t *ctx, ngx_str_t *path)
{
    ngx_http_core_loc_conf_t *clcf = ngx_http_get_module_loc_conf(ctx->request, ngx_http_core_module);
    ngx_open_file_cache_t *cache = clcf->open_file_cache;
    ngx_open_file_info_t of = {.directio = NGX_OPEN_FILE_DIRECTIO_OFF, .valid = clcf->open_file_cache_valid,
                               .min_uses = clcf->open_file_cache_min_uses, .read_ahead = clcf->read_ahead};
    struct flash_file *f = &ctx->f;
    ngx_cached_open_file_t *held = cache == NULL ? NULL : flash_held(cache, path, of.valid);
    int is_found = f->fd != -1;
    if (cache == NULL || (held == NULL && !is_found)) {
        return 0;
    }
    if (!is_found) {
        flash_file_stamp(f, held->size, held->uniq, &(struct timespec) {.tv_sec = held->mtime});
    }
    /* A cold file is asked for by its path. A small one is opened anew once in a moment, so that a change is soon seen. */
    enum flash_memory memory = flash_recall(&f->stamp, 0);
    if (memory == FLASH_NEVER || (memory == FLASH_ONCE && f->stamp.size <= COPIED_MAX)) {
        return 0;
    }
    if (ngx_open_cached_file(cache, path, &of, ctx->request->pool) != NGX_OK || !of.is_file || of.is_directio
        || (is_found && of.uniq != f->stamp.inode)) {
        return 0;
    }
    if (is_found) {
        /* Reads shall not set its time of access. Only its owner may say so; of others' files it is not due for an hour. */
        (void) fcntl(of.fd, F_SETFL, O_NONBLOCK | O_NOATIME);
        close(f->fd);
    }
    f->fd = of.fd;
    f->is_borrowed = 1;
    flash_file_stamp(f, of.size, of.uniq, &(struct timespec) {.tv_sec = of.mtime});
    return 1;
}

ngx_int_t flash_begin(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    struct flash_link *link = &ctx->conf->daemon->link;
    ngx_str_t path;
    size_t root_bytes = 0;
    if (!flash_knows_roots(link)) {
        return flash_ask(ctx, 0, 0, 0, 0);
    }
    u_char *last = ngx_http_map_uri_to_path(r, &path, &root_bytes, ctx->conf->index.len);
    if (last == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (r->uri.data[r->uri.len - 1] == '/') {
        last = ngx_sprintf(last, "%V%Z", &ctx->conf->index) - 1;
    }
    path.len = flash_tidy((char *) path.data, last - path.data);
    ctx->file.name = ctx->memory.name = path;
    const struct flash_known_root *root = flash_file_place(&ctx->f, link, (char *) path.data, path.len);
    if (root == NULL) {
        return ctx->f.path_bytes > FLASH_PATH_BYTES_MAX ? NGX_HTTP_NOT_FOUND : flash_unavailable(ctx, "it has no root that holds");
    }
    ngx_table_elt_t *field = ctx->conf->precompressed && r == r->main ? r->headers_in.accept_encoding : NULL;
    ngx_uint_t accepts = flash_accepts(field == NULL ? NULL : (char *) field->value.data);
    if (accepts == 0 && (root->flags & FLASH_INLINE) && flash_open_cached(ctx, &path)) {
        return flash_lead_to(ctx, FLASH_FILE);
    }
    ngx_http_headers_in_t *in = &r->headers_in;
    ngx_uint_t is_partial = r->header_only || in->range || in->if_modified_since || in->if_none_match;
    int kind = flash_file_open(&ctx->f, root, accepts, !is_partial);
    if (kind == FLASH_FILE && accepts == 0 && !ctx->f.is_access_due) {
        (void) flash_open_cached(ctx, &path);
    }
    uint64_t bytes = is_partial ? 0 : FLASH_WINDOW_BYTES_MAX;
    return kind != 0 ? flash_lead_to(ctx, kind) : flash_ask(ctx, FLASH_FIND, accepts, 0, bytes);
}

static ngx_int_t flash_handler(ngx_http_request_t *r)
{
    ngx_http_core_loc_conf_t *clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    ngx_uint_t follows_links = clcf->disable_symlinks == NGX_DISABLE_SYMLINKS_OFF;
    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)) || !follows_links) {
        return NGX_DECLINED;
    }
    ngx_int_t rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }
    ngx_http_cleanup_t *cleanup = ngx_http_cleanup_add(r, 0);
    ngx_pool_cleanup_t *files = ngx_pool_cleanup_add(r->pool, sizeof(flash_ctx_t));
    if (cleanup == NULL || files == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    flash_ctx_t *ctx = cleanup->data = files->data;
    ngx_memzero(ctx, sizeof(flash_ctx_t));
    cleanup->handler = flash_cleanup;
    files->handler = flash_close_files;
    ctx->request = r;
    ctx->conf = ngx_http_get_module_loc_conf(r, ngx_http_flash_module);
    ctx->f.fd = ctx->f.memory = -1;
    ctx->file.log = ctx->memory.log = r->connection->log;
    ngx_http_set_ctx(r, ctx, ngx_http_flash_module);
    return flash_begin(ctx);
}

/* Whether what was handed on waits for the client. For what those filters hold, no event comes. */
static int flash_waits_for_client(ngx_http_request_t *r)
{
    return (r->buffered & ~FLASH_BUFFERED) || r->postponed
           || ((r == r->main || r == r->connection->data) && (r->connection->buffered & ~FILTERS_BUFFERED));
}

/* Makes `b` a copy of so much of the file. Returns the bytes, or 0: not all of it is in memory, or there is no room for a copy. */
static uint64_t flash_copy(flash_ctx_t *ctx, ngx_buf_t *b, uint64_t start, uint64_t bytes)
{
    ngx_buf_t *last = ctx->copied;
    int is_sent = last != NULL && last->pos == last->last;
    uint64_t room = ngx_min(ctx->f.stamp.size, FLASH_PIECE_BYTES);
    u_char *copy = is_sent ? last->start : ngx_palloc(ctx->request->pool, room);
    if (copy == NULL || !flash_file_read(&ctx->f, copy, bytes, start)) {
        return 0;
    }
    if (ctx->f.is_borrowed) {
        flash_mark_used(ctx->f.fd, start);
    }
    b->in_file = 0;
    b->temporary = 1;
    b->start = b->pos = copy;
    b->end = b->last = copy + bytes;
    ctx->copied = b;
    return bytes;
}

/*
 * Whether so many bytes leave as a copy, in one call with the header. tcp_nopush joins them too, so `sendfile` is as good from a
 * page on. That is for what was in memory a moment ago. For anything else a look would cost more than the copy. If filters want
 * bytes in memory, as those of TLS and gzip do, nginx would read the file itself, and might wait.
 */
static int flash_is_copied(flash_ctx_t *ctx, uint64_t bytes)
{
    ngx_http_core_loc_conf_t *clcf = ngx_http_get_module_loc_conf(ctx->request, ngx_http_core_module);
    ngx_http_request_t *r = ctx->request;
    int is_sendfile = clcf->sendfile && !r->main_filter_need_in_memory && !r->filter_need_in_memory;
    uint64_t cheap_max = !is_sendfile ? COPIED_MAX : clcf->tcp_nopush ? ngx_pagesize : CHEAP_MAX;
    return bytes == ctx->f.stamp.size && bytes <= COPIED_MAX
           && (bytes <= cheap_max || flash_recall(&ctx->f.stamp, 0) != FLASH_LATELY);
}

/* Makes `b` the next window of what is to be sent. NGX_DONE if the daemon has to read it first. */
static ngx_int_t flash_window(flash_ctx_t *ctx, ngx_buf_t *b)
{
    ngx_buf_t *rest = ctx->in->buf;
    struct flash_file *f = &ctx->f;
    uint64_t start = rest->file_pos, bytes = rest->file_last - start, ready = 0;
    *b = *rest;
    if (!rest->in_file || rest->file != &ctx->file) {
        ctx->in = ctx->in->next; /* the boundaries of several ranges */
        return NGX_OK;
    }
    if (ctx->must_block) {
        ready = bytes;
    } else if (flash_is_copied(ctx, bytes)) {
        ready = flash_copy(ctx, b, start, bytes);
    } else if ((ready = flash_file_fresh(f, start)) > 0) {
        ready = flash_copy(ctx, b, start, ngx_min(bytes, ready));
    } else {
        ready = flash_file_ready(f, start, bytes);
        if (f->memory != -1 && flash_file_is_loaded(f, start)) {
            ctx->memory.fd = f->memory;
            b->file = &ctx->memory;
            b->file_pos = start - f->loaded_start;
        }
        b->file_last = b->file_pos + ready;
    }
    if (ready == 0) {
        ngx_int_t rc = flash_ask(ctx, FLASH_LOAD, 0, start, bytes);
        return rc == NGX_DECLINED ? flash_window(ctx, b) : rc;
    }
    rest->file_pos += ready;
    if (ready == bytes) {
        ctx->in = ctx->in->next;
    } else {
        b->last_buf = b->last_in_chain = 0;
    }
    b->flush |= ctx->in != NULL; /* what postpone_output held back would lose its window */
    return NGX_OK;
}

/*
 * Hands a window on, and notes what of it left at once. Of a small file that is not noted, so that it is opened anew once in a
 * moment.
 */
static ngx_int_t flash_pass(flash_ctx_t *ctx, ngx_chain_t *out)
{
    uint64_t start = out->buf->file_pos, began = flash_now();
    ngx_int_t rc = flash_next_body_filter(ctx->request, out);
    if (out->buf->in_file && out->buf->file == &ctx->file && ctx->f.stamp.size > COPIED_MAX) {
        flash_file_note_sent(&ctx->f, start, out->buf->file_pos, began);
    }
    return rc;
}

static ngx_int_t flash_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    flash_ctx_t *ctx = ngx_http_get_module_ctx(r, ngx_http_flash_module);
    ngx_int_t rc = NGX_OK;
    if (ctx == NULL || !ctx->is_sending) {
        return flash_next_body_filter(r, in);
    }
    if (ctx->is_failed || (in != NULL && ngx_chain_add_copy(r->pool, &ctx->in, in) != NGX_OK)) {
        return NGX_ERROR;
    }
    if (in == NULL && (ctx->in == NULL || flash_waits_for_client(r))) {
        rc = flash_next_body_filter(r, NULL);
    }
    while (ctx->in != NULL && !ctx->is_pending && rc != NGX_ERROR && !flash_waits_for_client(r)) {
        ngx_chain_t out = {ngx_calloc_buf(r->pool), NULL};
        rc = out.buf == NULL ? NGX_ERROR : flash_window(ctx, out.buf);
        if (rc == NGX_OK) {
            rc = flash_pass(ctx, &out);
        }
    }
    r->buffered &= ~FLASH_BUFFERED;
    if (ctx->in != NULL && rc != NGX_ERROR) {
        r->buffered |= FLASH_BUFFERED;
        return NGX_AGAIN;
    }
    return rc;
}

/* ---- Configuration ---- */

static void *flash_create_loc_conf(ngx_conf_t *cf)
{
    flash_conf_t *conf = ngx_pcalloc(cf->pool, sizeof(flash_conf_t));
    if (conf != NULL) {
        conf->daemon = NGX_CONF_UNSET_PTR;
        conf->deadline = NGX_CONF_UNSET_MSEC;
        conf->blocks = NGX_CONF_UNSET_UINT;
        conf->precompressed = NGX_CONF_UNSET;
    }
    return conf;
}

static char *flash_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    flash_conf_t *conf = child, *above = parent;
    ngx_http_core_loc_conf_t *clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    ngx_conf_merge_ptr_value(conf->daemon, above->daemon, NULL);
    ngx_conf_merge_msec_value(conf->deadline, above->deadline, 10000);
    ngx_conf_merge_uint_value(conf->blocks, above->blocks, 0);
    ngx_conf_merge_value(conf->precompressed, above->precompressed, 0);
    ngx_conf_merge_str_value(conf->index, above->index, "index.html");
    /* A block of `if` has the handler of its location, and one of `limit_except` none but its own. */
    ngx_uint_t is_own = !clcf->noname || (clcf->lmt_excpt && above->is_handler);
    if (conf->daemon != NULL && clcf->handler == NULL && is_own) {
        clcf->handler = flash_handler;
        conf->is_handler = 1;
    }
    return NGX_CONF_OK;
}

static char *flash_set_daemon(ngx_conf_t *cf, ngx_command_t *command, void *data)
{
    flash_conf_t *conf = data;
    char *place = (char *) ((ngx_str_t *) cf->args->elts)[1].data;
    int is_off = strcmp(place, "off") == 0;
    if (conf->daemon != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }
    if (!is_off && strncmp(place, "unix:/", 6) != 0) {
        return "needs unix:PATH, where flash helper listens, or off";
    }
    conf->daemon = is_off ? NULL : ngx_pcalloc(cf->pool, sizeof(flash_daemon_t));
    if (conf->daemon != NULL) {
        flash_is_used = 1;
        /* A worker connects at its first request. */
        conf->daemon->socket = place + 5;
        conf->daemon->link.s = -1;
        ngx_queue_init(&conf->daemon->pending);
    }
    return is_off || conf->daemon != NULL ? NGX_CONF_OK : NGX_CONF_ERROR;
}

static ngx_int_t flash_init_filter(ngx_conf_t *cf)
{
    (void) flash_share_seen();
    flash_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = flash_body_filter;
    return NGX_OK;
}

/* ---- The worker's own program ---- */

/*
 * Where memory is short, the kernel evicts parts of the program, and the worker would wait for the disk when it needs them again.
 * What it has once used of its code and constants stays in memory, as far as the limit of locked memory goes.
 */
static ngx_int_t flash_init_worker(ngx_cycle_t *cycle)
{
    FILE *maps = flash_is_used ? fopen("/proc/self/maps", "r") : NULL;
    char line[NGX_MAX_PATH], rights[5];
    unsigned long start, end, inode;
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        int is_file = sscanf(line, "%lx-%lx %4s %*s %*s %lu", &start, &end, rights, &inode) == 4 && inode != 0;
        if (is_file && rights[0] == 'r' && rights[1] == '-' && mlock2((void *) start, end - start, MLOCK_ONFAULT) == -1) {
            ngx_log_error(NGX_LOG_NOTICE, cycle->log, ngx_errno, "flash helper: the worker may wait for parts of its program");
            break;
        }
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return NGX_OK;
}

static ngx_conf_enum_t flash_fallbacks[] = {{ngx_string("503"), 0}, {ngx_string("block"), 1}, {ngx_null_string, 0}};

#define FLASH_DIRECTIVE(name, set, field, post)                                                                              \
    {ngx_string(name), NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF | NGX_CONF_TAKE1, set,                      \
     NGX_HTTP_LOC_CONF_OFFSET, offsetof(flash_conf_t, field), post}

static ngx_command_t flash_commands[] = {
    FLASH_DIRECTIVE("flash_static", flash_set_daemon, daemon, NULL),
    FLASH_DIRECTIVE("flash_deadline", ngx_conf_set_msec_slot, deadline, NULL),
    FLASH_DIRECTIVE("flash_fallback", ngx_conf_set_enum_slot, blocks, flash_fallbacks),
    FLASH_DIRECTIVE("flash_index", ngx_conf_set_str_slot, index, NULL),
    FLASH_DIRECTIVE("flash_precompressed", ngx_conf_set_flag_slot, precompressed, NULL),
    ngx_null_command,
};

static ngx_http_module_t flash_module_ctx = {
    NULL, flash_init_filter, NULL, NULL, NULL, NULL, flash_create_loc_conf, flash_merge_loc_conf,
};

ngx_module_t ngx_http_flash_module = {
    NGX_MODULE_V1, &flash_module_ctx, flash_commands, NGX_HTTP_MODULE, NULL, NULL, flash_init_worker,
    NULL, NULL, NULL, NULL, NGX_MODULE_V1_PADDING,
};
