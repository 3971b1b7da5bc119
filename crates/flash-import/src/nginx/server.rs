//! What holds for the whole server: its user, logs, timeouts, and lines that need nothing in Flash.

use super::content::seconds;
use super::logs;
use crate::directive::Directive;
use crate::flash::{Setting, Settings, Value, set};
use crate::hosts::{self, Block};
use crate::note::Paths;
use crate::scope::Scope;
use crate::tls::Tls;

/// Lines that need nothing: Flash does so by itself, or has no such part.
const NOTHING_TO_SET: &[&str] = &[
    "http",
    "events",
    "server",
    "listen",
    "server_name",
    "types",
    "upstream",
    "map",
    "location",
    "if",
    "charset_types",
    "worker_processes",
    "worker_rlimit_nofile",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_connections",
    "multi_accept",
    "use",
    "accept_mutex",
    "pid",
    "daemon",
    "master_process",
    "pcre_jit",
    "thread_pool",
    "load_module",
    "timer_resolution",
    "lock_file",
    "env",
    "sendfile",
    "sendfile_max_chunk",
    "tcp_nopush",
    "tcp_nodelay",
    "aio",
    "directio",
    "output_buffers",
    "postpone_output",
    "types_hash_max_size",
    "types_hash_bucket_size",
    "variables_hash_max_size",
    "variables_hash_bucket_size",
    "map_hash_max_size",
    "map_hash_bucket_size",
    "server_names_hash_bucket_size",
    "server_names_hash_max_size",
    "server_name_in_redirect",
    "port_in_redirect",
    "absolute_redirect",
    "server_tokens",
    "open_file_cache",
    "open_file_cache_valid",
    "open_file_cache_min_uses",
    "open_file_cache_errors",
    "log_not_found",
    "log_subrequest",
    "reset_timedout_connection",
    "keepalive_requests",
    "keepalive_disable",
    "client_body_buffer_size",
    "client_header_buffer_size",
    "large_client_header_buffers",
    "client_body_temp_path",
    "client_body_in_file_only",
    "client_body_timeout",
    "send_timeout",
    "client_header_timeout",
    "lingering_close",
    "lingering_time",
    "lingering_timeout",
    "gzip",
    "gzip_vary",
    "gzip_proxied",
    "gzip_comp_level",
    "gzip_buffers",
    "gzip_http_version",
    "gzip_min_length",
    "gzip_types",
    "gzip_disable",
    "gzip_static",
    "gunzip",
    "brotli",
    "brotli_comp_level",
    "brotli_types",
    "brotli_static",
    "ssl_protocols",
    "ssl_ciphers",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_session_tickets",
    "ssl_dhparam",
    "ssl_ecdh_curve",
    "ssl_buffer_size",
    "ssl_conf_command",
    "ssl",
    "http2",
    "http2_max_concurrent_streams",
    "http2_push_preload",
    "http3",
    "quic_retry",
    "ssl_early_data",
    "ssl_reject_handshake",
    "resolver",
    "resolver_timeout",
    "merge_slashes",
    "if_modified_since",
    "etag",
    "max_ranges",
    "msie_padding",
    "msie_refresh",
    "recursive_error_pages",
    "underscores_in_headers",
    "ignore_invalid_headers",
    "rewrite_log",
    "uninitialized_variable_warn",
    "break",
    "fastcgi_param",
    "fastcgi_temp_path",
    "proxy_temp_path",
    "proxy_ssl_session_reuse",
    "proxy_ssl_protocols",
    "proxy_temp_file_write_size",
    "uwsgi_temp_path",
    "scgi_temp_path",
    "proxy_http_version",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_buffer_size",
    "proxy_busy_buffers_size",
    "proxy_connect_timeout",
    "proxy_send_timeout",
    "proxy_cache_bypass",
    "proxy_request_buffering",
    "proxy_max_temp_file_size",
    "proxy_ssl_server_name",
    "proxy_next_upstream",
    "proxy_headers_hash_max_size",
    "proxy_headers_hash_bucket_size",
    "uwsgi_param",
    "scgi_param",
    "fastcgi_intercept_errors",
    "fastcgi_next_upstream",
    "connection_pool_size",
    "request_pool_size",
    "autoindex",
    "default_type",
    "index",
    "root",
    "internal",
    "satisfy",
];

/// Whether Flash does by itself what a line asks for.
pub(super) fn needs_nothing(name: &str) -> bool {
    NOTHING_TO_SET.contains(&name)
}

