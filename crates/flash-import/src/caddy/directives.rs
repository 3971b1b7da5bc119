//! The directives of Caddy: in which order they are followed, and which ones need nothing.

/// What follows if a directive for some requests is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// It would have let nobody in, and kept nobody out.
    Harmless,
    /// Others may get what it would have answered, or kept back.
    InDoubt,
}

use Left::{Harmless, InDoubt};

/// The order of Caddy's own, whatever the order of the lines.
const ORDER: [(&str, Left); 37] = [
    ("tracing", Harmless),
    ("map", Harmless),
    ("vars", Harmless),
    ("fs", InDoubt),
    ("root", InDoubt),
    ("log_append", Harmless),
    ("log_skip", Harmless),
    ("skip_log", Harmless),
    ("log_name", Harmless),
    ("header", Harmless),
    ("copy_response_headers", Harmless),
    ("request_body", Harmless),
    ("redir", InDoubt),
    ("method", InDoubt),
    ("rewrite", InDoubt),
    ("uri", InDoubt),
    ("try_files", InDoubt),
    ("basicauth", InDoubt),
    ("basic_auth", InDoubt),
    ("forward_auth", InDoubt),
    ("request_header", Harmless),
    ("encode", Harmless),
    ("push", Harmless),
    ("intercept", InDoubt),
    ("templates", Harmless),
    ("invoke", InDoubt),
    ("handle", InDoubt),
    ("handle_path", InDoubt),
    ("route", InDoubt),
    ("abort", InDoubt),
    ("error", InDoubt),
    ("copy_response", InDoubt),
    ("respond", InDoubt),
    ("metrics", Harmless),
    ("reverse_proxy", InDoubt),
    ("php_fastcgi", InDoubt),
    ("file_server", InDoubt),
];

/// Lines of a site that are about no request.
pub(super) const OF_SITES: [&str; 5] = ["tls", "bind", "log", "handle_errors", "import"];

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
    ORDER.iter().position(|(known, _)| *known == name)
}

pub(super) fn opens_nothing(name: &str) -> bool {
    ORDER.contains(&(name, Harmless))
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
