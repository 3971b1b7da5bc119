//! `proxy_pass`: the HTTP servers that answer, and what they are told.

use std::collections::BTreeMap;

use super::answer::At;
use super::content::set;
use super::programs::Upstreams;
use super::read::Directive;
use super::scope::Scope;
use crate::flash::{Settings, Value};
use crate::note::{Of, Paths};

/// Fields with the value that servers are told by Flash, too.
const TOLD: [(&str, &[&str]); 9] = [
    ("host", &["$host", "$http_host", "$host:$server_port"]),
    ("x-real-ip", &["$remote_addr"]),
    ("x-forwarded-for", &["$proxy_add_x_forwarded_for", "$remote_addr"]),
    ("x-forwarded-proto", &["$scheme"]),
    ("x-forwarded-host", &["$host", "$http_host"]),
    ("x-request-id", &["$request_id"]),
    ("upgrade", &["$http_upgrade"]),
    (
        "connection",
        &["upgrade", "Upgrade", "$connection_upgrade", "$http_connection", "keep-alive", "close", ""],
    ),
    ("accept-encoding", &["$http_accept_encoding"]),
];
/// What needs no word in Flash.
const QUIET: [&str; 16] = [
    "proxy_http_version",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_buffer_size",
    "proxy_busy_buffers_size",
    "proxy_max_temp_file_size",
    "proxy_temp_file_write_size",
    "proxy_request_buffering",
    "proxy_connect_timeout",
    "proxy_send_timeout",
    "proxy_next_upstream",
    "proxy_ssl_server_name",
    "proxy_ssl_protocols",
    "proxy_ssl_session_reuse",
    "proxy_pass_request_headers",
    "proxy_pass_request_body",
];

/// What `proxy_pass` names.
struct Target<'w> {
    scheme: &'w str,
    /// A host and perhaps a port, a socket, or the name of an upstream.
    authority: &'w str,
    /// What takes the place of the location's prefix.
    path: Option<&'w str>,
}

/// Sets what the servers of a `proxy_pass` need. Returns whether there is one that is not taken.
pub(super) fn settings(
    scope: &Scope<'_>,
    upstreams: &Upstreams<'_>,
    at: &At<'_>,
    settings: &mut Settings,
) -> bool {
    let Some(of) = scope.own("proxy_pass").last() else { return false };
    let Some(target) = of.words.first().and_then(|word| target(word)) else {
        scope.left(of, "Flash fills in no variables: write the server's address", at.concerns.clone());
        return true;
    };
    let servers = match upstreams.get(target.authority) {
        Some(upstream) => members(scope, upstream),
        None => vec![target.authority.to_owned()],
    };
    let is_tls = target.scheme == "https";
    if servers.is_empty() || is_tls && servers.iter().any(|server| server.starts_with("unix:")) {
        scope.left(
            of,
            "no server of it can be taken: write proxy = \"http://HOST:PORT\"",
            at.concerns.clone(),
        );
        return true;
    }
    let base = replaced(scope, at, of, target.path, settings);
    let url = |server: &String| match server.strip_prefix("unix:") {
        Some(_) => server.clone(),
        None => format!("{}://{server}{base}", target.scheme),
    };
    let mut urls: Vec<String> = servers.iter().map(url).collect();
    let value = if urls.len() == 1 { Value::Text(urls.remove(0)) } else { Value::Texts(urls) };
    set(settings, "proxy", value, Some(of));
    if is_tls && !scope.is_on("proxy_ssl_verify") {
        let why = "Flash looks at the server's certificate: proxy-ca names an authority of your own";
        scope.differs(&of.source, why, at.concerns.clone(), Of::Everything);
    }
    if let Some(authorities) = scope.last("proxy_ssl_trusted_certificate").filter(|_| is_tls) {
        let file = authorities.words.first().cloned().unwrap_or_default();
        set(settings, "proxy-ca", Value::Text(file), Some(authorities));
    }
    fields(scope, &target, settings);
    if scope.word("proxy_redirect").is_none_or(|word| word != "off") {
        let why = "redirections of the application pass as they are: it knows its host, and is told X-Forwarded-Host";
        scope.differs(&of.source, why, at.concerns.clone(), Of::Location);
    }
    if let Some(of) = scope.last("proxy_read_timeout") {
        let why = "program-deadline holds for all programs and servers: 60s, if nothing else is set";
        scope.differs(&of.source, why, Paths::None, Of::Everything);
    }
    for quiet in QUIET {
        scope.all(quiet);
    }
    false
}

