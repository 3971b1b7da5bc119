/*
 * mod_flash: `flash helper` finds, opens and reads files, so that a worker waits for a disk at most until a deadline, and few
 * workers at a time.
 *
 * A worker first tries names and pages that are in memory (RESOLVE_CACHED, cachestat). If that is not enough, it asks the
 * daemon and waits. A file becomes a bucket that reads windows in the same way. Headers, conditions, ranges, filters and logs are
 * Apache's own.
 */
#include "mod_flash.h"

#define HANDLER "flash"
#define COLD_MAX 32767 /* what a semaphore can count */
#define NO_ROOT -1

/* ---- Requests ---- */

static const flash_conf_t *flash_conf_of(request_rec *r)
{
    const flash_conf_t *conf = ap_get_module_config(r->per_dir_config, &flash_module);
    return conf->socket != NULL && *conf->socket != '\0' ? conf : NULL;
}

/*
 * What the walk learns of the disk is said before it: that there is a file. With FollowSymLinks and without .htaccess, the walk
 * then only merges <Directory> sections, which takes no system call.
 */
static int flash_map_to_storage(request_rec *r)
{
    if (flash_conf_of(r) != NULL && !r->proxyreq && r->filename != NULL && r->filename[0] == '/'
        && r->finfo.filetype == APR_NOFILE) {
        r->finfo.filetype = APR_REG;
        r->finfo.valid = APR_FINFO_TYPE;
        char *path = apr_pstrdup(r->pool, r->filename);
        ap_no2slash(path);
        apr_table_setn(r->notes, HANDLER, path);
    }
    return DECLINED;
}

/* A request that no other handler wants. */
static int flash_fixups(request_rec *r)
{
    if (r->handler == NULL && apr_table_get(r->notes, HANDLER) != NULL && flash_conf_of(r) != NULL) {
        r->handler = HANDLER;
    }
    return DECLINED;
}

static int flash_log_missing(request_rec *r, int status, const char *why)
{
    ap_log_rerror(APLOG_MARK, APLOG_INFO, 0, r, "flash helper: %s: %s", why, r->filename);
    return status;
}

static int flash_redirect(request_rec *r)
{
    const char *uri = apr_pstrcat(r->pool, ap_escape_uri(r->pool, r->uri), "/", r->args ? "?" : "", r->args, NULL);
    apr_table_setn(r->headers_out, "Location", ap_construct_url(r->pool, uri, r));
    return HTTP_MOVED_PERMANENTLY;
}

/* The daemon cannot help: OK if this worker may open the file itself. */
static int flash_unavailable(request_rec *r, flash_body_t *body, int kind)
{
    struct stat stat;
    int may_block = body->conf->blocks == 1;
    ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "flash helper: answer %d for %s", kind, r->filename);
    body->f.fd = may_block ? open(r->filename, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (body->f.fd == -1) {
        apr_table_setn(r->err_headers_out, "Retry-After", "1");
        return may_block && errno == ENOENT ? HTTP_NOT_FOUND : HTTP_SERVICE_UNAVAILABLE;
    }
    if (fstat(body->f.fd, &stat) == -1 || !S_ISREG(stat.st_mode)) {
        return HTTP_NOT_FOUND;
    }
    flash_file_stamp(&body->f, stat.st_size, stat.st_ino, &stat.st_mtim);
    return OK;
}

