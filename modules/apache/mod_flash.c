/*
 * mod_flash: `flash helper` finds, opens and reads files, so that a worker waits for a disk at most until a deadline, and few
 * workers at a time.
 *
 * A worker first tries names and pages that are in memory (RESOLVE_CACHED, cachestat). If that is not enough, it asks the daemon
 * and waits. A file becomes a bucket that reads windows in the same way. Headers, conditions, ranges, filters and logs are
 * Apache's own.
 */
#include "mod_flash.h"

#define HANDLER "flash"

/* How many workers may wait at once. 0: not set. */
static int cold_max = 0;

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
        apr_table_setn(r->notes, HANDLER, r->filename);
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
static int flash_unavailable(request_rec *r, flash_file_t *f, int kind)
{
    struct stat stat;
    ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "flash helper: answer %d for %s", kind, r->filename);
    f->file = f->conf->blocks == 1 ? open(r->filename, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (f->file == -1) {
        apr_table_setn(r->err_headers_out, "Retry-After", "1");
        return f->conf->blocks == 1 && errno == ENOENT ? HTTP_NOT_FOUND : HTTP_SERVICE_UNAVAILABLE;
    }
    if (fstat(f->file, &stat) == -1 || !S_ISREG(stat.st_mode)) {
        return HTTP_NOT_FOUND;
    }
    f->stamp.size = stat.st_size;
    f->stamp.inode = stat.st_ino;
    f->stamp.modified_ns = (int64_t) stat.st_mtim.tv_sec * 1000000000 + stat.st_mtim.tv_nsec;
    return OK;
}

static int flash_find(request_rec *r, flash_file_t *f)
{
    struct flash_answer answer = {0};
    struct stat stat;
    flash_root_t *root = NULL;
    const char *filename = apr_table_get(r->notes, HANDLER);
    size_t length = strlen(filename);
    if (!flash_reach(f->conf)) {
        return flash_unavailable(r, f, FLASH_DOWN);
    }
    for (unsigned i = 0; i < asker.roots_count; i++) {
        flash_root_t *known = &asker.roots[i];
        if ((root == NULL || known->path_bytes > root->path_bytes) && length > known->path_bytes
            && memcmp(filename, known->path, known->path_bytes) == 0 && filename[known->path_bytes] == '/') {
            root = known;
            f->root = i;
        }
    }
    if (root == NULL || length - root->path_bytes > FLASH_PATH_BYTES_MAX) {
        ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "flash helper: it has no root that holds %s", filename);
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    f->path_bytes = length - root->path_bytes;
    memcpy(f->path, filename + root->path_bytes, f->path_bytes + 1);
    int is_folder = f->path[f->path_bytes - 1] == '/';
    if ((root->flags & FLASH_INLINE) && !is_folder) {
        f->is_access_due = (root->flags & FLASH_ACCESS_TIMES) != 0;
        f->file = flash_open(root->folder, f->path + 1, &f->is_access_due, &stat);
        if (f->file == -1 && errno != EAGAIN) {
            return flash_log_missing(r, errno == EACCES ? HTTP_FORBIDDEN : HTTP_NOT_FOUND, strerror(errno));
        }
        if (f->file != -1 && S_ISDIR(stat.st_mode)) {
            return flash_redirect(r);
        }
        if (f->file != -1 && !S_ISREG(stat.st_mode)) {
            return flash_log_missing(r, HTTP_FORBIDDEN, "not a file");
        }
    }
    if (f->file != -1) {
        f->stamp.size = stat.st_size;
        f->stamp.inode = stat.st_ino;
        f->stamp.device = stat.st_dev;
        f->stamp.modified_ns = (int64_t) stat.st_mtim.tv_sec * 1000000000 + stat.st_mtim.tv_nsec;
        return OK;
    }
    f->is_access_due = 0;
    struct flash_question question = flash_question(FLASH_FIND, f->root, f->path_bytes, 0);
    question.window_bytes = r->header_only ? 0 : FLASH_WINDOW_BYTES_MAX;
    int kind = flash_ask(f->conf, &question, f->path, -1, &answer, &f->file);
    switch (kind) {
    case FLASH_FILE:
        f->stamp = answer.stamp;
        f->loaded_end = answer.window_bytes;
        f->is_memory = (answer.flags & FLASH_MEMORY) != 0;
        if (f->file == -1 && !(answer.flags & FLASH_REMOTE) && f->stamp.size > 0) {
            return flash_unavailable(r, f, FLASH_BUSY);
        }
        if ((answer.flags & FLASH_INDEX) && r->content_type == NULL) {
            ap_set_content_type(r, apr_pstrndup(r->pool, answer.media, answer.media_bytes));
        }
        return OK;
    case FLASH_REDIRECT:
        return flash_redirect(r);
    case FLASH_MISSING:
        return flash_log_missing(r, HTTP_NOT_FOUND, "no such file");
    case FLASH_FORBIDDEN:
    case FLASH_FOLDER:
        return flash_log_missing(r, HTTP_FORBIDDEN, "may not be read, or a folder without an index");
    case FLASH_REFUSED:
        return flash_log_missing(r, HTTP_NOT_FOUND, "not a path");
    case FLASH_FAILED:
        return HTTP_INTERNAL_SERVER_ERROR;
    default:
        return flash_unavailable(r, f, kind);
    }
}