/// `None` where variables stand in it.
fn target(word: &str) -> Option<Target<'_>> {
    let (scheme, rest) = word.split_once("://").filter(|_| !word.contains('$'))?;
    if let Some(socket) = rest.strip_prefix("unix:") {
        let (socket, path) =
            socket.split_once(':').map_or((socket, None), |(socket, path)| (socket, Some(path)));
        let authority = &rest[.."unix:".len() + socket.len()];
        return Some(Target { scheme, authority, path: path.filter(|path| !path.is_empty()) });
    }
    let end = rest.find('/').unwrap_or(rest.len());
    let path = (end < rest.len()).then(|| &rest[end..]);
    Some(Target { scheme, authority: &rest[..end], path })
}

/// The path that takes the place of the location's prefix, without a slash at its end.
fn replaced(
    scope: &Scope<'_>,
    at: &At<'_>,
    of: &Directive,
    path: Option<&str>,
    settings: &mut Settings,
) -> String {
    let Some(path) = path else { return String::new() };
    let prefix = at.prefix.trim_end_matches('/');
    if !prefix.is_empty() {
        set(settings, "strip-prefix", Value::Text(prefix.into()), Some(of));
    }
    if path.ends_with('/') != at.prefix.ends_with('/') || matches!(at.concerns, Paths::Exact(_)) {
        let why = "the server gets one slash between its path and what follows the prefix";
        scope.differs(&of.source, why, at.concerns.clone(), Of::Everything);
    }
    path.trim_end_matches('/').to_owned()
}

/// The servers of an upstream, but those that are down.
fn members(scope: &Scope<'_>, upstream: &Directive) -> Vec<String> {
    scope.context.see(upstream);
    let mut servers = Vec::new();
    for of in upstream.block.as_deref().unwrap_or_default() {
        scope.context.see(of);
        match &*of.name {
            "server" if of.words.iter().any(|word| word == "down") => {}
            "server" => {
                if of.words.iter().any(|word| word == "backup" || word.starts_with("weight=")) {
                    scope.left(of, "all servers have the same part of the requests", Paths::None);
                }
                servers.extend(of.words.first().cloned());
            }
            "ip_hash" | "hash" | "sticky" | "random" => {
                scope.left(of, "balance knows least-requests and round-robin", Paths::None);
            }
            _ => {}
        }
    }
    servers
}

fn fields(scope: &Scope<'_>, target: &Target<'_>, settings: &mut Settings) {
    let mut fields = BTreeMap::new();
    let mut from = None;
    // nginx names the server itself.
    let mut host = Some(match target.authority.starts_with("unix:") {
        true => "localhost".to_owned(),
        false => target.authority.to_owned(),
    });
    for of in scope.all("proxy_set_header") {
        let [name, value, ..] = &of.words[..] else { continue };
        let lower = name.to_ascii_lowercase();
        let is_told = TOLD.iter().any(|(told, values)| *told == lower && values.contains(&value.as_str()));
        match (&*lower, value.as_str()) {
            ("host", "$proxy_host") => {}
            ("host", _) if is_told => host = None,
            ("host", value) if !value.contains('$') => host = Some(value.into()),
            _ if is_told => {}
            (_, value) if value.contains('$') => {
                scope.left(
                    of,
                    "Flash fills in no variables: the server does not get this field",
                    Paths::None,
                );
            }
            ("connection" | "upgrade", _) => {
                scope.left(of, "Flash itself says what becomes of the connection", Paths::None);
            }
            (_, value) => {
                from = from.or(Some(of));
                fields.insert(name.clone(), value.to_owned());
            }
        }
    }
    if let Some(host) = host {
        set(settings, "proxy-host", Value::Text(host), None);
    }
    if !fields.is_empty() {
        set(settings, "proxy-header", Value::Table(fields), from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let parts = |word| target(word).map(|Target { scheme, authority, path }| (scheme, authority, path));
        assert_eq!(parts("http://app"), Some(("http", "app", None)));
        assert_eq!(parts("https://127.0.0.1:8443/v2/"), Some(("https", "127.0.0.1:8443", Some("/v2/"))));
        assert_eq!(parts("http://unix:/run/app.sock"), Some(("http", "unix:/run/app.sock", None)));
        assert_eq!(
            parts("http://unix:/run/app.sock:/v2/"),
            Some(("http", "unix:/run/app.sock", Some("/v2/")))
        );
        assert_eq!(parts("http://$backend"), None);
        assert_eq!(parts("app"), None);
    }
}