/* Finds the file here or asks. Returns the kind of the answer, or NO_ROOT. */
static int flash_search(request_rec *r, flash_body_t *body, struct flash_answer *answer)
{
    const char *filename = apr_table_get(r->notes, HANDLER);
    const struct flash_link *link = flash_reach(body->conf, 0);
    const struct flash_known_root *root = link == NULL ? NULL : flash_file_place(&body->f, link, filename, strlen(filename));
    if (root == NULL) {
        return link == NULL ? FLASH_DOWN : body->f.path_bytes > FLASH_PATH_BYTES_MAX ? FLASH_FORBIDDEN : NO_ROOT;
    }
    /* The body outlives the request. */
    body->f.path = memcpy(body->path, body->f.path, body->f.path_bytes + 1);
    /* For a folder, the daemon has the index. */
    apr_table_t *in = r->headers_in;
    int is_partial = r->header_only || apr_table_get(in, "Range") || apr_table_get(in, "If-Modified-Since")
                     || apr_table_get(in, "If-None-Match");
    int kind = body->path[body->f.path_bytes - 1] == '/' ? 0 : flash_file_open(&body->f, root, 0, !is_partial);
    if (kind == 0) {
        int descriptor;
        kind = flash_ask(body->conf, &body->f, FLASH_FIND, 0, is_partial ? 0 : FLASH_WINDOW_BYTES_MAX, answer, &descriptor);
        kind = kind == FLASH_FILE ? flash_file_take(&body->f, answer, descriptor) : kind;
    }
    return kind;
}

static int flash_find(request_rec *r, flash_body_t *body)
{
    struct flash_answer answer = {0};
    int kind = flash_search(r, body, &answer);
    if (kind == FLASH_DOWN && body->f.path != NULL && answer.id == 0) {
        kind = flash_search(r, body, &answer); /* it was lost before it answered, and there may be a successor */
    }
    switch (kind) {
    case NO_ROOT:
        ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "flash helper: it has no root that holds %s", r->filename);
        return HTTP_INTERNAL_SERVER_ERROR;
    case FLASH_FILE:
        if ((answer.flags & FLASH_INDEX) && r->content_type == NULL) {
            ap_set_content_type(r, apr_pstrndup(r->pool, answer.media, answer.media_bytes));
        }
        return OK;
    case FLASH_REDIRECT:
        return flash_redirect(r);
    case FLASH_MISSING:
    case FLASH_REFUSED:
        return flash_log_missing(r, HTTP_NOT_FOUND, "no such file");
    case FLASH_FORBIDDEN:
    case FLASH_FOLDER:
        return flash_log_missing(r, HTTP_FORBIDDEN, "may not be read, or a folder without an index");
    case FLASH_FAILED:
        return HTTP_INTERNAL_SERVER_ERROR;
    default:
        return flash_unavailable(r, body, kind);
    }
}

static int flash_send_file(request_rec *r, flash_body_t *body)
{
    conn_rec *c = r->connection;
    struct flash_stamp *stamp = &body->f.stamp;
    r->finfo.filetype = APR_REG;
    r->finfo.size = stamp->size;
    r->finfo.inode = stamp->inode;
    r->finfo.mtime = stamp->modified_ns / 1000;
    r->finfo.valid = APR_FINFO_TYPE | APR_FINFO_SIZE | APR_FINFO_INODE | APR_FINFO_MTIME;
    ap_update_mtime(r, r->finfo.mtime);
    ap_set_last_modified(r);
    ap_set_etag(r);
    ap_set_accept_ranges(r);
    ap_set_content_length(r, stamp->size);
    apr_bucket_brigade *bb = apr_brigade_create(r->pool, c->bucket_alloc);
    int status = ap_meets_conditions(r);
    if (status != OK) {
        flash_free(body);
        r->status = status;
    } else if (stamp->size > SMALL_BYTES && flash_file_fresh(&body->f, 0) == 0 && flash_file_is_resident(&body->f)) {
        /* All of it is in memory, so it is sent as Apache's own handler does it. The request's pool outlives the bucket. */
        const core_dir_config *core = ap_get_core_module_config(r->per_dir_config);
        apr_int32_t flags = APR_FOPEN_READ | (core->enable_sendfile == ENABLE_SENDFILE_ON ? APR_FOPEN_SENDFILE_ENABLED : 0);
        apr_file_t *file;
        apr_os_file_put(&file, &body->f.fd, flags, r->pool);
        apr_pool_cleanup_register(r->pool, body, flash_free, apr_pool_cleanup_null);
        apr_bucket *b = apr_brigade_insert_file(bb, file, 0, stamp->size, r->pool);
        apr_bucket_file_enable_mmap(b, core->enable_mmap != ENABLE_MMAP_OFF);
    } else {
        APR_BRIGADE_INSERT_TAIL(bb, flash_bucket_create(body, c->bucket_alloc));
    }
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_eos_create(c->bucket_alloc));
    apr_status_t sent = ap_pass_brigade(r->output_filters, bb);
    if (sent == APR_SUCCESS || c->aborted) {
        return OK;
    }
    /* What is missing must not be taken from the next response. If no header was sent, this becomes 500. */
    c->keepalive = AP_CONN_CLOSE;
    return AP_FILTER_ERROR;
}

