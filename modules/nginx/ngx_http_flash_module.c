/*
 * flash_static: `flash helper` finds, opens and reads files, so that the worker never waits for a disk.
 *
 * A request first tries names and pages that are in memory (RESOLVE_CACHED, cachestat). If that is not enough, the worker asks
 * the daemon, goes on with other requests, and gets the answer as an event. A file is sent in windows, each of which is in
 * memory before it is sent. Headers, conditions, ranges and logs are nginx's own.
 */
#include "ngx_http_flash.h"

static void flash_cleanup(void *data)
{
    flash_ctx_t *ctx = data;
    flash_forget(ctx);
    if (ctx->file.fd != NGX_INVALID_FILE) {
        close(ctx->file.fd);
    }
    if (ctx->memory != NULL) {
        close(ctx->memory->fd);
    }
    ctx->file.fd = NGX_INVALID_FILE;
    ctx->memory = NULL;
}

/* What a path leads to, if it is no file. */
static ngx_int_t flash_status(flash_ctx_t *ctx, int kind)
{
    switch (kind) {
    case FLASH_MISSING:
        return NGX_HTTP_NOT_FOUND;
    case FLASH_FORBIDDEN:
        return NGX_HTTP_FORBIDDEN;
    case FLASH_BUSY:
    case FLASH_TIMED_OUT:
    case FLASH_DOWN:
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}

/* Nobody can help now. */
ngx_int_t flash_unavailable(flash_ctx_t *ctx, const char *why)
{
    ngx_log_error(NGX_LOG_ERR, ctx->request->connection->log, 0, "flash helper: %s \"%V\"", why, &ctx->path);
    if (ctx->conf->blocks && ctx->is_sending && !ctx->is_remote) {
        ctx->must_block = 1;
        return FLASH_BLOCKS;
    }
    if (ctx->is_sending) {
        return NGX_ERROR;
    }
    return ctx->conf->blocks ? NGX_DECLINED : NGX_HTTP_SERVICE_UNAVAILABLE;
}

/* ---- Finding ---- */

static ngx_int_t flash_redirect(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    size_t bytes = r->uri.len + 1 + (r->args.len ? r->args.len + 1 : 0);
    ngx_http_clear_location(r);
    r->headers_out.location = ngx_list_push(&r->headers_out.headers);
    u_char *place = ngx_pnalloc(r->pool, bytes), *last;
    if (r->headers_out.location == NULL || place == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    last = ngx_cpymem(place, r->uri.data, r->uri.len);
    *last++ = '/';
    if (r->args.len) {
        *last++ = '?';
        ngx_memcpy(last, r->args.data, r->args.len);
    }
    r->headers_out.location->hash = 1;
    ngx_str_set(&r->headers_out.location->key, "Location");
    r->headers_out.location->value.len = bytes;
    r->headers_out.location->value.data = place;
    return NGX_HTTP_MOVED_PERMANENTLY;
}

/* The index of a folder is a request of its own, as nginx's index makes it. */
static ngx_int_t flash_to_index(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_str_t uri = {r->uri.len + ctx->conf->index.len, ngx_pnalloc(r->pool, r->uri.len + ctx->conf->index.len)};
    if (uri.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ngx_memcpy(ngx_cpymem(uri.data, r->uri.data, r->uri.len), ctx->conf->index.data, ctx->conf->index.len);
    ngx_uint_t is_suspended = ctx->is_suspended;
    (void) ngx_http_internal_redirect(r, &uri, &r->args);
    if (is_suspended) {
        ngx_http_finalize_request(r, NGX_DONE);
    }
    return NGX_DONE;
}

static ngx_int_t flash_missing(flash_ctx_t *ctx, ngx_int_t status, ngx_err_t error)
{
    ngx_http_request_t *r = ctx->request;
    ngx_http_core_loc_conf_t *clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    if (r->uri.data[r->uri.len - 1] == '/') {
        /* No such index: nginx's own index and autoindex have their turn. */
        return NGX_DECLINED;
    }
    if (status != NGX_HTTP_NOT_FOUND || clcf->log_not_found) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, error, "open() \"%V\" failed", &ctx->path);
    }
    return status;
}

static ngx_int_t flash_found(flash_ctx_t *ctx)
{
    if (ctx->request->uri.data[ctx->request->uri.len - 1] == '/') {
        return flash_to_index(ctx);
    }
    return flash_send_file(ctx);
}

static ngx_uint_t flash_accepts(ngx_http_request_t *r, ngx_uint_t bits)
{
    ngx_uint_t accepted = 0;
    ngx_table_elt_t *field = r->headers_in.accept_encoding;
    if (bits == 0 || field == NULL || r != r->main) {
        return 0;
    }
    for (ngx_uint_t i = 0; i < FLASH_CODINGS; i++) {
        ngx_str_t token = flash_codings[i].token;
        u_char *at = ngx_strcasestrn(field->value.data, (char *) token.data, token.len - 1);
        if (!(bits & flash_codings[i].bit) || at == NULL) {
            continue;
        }
        u_char *rest = at + token.len;
        while (*rest == ' ' || *rest == ';') {
            rest++;
        }
        if (rest[0] == 'q' && rest[1] == '=' && rest[2] == '0' && (rest[3] != '.' || ngx_atoi(rest + 4, 1) == 0)) {
            continue;
        }
        accepted |= flash_codings[i].bit;
    }
    return accepted;
}

/*
 * Opens a compressed copy, if it is a regular file that is no older than the file it was made of. -1 with EAGAIN means: ask.
 */
static int flash_open_coded(root_t *root, flash_ctx_t *ctx, const ngx_str_t *suffix, int *access_times, struct stat *stat)
{
    struct stat whole;
    u_char *end = ctx->path.data + ctx->path.len;
    const char *path = (char *) ctx->path.data + 1;
    int access_ignored = 0;
    *ngx_cpymem(end, suffix->data, suffix->len) = '\0';
    int file = flash_open(root->folder, path, access_times, stat);
    *end = '\0';
    if (file == -1) {
        return -1;
    }
    int identity = flash_open(root->folder, path, &access_ignored, &whole);
    int error = identity == -1 ? errno : ENOENT;
    int is_fresh = identity != -1 && S_ISREG(stat->st_mode) && S_ISREG(whole.st_mode)
                   && !flash_is_later(&whole.st_mtim, &stat->st_mtim);
    if (identity != -1) {
        close(identity);
    }
    if (!is_fresh) {
        close(file);
        errno = error;
        return -1;
    }
    return file;
}

/* Tries what is in memory. NGX_AGAIN if the daemon has to be asked. */
static ngx_int_t flash_inline(flash_ctx_t *ctx, root_t *root, ngx_uint_t accepts)
{
    struct stat stat;
    int file = -1, access_times = 0;
    for (ngx_uint_t i = 0; i <= FLASH_CODINGS && file == -1; i++) {
        if (i < FLASH_CODINGS && !(accepts & flash_codings[i].bit)) {
            continue;
        }
        access_times = (root->flags & FLASH_ACCESS_TIMES) != 0;
        file = i < FLASH_CODINGS
                   ? flash_open_coded(root, ctx, &flash_codings[i].suffix, &access_times, &stat)
                   : flash_open(root->folder, (char *) ctx->path.data + 1, &access_times, &stat);
        if (file != -1) {
            ctx->coding = i < FLASH_CODINGS ? flash_codings[i].coding : FLASH_IDENTITY;
        } else if (errno == EAGAIN) {
            return NGX_AGAIN;
        }
    }
    if (file == -1) {
        return flash_missing(ctx, errno == EACCES ? NGX_HTTP_FORBIDDEN : NGX_HTTP_NOT_FOUND, errno);
    }
    ctx->file.fd = file;
    if (S_ISDIR(stat.st_mode)) {
        return flash_redirect(ctx);
    }
    if (!S_ISREG(stat.st_mode)) {
        return flash_missing(ctx, NGX_HTTP_NOT_FOUND, 0);
    }
    ctx->is_access_due = access_times;
    ctx->stamp.size = stat.st_size;
    ctx->stamp.inode = stat.st_ino;
    ctx->stamp.device = stat.st_dev;
    ctx->stamp.modified_ns = (int64_t) stat.st_mtim.tv_sec * 1000000000 + stat.st_mtim.tv_nsec;
    return flash_found(ctx);
}

ngx_int_t flash_begin(flash_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    flash_daemon_t *d = ctx->conf->daemon;
    ngx_str_t full = {0, NULL};
    size_t root_bytes = 0, best = 0;
    root_t *root = NULL;
    if (ctx->lost >= LOST_MAX || flash_reach(d, r->connection->log) != NGX_OK) {
        return flash_unavailable(ctx, "it is gone: cannot find");
    }
    if (d->roots_count == 0 || d->roots_told < d->roots_count) {
        return flash_wait_for_roots(ctx);
    }
    u_char *last = ngx_http_map_uri_to_path(r, &full, &root_bytes, ctx->conf->index.len + sizeof(".zst"));
    if (last == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (r->uri.data[r->uri.len - 1] == '/') {
        last = ngx_cpymem(last, ctx->conf->index.data, ctx->conf->index.len);
        *last = '\0';
    }
    full.len = last - full.data;
    for (ngx_uint_t i = 0; i < d->roots_count; i++) {
        root_t *known = &d->roots[i];
        if (known->folder != -1 && known->path.len >= best && full.len > known->path.len
            && ngx_memcmp(full.data, known->path.data, known->path.len) == 0 && full.data[known->path.len] == '/') {
            root = known;
            ctx->root = i;
            best = known->path.len;
        }
    }
    ctx->path = full;
    if (root == NULL || full.len - best > FLASH_PATH_BYTES_MAX) {
        return flash_unavailable(ctx, root == NULL ? "it has no root that holds" : "too long a path");
    }
    ctx->path.data += best;
    ctx->path.len -= best;
    /* nginx logs it if the file is cut short while it is sent. */
    ctx->file.name = ctx->path;
    ngx_uint_t accepts = flash_accepts(r, ctx->conf->accepts);
    if (root->flags & FLASH_INLINE) {
        ngx_int_t rc = flash_inline(ctx, root, accepts);
        if (rc != NGX_AGAIN || ctx->is_sending) {
            return rc;
        }
    }
    return flash_ask(ctx, FLASH_FIND, accepts, 0, FLASH_WINDOW_BYTES_MAX);
}

/* The answer to a find. */
ngx_int_t flash_take_file(flash_ctx_t *ctx, const struct flash_answer *answer, int file)
{
    switch (answer->kind) {
    case FLASH_FILE:
        break;
    case FLASH_REDIRECT:
        return flash_redirect(ctx);
    case FLASH_FOLDER:
        return NGX_DECLINED;
    case FLASH_MISSING:
    case FLASH_FORBIDDEN:
        return flash_missing(ctx, flash_status(ctx, answer->kind), answer->kind == FLASH_MISSING ? NGX_ENOENT : NGX_EACCES);
    case FLASH_REFUSED:
        return flash_missing(ctx, NGX_HTTP_NOT_FOUND, 0);
    default:
        if (ctx->conf->blocks || answer->kind != FLASH_FAILED) {
            return flash_unavailable(ctx, "it is busy, or its device does not answer:");
        }
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ctx->stamp = answer->stamp;
    ctx->coding = answer->coding;
    ctx->is_remote = (answer->flags & FLASH_REMOTE) != 0;
    ctx->is_memory = (answer->flags & FLASH_MEMORY) != 0;
    ctx->file.fd = file;
    ctx->loaded_end = answer->window_start + answer->window_bytes;
    ctx->is_loaded = answer->window_start == 0 && answer->window_bytes > 0;
    if (file == -1 && answer->stamp.size > 0 && !ctx->is_remote) {
        return flash_unavailable(ctx, "there is no room for the descriptor of");
    }
    return flash_found(ctx);
}

static ngx_int_t flash_handler(ngx_http_request_t *r)
{
    loc_conf_t *conf = ngx_http_get_module_loc_conf(r, ngx_http_flash_module);
    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD))) {
        return NGX_DECLINED;
    }
    ngx_int_t rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }
    flash_ctx_t *ctx = ngx_pcalloc(r->pool, sizeof(flash_ctx_t));
    ngx_http_cleanup_t *cleanup = ngx_http_cleanup_add(r, 0);
    if (ctx == NULL || cleanup == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    cleanup->handler = flash_cleanup;
    cleanup->data = ctx;
    ctx->request = r;
    ctx->conf = conf;
    ctx->file.fd = NGX_INVALID_FILE;
    ctx->file.log = r->connection->log;
    ngx_http_set_ctx(r, ctx, ngx_http_flash_module);
    return flash_begin(ctx);
}