/// What to do about lines that Flash has nothing for.
pub(super) fn advice(name: &str) -> &'static str {
    match name {
        "ssl_stapling" | "ssl_stapling_verify" | "ssl_trusted_certificate" => {
            "Flash staples an answer of OCSP that lies beside the certificate, with .ocsp behind its name"
        }
        "stub_status" => "use flash status, or /metrics at the admin socket",
        "fastcgi_cache"
        | "fastcgi_cache_path"
        | "fastcgi_cache_key"
        | "fastcgi_cache_valid"
        | "fastcgi_cache_bypass"
        | "fastcgi_no_cache"
        | "proxy_cache"
        | "proxy_cache_path"
        | "proxy_cache_valid"
        | "proxy_cache_key" => "Flash keeps no answers of programs: let the program do it",
        "sub_filter" | "sub_filter_once" | "ssi" | "addition_types" | "mirror" => "Flash changes no content",
        "dav_methods" | "dav_access" | "create_full_put_path" => "Flash writes no files",
        "geo" | "split_clients" | "geoip_country" | "set_by_lua_block" => "Flash has no variables",
        "auth_request_set" => "Flash asks no other server",
        "valid_referers" => "Flash does not look at Referer: use signed links",
        "stream" | "mail" | "rtmp" => "Flash speaks HTTP alone",
        _ if name.contains("lua") || name.contains("js_") || name.contains("perl") => {
            "Flash runs no code of its own: use a program"
        }
        _ => "Flash has nothing like it",
    }
}

/// The keys above the sites.
pub(super) fn settings(main: &Scope<'_>, http: &Scope<'_>, blocks: &[Block<'_>]) -> Settings {
    let mut settings = Settings::new();
    let listens = hosts::listeners(blocks.iter().flat_map(|block| &block.listens));
    let first = blocks.first().and_then(|block| block.block.iter().find(|of| of.name == "listen"));
    set(&mut settings, "listen", Value::Texts(listens), first);
    settings.insert("follow-links", Setting::new(Value::Text("anywhere".into()), None));
    if let Some(user) = main.last("user") {
        set(&mut settings, "user", Value::Text(user.words.join(":")), Some(user));
    }
    let seconds_of = |of: &Directive| of.words.first().and_then(|word| seconds(word));
    let scopes: Vec<Scope<'_>> = blocks.iter().map(|block| http.inner(block.block)).collect();
    for (name, key) in [("keepalive_timeout", "idle-timeout"), ("fastcgi_read_timeout", "program-deadline")] {
        let all: Vec<_> =
            [http].into_iter().chain(&scopes).filter_map(|scope| deepest(scope, name)).collect();
        let longest = all.into_iter().max_by_key(|of| seconds_of(of));
        if let Some((of, time)) = longest.and_then(|of| Some((of, seconds_of(of).filter(|time| *time > 0)?)))
        {
            set(&mut settings, key, Value::Text(format!("{time}s")), Some(of));
        }
    }
    logs(main, http, &scopes, &mut settings);
    proxies(http, &scopes, &mut settings);
    settings
}

/// Where a directive stands in a server, or in one of its locations.
fn deepest<'t>(scope: &Scope<'t>, name: &str) -> Option<&'t Directive> {
    fn find<'t>(scope: &Scope<'t>, block: &'t [Directive], name: &str) -> Option<&'t Directive> {
        let own = block.iter().find(|of| of.name == name).inspect(|of| scope.context.see(of));
        let inner = block.iter().filter(|of| of.name == "location" || of.name == "if");
        let inner: Vec<_> = inner.filter_map(|of| find(scope, of.block.as_deref()?, name)).collect();
        own.or(inner.first().copied())
    }
    find(scope, scope.levels.last()?, name)
}

fn logs(main: &Scope<'_>, http: &Scope<'_>, scopes: &[Scope<'_>], settings: &mut Settings) {
    logs::of_server(http, scopes, settings);
    let mut is_set = false;
    for scope in [main, http].into_iter().chain(scopes) {
        for of in scope.own("error_log") {
            let path = of.words.first().map_or("", String::as_str);
            if !is_set && path.starts_with('/') && path != "/dev/null" {
                is_set = true;
                set(settings, "error-log", Value::Text(path.into()), Some(of));
            }
        }
    }
}

fn proxies(http: &Scope<'_>, scopes: &[Scope<'_>], settings: &mut Settings) {
    let mut trusted: Vec<String> = Vec::new();
    for scope in [http].into_iter().chain(scopes) {
        for of in scope.all("set_real_ip_from") {
            let words = of.words.iter().map(|word| word.replace("unix:", "unix"));
            trusted.extend(words.filter(|word| !trusted.contains(word)).collect::<Vec<_>>());
            set(settings, "trusted-proxies", Value::Texts(trusted.clone()), Some(of));
        }
        if let Some(of) = scope.last("real_ip_header") {
            match of.words.first().map(|word| word.to_ascii_lowercase()).as_deref() {
                Some("x-forwarded-for" | "proxy_protocol") => {}
                _ => scope.left(of, "proxies name clients in X-Forwarded-For or Forwarded", Paths::None),
            }
        }
        scope.last("real_ip_recursive");
    }
}

/// The certificates of a server.
pub(super) fn tls(scope: &Scope<'_>) -> Settings {
    let verifies = scope.last("ssl_verify_client");
    let how = match verifies.and_then(|of| of.words.first()).map(String::as_str) {
        Some("on") => Some("required"),
        Some("optional" | "optional_no_ca") => Some("asked"),
        _ => None,
    };
    scope.last("ssl_verify_depth");
    let tls = Tls {
        certificates: scope.all("ssl_certificate"),
        keys: scope.all("ssl_certificate_key"),
        clients: verifies.zip(how),
        authorities: scope.last("ssl_client_certificate"),
    };
    tls.settings()
}