static int flash_handler(request_rec *r)
{
    const flash_conf_t *conf = flash_conf_of(r);
    const char *filename = apr_table_get(r->notes, HANDLER);
    /* Of other methods, Apache's own handler says what it allows. */
    if (conf == NULL || filename == NULL || r->handler == NULL || strcmp(r->handler, HANDLER) != 0 || r->method_number != M_GET) {
        return DECLINED;
    }
    int status = ap_discard_request_body(r);
    if (status != OK) {
        return status;
    }
    flash_body_t *body = calloc(1, sizeof(*body) + strlen(filename) + 1);
    if (body == NULL) {
        return HTTP_SERVICE_UNAVAILABLE;
    }
    body->conf = conf;
    body->server = r->server;
    body->f.fd = body->f.memory = -1;
    status = flash_find(r, body);
    if (status != OK) {
        flash_free(body);
        return status;
    }
    return flash_send_file(r, body);
}

/* ---- Configuration ---- */

static void *flash_create(apr_pool_t *pool, char *unused)
{
    flash_conf_t *conf = apr_pcalloc(pool, sizeof(*conf));
    (void) unused;
    conf->blocks = -1;
    return conf;
}

static void *flash_merge(apr_pool_t *pool, void *parent, void *child)
{
    const flash_conf_t *above = parent, *own = child;
    flash_conf_t *conf = apr_pcalloc(pool, sizeof(*conf));
    conf->socket = own->socket != NULL ? own->socket : above->socket;
    conf->deadline = own->deadline ? own->deadline : above->deadline;
    conf->blocks = own->blocks != -1 ? own->blocks : above->blocks;
    conf->cold_max = own->cold_max ? own->cold_max : above->cold_max;
    return conf;
}

static const char *flash_set_helper(cmd_parms *cmd, void *data, const char *word)
{
    flash_conf_t *conf = data;
    const char *wrong = ap_check_cmd_context(cmd, NOT_IN_DIRECTORY | NOT_IN_FILES | NOT_IN_HTACCESS);
    int is_off = strcasecmp(word, "off") == 0;
    if (wrong == NULL && !is_off && strncmp(word, "unix:/", 6) != 0) {
        return "FlashHelper takes unix:PATH, where flash helper listens, or off";
    }
    conf->socket = is_off ? "" : word + 5;
    return wrong;
}

static const char *flash_set_fallback(cmd_parms *cmd, void *data, const char *word)
{
    flash_conf_t *conf = data;
    (void) cmd;
    conf->blocks = strcasecmp(word, "block") == 0;
    return conf->blocks || strcmp(word, "503") == 0 ? NULL : "FlashFallback takes 503 or block";
}