/* ---- Configuration ---- */

static void *flash_create_main_conf(ngx_conf_t *cf)
{
    main_conf_t *conf = ngx_pcalloc(cf->pool, sizeof(main_conf_t));
    if (conf == NULL || ngx_array_init(&conf->daemons, cf->pool, 1, sizeof(flash_daemon_t *)) != NGX_OK) {
        return NULL;
    }
    return conf;
}

static void *flash_create_loc_conf(ngx_conf_t *cf)
{
    loc_conf_t *conf = ngx_pcalloc(cf->pool, sizeof(loc_conf_t));
    if (conf != NULL) {
        conf->daemon = NGX_CONF_UNSET_PTR;
    }
    return conf;
}

static char *flash_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    loc_conf_t *conf = child, *above = parent;
    ngx_http_core_loc_conf_t *clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    if (conf->daemon == NGX_CONF_UNSET_PTR) {
        *conf = *above;
    }
    if (conf->daemon == NGX_CONF_UNSET_PTR) {
        conf->daemon = NULL;
    }
    if (conf->daemon != NULL && clcf->handler == NULL) {
        clcf->handler = flash_handler;
    }
    return NGX_CONF_OK;
}

/* flash_static unix:PATH [deadline=10s] [fallback=503|block] [index=index.html] [precompressed]; flash_static off; */
static char *flash_static(ngx_conf_t *cf, ngx_command_t *command, void *data)
{
    loc_conf_t *conf = data;
    main_conf_t *main = ngx_http_conf_get_module_main_conf(cf, ngx_http_flash_module);
    ngx_str_t *words = cf->args->elts, place = words[1];
    if (conf->daemon != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }
    conf->daemon = NULL;
    if (ngx_strcmp(place.data, "off") == 0) {
        return cf->args->nelts == 2 ? NGX_CONF_OK : "takes nothing after off";
    }
    if (ngx_strncmp(place.data, "unix:/", 6) != 0) {
        return "needs unix:PATH, where flash helper listens, or off";
    }
    place.data += 5;
    place.len -= 5;
    if (place.len >= sizeof(((struct sockaddr_un *) NULL)->sun_path)) {
        return "has too long a path";
    }
    conf->deadline = 10000;
    ngx_str_set(&conf->index, "index.html");
    for (ngx_uint_t i = 2; i < cf->args->nelts; i++) {
        ngx_str_t word = words[i], value;
        u_char *equals = ngx_strlchr(word.data, word.data + word.len, '=');
        value.data = equals == NULL ? word.data + word.len : equals + 1;
        value.len = word.data + word.len - value.data;
        if (ngx_strcmp(word.data, "precompressed") == 0) {
            conf->accepts = FLASH_ACCEPT_GZIP | FLASH_ACCEPT_BROTLI | FLASH_ACCEPT_ZSTD;
        } else if (ngx_strcmp(word.data, "fallback=block") == 0) {
            conf->blocks = 1;
        } else if (ngx_strcmp(word.data, "fallback=503") == 0) {
            conf->blocks = 0;
        } else if (ngx_strncmp(word.data, "index=", 6) == 0 && value.len > 0
                   && ngx_strlchr(value.data, value.data + value.len, '/') == NULL) {
            conf->index = value;
        } else if (ngx_strncmp(word.data, "deadline=", 9) == 0) {
            ngx_int_t ms = ngx_parse_time(&value, 0);
            if (ms == NGX_ERROR || ms == 0) {
                return "needs a time, as in deadline=10s";
            }
            conf->deadline = ms;
        } else {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "flash_static does not know \"%V\"", &word);
            return NGX_CONF_ERROR;
        }
    }
    flash_daemon_t **known = main->daemons.elts;
    for (ngx_uint_t i = 0; i < main->daemons.nelts; i++) {
        if (ngx_strcmp(known[i]->socket.data, place.data) == 0) {
            conf->daemon = known[i];
            return NGX_CONF_OK;
        }
    }
    flash_daemon_t **slot = ngx_array_push(&main->daemons);
    conf->daemon = ngx_pcalloc(cf->pool, sizeof(flash_daemon_t));
    if (slot == NULL || conf->daemon == NULL) {
        return NGX_CONF_ERROR;
    }
    *slot = conf->daemon;
    conf->daemon->socket = place;
    return NGX_CONF_OK;
}

static ngx_int_t flash_init_process(ngx_cycle_t *cycle)
{
    main_conf_t *main = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_flash_module);
    for (ngx_uint_t i = 0; main != NULL && i < main->daemons.nelts; i++) {
        flash_init_daemon(((flash_daemon_t **) main->daemons.elts)[i], cycle->log);
    }
    return NGX_OK;
}

static ngx_command_t flash_commands[] = {
    {ngx_string("flash_static"), NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF | NGX_CONF_1MORE,
     flash_static, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    ngx_null_command,
};

static ngx_http_module_t flash_module_ctx = {
    NULL, NULL, flash_create_main_conf, NULL, NULL, NULL, flash_create_loc_conf, flash_merge_loc_conf,
};

ngx_module_t ngx_http_flash_module = {
    NGX_MODULE_V1, &flash_module_ctx, flash_commands, NGX_HTTP_MODULE, NULL, NULL, flash_init_process,
    NULL, NULL, NULL, NULL, NGX_MODULE_V1_PADDING,
};
