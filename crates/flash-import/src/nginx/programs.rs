//! Programs: `fastcgi_pass` and its parameters, and the protocols that Flash does not speak.

use std::collections::BTreeMap;

use crate::directive::Directive;
use crate::flash::{Settings, Value, set};
use crate::note::{Of, Paths};
use crate::scope::Scope;

/// Where programs answer, and on which line that stands.
pub(super) type Program<'t> = (String, &'t Directive);

/// What programs are told by Flash, too.
const PARAMETERS: [&str; 34] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "HTTP_HOST",
    "HTTP_PROXY",
    "HTTP_X_REQUEST_ID",
    "ORIG_PATH_INFO",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "SSL_CLIENT_S_DN",
    "SSL_CLIENT_I_DN",
    "SSL_CLIENT_VERIFY",
    "SSL_PROTOCOL",
    "SSL_CIPHER",
    "UNIQUE_ID",
];
/// What names the script of the request.
const OWN_SCRIPT: [&str; 5] = [
    "$document_root$fastcgi_script_name",
    "$document_root/$fastcgi_script_name",
    "$realpath_root$fastcgi_script_name",
    "$request_filename",
    "$document_root$fastcgi_path_info",
];
const OTHER: [&str; 4] = ["uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"];

/// Upstreams by their names.
pub(super) type Upstreams<'t> = BTreeMap<&'t str, &'t Directive>;

/// What answers in a protocol that Flash does not speak.
pub(super) fn other<'t>(scope: &Scope<'t>, concerns: &Paths) -> Option<&'t Directive> {
    let of = OTHER.into_iter().find_map(|name| scope.own(name).last())?;
    scope.left(of, "Flash passes requests on to FastCGI and HTTP servers alone", concerns.clone());
    Some(of)
}

pub(super) fn fastcgi<'t>(
    scope: &Scope<'t>,
    upstreams: &Upstreams<'t>,
    concerns: &Paths,
    settings: &mut Settings,
) -> Option<Program<'t>> {
    let mut params = BTreeMap::new();
    let of = scope.own("fastcgi_pass").last()?;
    let given = of.words.first().map_or("", String::as_str);
    let address = match upstreams.get(given) {
        Some(upstream) => member(scope, upstream)?,
        None => given.to_owned(),
    };
    if address.contains('$') {
        scope.left(of, "Flash fills in no variables: write the address", concerns.clone());
        return None;
    }
    for param in scope.all("fastcgi_param") {
        let [name, value, ..] = &param.words[..] else { continue };
        if !PARAMETERS.contains(&&**name) {
            match value.contains('$') {
                true => scope.left(
                    param,
                    "Flash fills in no variables: the program is told those of CGI",
                    Paths::None,
                ),
                false => params.insert(name.clone(), value.clone()).map_or((), drop),
            }
        }
        if name == "SCRIPT_FILENAME" && !OWN_SCRIPT.contains(&&**value) {
            scope.left(param, "the script is the file that the path names", concerns.clone());
        }
    }
    if !params.is_empty() {
        set(settings, "fastcgi-param", Value::Table(params), Some(of));
    }
    for quiet in [
        "fastcgi_index",
        "fastcgi_split_path_info",
        "fastcgi_buffers",
        "fastcgi_buffer_size",
        "fastcgi_busy_buffers_size",
        "fastcgi_temp_file_write_size",
        "fastcgi_max_temp_file_size",
        "fastcgi_keep_conn",
        "fastcgi_connect_timeout",
        "fastcgi_send_timeout",
        "fastcgi_request_buffering",
        "fastcgi_buffering",
        "fastcgi_ignore_client_abort",
        "fastcgi_hide_header",
        "fastcgi_pass_header",
        "fastcgi_catch_stderr",
    ] {
        scope.all(quiet);
    }
    if let Some(index) = scope.last("fastcgi_index") {
        let why = "a slash after a script is its path, and no index is added";
        scope.differs(&index.source, why, Paths::Ends(".php/".into()), Of::Everything);
    }
    let address = address.trim_end_matches(':');
    let is_whole = address.starts_with("unix:") || address.contains(':');
    Some((if is_whole { address.into() } else { format!("{address}:80") }, of))
}

/// The only server of an upstream.
fn member(scope: &Scope<'_>, upstream: &Directive) -> Option<String> {
    scope.context.see(upstream);
    let block = upstream.block.as_deref().unwrap_or_default();
    let servers: Vec<_> = block.iter().filter(|of| of.name == "server").collect();
    for of in block.iter().filter(|of| of.name != "server") {
        scope.context.see(of);
    }
    let (first, others) = servers.split_first()?;
    scope.context.see(first);
    for other in others {
        scope.left(other, "a FastCGI route has one server", Paths::None);
    }
    first.words.first().cloned()
}