static int flash_send_file(request_rec *r, flash_file_t *f)
{
    conn_rec *c = r->connection;
    r->finfo.filetype = APR_REG;
    r->finfo.size = f->stamp.size;
    r->finfo.inode = f->stamp.inode;
    r->finfo.device = f->stamp.device;
    r->finfo.mtime = f->stamp.modified_ns / 1000;
    r->finfo.valid = APR_FINFO_TYPE | APR_FINFO_SIZE | APR_FINFO_INODE | APR_FINFO_MTIME;
    ap_update_mtime(r, r->finfo.mtime);
    ap_set_last_modified(r);
    ap_set_etag(r);
    ap_set_accept_ranges(r);
    ap_set_content_length(r, f->stamp.size);
    apr_bucket_brigade *bb = apr_brigade_create(r->pool, c->bucket_alloc);
    int status = ap_meets_conditions(r);
    if (status != OK) {
        flash_free(f);
        r->status = status;
    } else {
        APR_BRIGADE_INSERT_TAIL(bb, flash_bucket_create(f, c->bucket_alloc));
    }
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_eos_create(c->bucket_alloc));
    apr_status_t sent = ap_pass_brigade(r->output_filters, bb);
    if (sent == APR_SUCCESS || r->status != HTTP_OK || c->aborted) {
        return OK;
    }
    return ap_map_http_request_error(sent, HTTP_INTERNAL_SERVER_ERROR);
}

static int flash_handler(request_rec *r)
{
    const flash_conf_t *conf = flash_conf_of(r);
    if (conf == NULL || r->handler == NULL || strcmp(r->handler, HANDLER) != 0) {
        return DECLINED;
    }
    if (r->method_number != M_GET) {
        /* Apache's own handler says what it allows. */
        return DECLINED;
    }
    int status = ap_discard_request_body(r);
    if (status != OK) {
        return status;
    }
    flash_file_t *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return HTTP_SERVICE_UNAVAILABLE;
    }
    f->conf = conf;
    f->server = r->server;
    f->file = -1;
    status = flash_find(r, f);
    if (status != OK) {
        flash_free(f);
        return status;
    }
    return flash_send_file(r, f);
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
    conf->deadline_ms = own->deadline_ms ? own->deadline_ms : above->deadline_ms;
    conf->blocks = own->blocks != -1 ? own->blocks : above->blocks;
    return conf;
}

static const char *flash_set_helper(cmd_parms *cmd, void *data, const char *word)
{
    flash_conf_t *conf = data;
    const char *wrong = ap_check_cmd_context(cmd, NOT_IN_DIRECTORY | NOT_IN_FILES | NOT_IN_HTACCESS);
    if (wrong != NULL) {
        return wrong;
    }
    if (strcasecmp(word, "off") == 0) {
        conf->socket = "";
        return NULL;
    }
    if (strncmp(word, "unix:/", 6) != 0 || strlen(word + 5) >= sizeof(((struct sockaddr_un *) NULL)->sun_path)) {
        return "FlashHelper takes unix:PATH, where flash helper listens, or off";
    }
    conf->socket = word + 5;
    return NULL;
}