/* Whether a path is a folder, or below it. */
static int flash_covers(const char *folder, const char *path)
{
    size_t length = strlen(folder);
    length -= length > 0 && folder[length - 1] == '/';
    return strncmp(folder, path, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* The section by which .htaccess files would be read where the helper answers; NULL if there is none. */
static const char *flash_htaccess(server_rec *s)
{
    core_server_config *core = ap_get_core_module_config(s->module_config);
    const char *covering = NULL;
    int is_used = 0;
    ap_conf_vector_t **places = (ap_conf_vector_t **) core->sec_url->elts;
    for (int i = -1; i < core->sec_url->nelts; i++) {
        flash_conf_t *conf = ap_get_module_config(i < 0 ? s->lookup_defaults : places[i], &flash_module);
        is_used |= conf != NULL && conf->socket != NULL && *conf->socket != '\0';
    }
    ap_conf_vector_t **sections = (ap_conf_vector_t **) core->sec_dir->elts;
    for (int i = 0; is_used && i < core->sec_dir->nelts; i++) {
        core_dir_config *section = ap_get_core_module_config(sections[i]);
        int overrides = (section->override & ~OR_UNSET) != OR_NONE || section->override_list != NULL;
        if (section->d == NULL || ((section->override & OR_UNSET) && section->override_list == NULL)) {
            continue;
        }
        if (flash_covers(section->d, core->ap_document_root)) {
            covering = overrides ? section->d : NULL;
        } else if (overrides && flash_covers(core->ap_document_root, section->d)) {
            return section->d;
        }
    }
    return covering;
}

static int flash_post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *main)
{
    const flash_conf_t *conf = ap_get_module_config(main->lookup_defaults, &flash_module);
    int processes = 1, threads = 1;
    (void) plog, (void) ptemp;
    for (server_rec *s = main; s != NULL; s = s->next) {
        const char *folder = flash_htaccess(s);
        if (folder != NULL) {
            ap_log_error(APLOG_MARK, APLOG_EMERG, 0, s,
                         "FlashHelper reads no .htaccess files, but AllowOverride of <Directory %s> asks for them: "
                         "write AllowOverride None there",
                         folder);
            return HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG) {
        return OK;
    }
    ap_mpm_query(AP_MPMQ_MAX_DAEMONS, &processes);
    ap_mpm_query(AP_MPMQ_MAX_THREADS, &threads);
    int workers = processes * (threads > 0 ? threads : 1);
    /* A quarter of the workers is always left for hot files. */
    int workers_max = conf->cold_max > 0 ? conf->cold_max : workers > 4 ? workers - workers / 4 : 1;
    if (!flash_init_asking(pconf, workers_max < COLD_MAX ? workers_max : COLD_MAX)) {
        ap_log_error(APLOG_MARK, APLOG_EMERG, errno, main, "mod_flash: cannot make a semaphore");
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    return OK;
}

static const command_rec flash_commands[] = {
    AP_INIT_TAKE1("FlashHelper", flash_set_helper, NULL, RSRC_CONF | ACCESS_CONF, "unix:PATH of flash helper, or off"),
    AP_INIT_TAKE1("FlashDeadline", ap_set_int_slot, (void *) APR_OFFSETOF(flash_conf_t, deadline), RSRC_CONF | ACCESS_CONF,
                  "seconds that a worker waits for an answer"),
    AP_INIT_TAKE1("FlashFallback", flash_set_fallback, NULL, RSRC_CONF | ACCESS_CONF, "503 or block, without the daemon"),
    AP_INIT_TAKE1("FlashColdMax", ap_set_int_slot, (void *) APR_OFFSETOF(flash_conf_t, cold_max), RSRC_CONF,
                  "workers that may wait for cold files at once"),
    {NULL},
};

static void flash_hooks(apr_pool_t *pool)
{
    (void) pool;
    ap_hook_post_config(flash_post_config, NULL, NULL, APR_HOOK_LAST);
    ap_hook_map_to_storage(flash_map_to_storage, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_fixups(flash_fixups, NULL, NULL, APR_HOOK_LAST);
    ap_hook_handler(flash_handler, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA flash_module = {
    STANDARD20_MODULE_STUFF, flash_create, flash_merge, NULL, NULL, flash_commands, flash_hooks, 0,
};
