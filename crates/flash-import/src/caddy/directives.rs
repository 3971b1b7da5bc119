//! The directives of Caddy: in which order they are followed, and which ones need nothing.

/// The order of Caddy's own, whatever the order of the lines.
const ORDER: [&str; 37] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "log_skip",
    "skip_log",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
];

/// Lines of a site that are about no request.
pub(super) const OF_SITES: [&str; 5] = ["tls", "bind", "log", "handle_errors", "import"];

/// Directives that let nobody in, so that one for some requests may be left out.
const OPENS_NOTHING: [&str; 15] = [
    "tracing",
    "map",
    "vars",
    "log_append",
    "log_skip",
    "skip_log",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "request_header",
    "encode",
    "push",
    "templates",
    "metrics",
];

/// Options and settings that Flash has by itself, or that are about Caddy alone.
const NOTHING_TO_SET: [&str; 11] = [
    "admin",
    "debug",
    "persist_config",
    "grace_period",
    "skip_install_trust",
    "log_skip",
    "skip_log",
    "auto_https",
    "metrics",
    "bind",
    "local_certs",
];

/// What is unknown comes first, since it may be a guard.
pub(super) fn place_in_order(name: &str) -> Option<usize> {
    // They are one kind.
    let name = if name == "handle_path" { "handle" } else { name };
    ORDER.iter().position(|known| *known == name)
}

pub(super) fn opens_nothing(name: &str) -> bool {
    OPENS_NOTHING.contains(&name)
}

pub(super) fn needs_nothing(name: &str) -> bool {
    NOTHING_TO_SET.contains(&name)
}

/// What to do about lines that Flash has nothing for.
pub(super) fn advice(name: &str) -> &'static str {
    match name {
        "map" | "vars" => "Flash has no variables: write a place or a site for each value",
        "templates" => "Flash changes no content",
        name if name.starts_with("&(") => "invoke closes the place where it stands",
        "handle_errors" => {
            "write the pages as 404.html, 403.html and so on, and name their folder by error-pages"
        }
        "servers" | "on_demand_tls" | "storage" | "cert_issuer" => {
            "Flash has settings of its own: see flash schema"
        }
        name if name.starts_with('@') => "nothing that was taken is about it",
        _ => "Flash has nothing like it",
    }
}