static const char *flash_set_deadline(cmd_parms *cmd, void *data, const char *word)
{
    flash_conf_t *conf = data;
    apr_interval_time_t time;
    (void) cmd;
    if (ap_timeout_parameter_parse(word, &time, "s") != APR_SUCCESS || time < 1000 || time > 3600 * APR_USEC_PER_SEC) {
        return "FlashDeadline takes a time of at most an hour, such as 10 or 500ms";
    }
    conf->deadline_ms = time / 1000;
    return NULL;
}

static const char *flash_set_fallback(cmd_parms *cmd, void *data, const char *word)
{
    flash_conf_t *conf = data;
    (void) cmd;
    conf->blocks = strcasecmp(word, "block") == 0;
    return conf->blocks || strcmp(word, "503") == 0 ? NULL : "FlashFallback takes 503 or block";
}

static const char *flash_set_cold_max(cmd_parms *cmd, void *data, const char *word)
{
    const char *wrong = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    char *end;
    long count = strtol(word, &end, 10);
    (void) data;
    if (wrong != NULL) {
        return wrong;
    }
    if (*end != '\0' || count < 1 || count > 32767) {
        return "FlashColdMax takes a number of workers from 1 to 32767";
    }
    cold_max = (int) count;
    return NULL;
}

/* The part of a path that another path is at or below. */
static int flash_covers(const char *folder, const char *path)
{
    size_t length = strlen(folder);
    while (length > 0 && folder[length - 1] == '/') {
        length--;
    }
    return strncmp(folder, path, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static int flash_has_overrides(const core_dir_config *section)
{
    return (section->override & ~OR_UNSET) != OR_NONE || section->override_list != NULL;
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
        if (section->d == NULL || ((section->override & OR_UNSET) && section->override_list == NULL)) {
            continue;
        }
        if (flash_covers(section->d, core->ap_document_root)) {
            covering = flash_has_overrides(section) ? section->d : NULL;
        } else if (flash_has_overrides(section) && flash_covers(core->ap_document_root, section->d)) {
            return section->d;
        }
    }
    return covering;
}

static int flash_pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    (void) pconf, (void) plog, (void) ptemp;
    cold_max = 0;
    return OK;
}

static int flash_post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *main)
{
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
    int workers_max = cold_max ? cold_max : workers > 4 ? workers - workers / 4 : 1;
    if (!flash_init_cold(pconf, workers_max)) {
        ap_log_error(APLOG_MARK, APLOG_EMERG, errno, main, "mod_flash: cannot make a semaphore");
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    return OK;
}

static const command_rec flash_commands[] = {
    AP_INIT_TAKE1("FlashHelper", flash_set_helper, NULL, RSRC_CONF | ACCESS_CONF, "unix:PATH of flash helper, or off"),
    AP_INIT_TAKE1("FlashDeadline", flash_set_deadline, NULL, RSRC_CONF | ACCESS_CONF, "how long a worker waits for an answer"),
    AP_INIT_TAKE1("FlashFallback", flash_set_fallback, NULL, RSRC_CONF | ACCESS_CONF, "503 or block, without the daemon"),
    AP_INIT_TAKE1("FlashColdMax", flash_set_cold_max, NULL, RSRC_CONF, "workers that may wait for cold files at once"),
    {NULL},
};

static void flash_hooks(apr_pool_t *pool)
{
    (void) pool;
    ap_hook_pre_config(flash_pre_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_config(flash_post_config, NULL, NULL, APR_HOOK_LAST);
    ap_hook_map_to_storage(flash_map_to_storage, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_fixups(flash_fixups, NULL, NULL, APR_HOOK_LAST);
    ap_hook_handler(flash_handler, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA flash_module = {
    STANDARD20_MODULE_STUFF, flash_create, flash_merge, NULL, NULL, flash_commands, flash_hooks, 0,
};
