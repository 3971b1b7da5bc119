//! `proxy_pass`: the HTTP servers that answer, and what they are told.

use std::collections::BTreeMap;

use super::answer::At;
use super::upstreams::{Member, members};
use crate::directive::Directive;
use crate::flash::{Settings, Value, set};
use crate::note::{Of, Paths};
use crate::scope::Scope;

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
/// What `proxy_pass` names.
struct Target<'w> {
    scheme: &'w str,
    /// A host and perhaps a port, a socket, or the name of an upstream.
    authority: &'w str,
    /// What takes the place of the location's prefix.
    path: Option<&'w str>,
}

/// Sets what the servers of a `proxy_pass` need. Returns whether there is one that is not taken.
pub(super) fn settings(at: &At<'_, '_>, settings: &mut Settings) -> bool {
    let Some(of) = at.scope.own("proxy_pass").last() else { return false };
    let Some(target) = of.words.first().and_then(|word| target(word)) else {
        at.left(of, "Flash fills in no variables and adds no query: write the server's address");
        return true;
    };
    let upstream = at.server.upstreams.get(target.authority).map(|of| (*of, members(at.scope, of)));
    let servers: Vec<&str> = match &upstream {
        // If all are backups, none is.
        Some((_, of)) if of.servers.iter().all(Member::is_backup) => Vec::new(),
        Some((_, of)) => of.servers.iter().map(|member| &*member.address).collect(),
        None => vec![target.authority],
    };
    let is_tls = target.scheme == "https";
    // A socket has no certificate and no path.
    let has_more = is_tls || target.path.is_some_and(|path| path != "/");
    if servers.is_empty() || has_more && servers.iter().any(|server| server.starts_with("unix:")) {
        at.left(of, "no server of it can be taken: write proxy = \"http://HOST:PORT\"");
        return true;
    }
    if target.path.is_none() {
        let why = "the server gets a path in its canonical form where the client has written another: rules were asked about that";
        at.scope.differs(&of.source, why, Paths::Uncanonical, Of::Everything);
    }
    let base = replaced(at, of, target.path, settings);
    let url = |server: &str| match server.strip_prefix("unix:") {
        Some(_) => server.to_owned(),
        // Port 80 is that of an upstream's server that says none, whatever it speaks.
        None if is_tls && upstream.is_some() && !has_port(server) => format!("https://{server}:80{base}"),
        None => format!("{}://{server}{base}", target.scheme),
    };
    let proxy = match &upstream {
        Some((of, members)) if members.only().is_none() => {
            at.scope.context.upstream(target.authority, members.table(of, url))
        }
        _ => url(servers[0]),
    };
    set(settings, "proxy", Value::Text(proxy), Some(of));
    if is_tls && !at.scope.is_on("proxy_ssl_verify") {
        let why = "Flash looks at the server's certificate: proxy-ca names an authority of your own";
        at.differs(of, why);
    }
    if let Some(authorities) = at.scope.last("proxy_ssl_trusted_certificate").filter(|_| is_tls) {
        let file = authorities.words.first().cloned().unwrap_or_default();
        set(settings, "proxy-ca", Value::Text(file), Some(authorities));
    }
    fields(at.scope, &target, settings);
    if at.scope.word("proxy_redirect").is_none_or(|word| word != "off") {
        let why = "redirections of the application pass as they are: it knows its host, and is told X-Forwarded-Host";
        at.scope.differs(&of.source, why, at.concerns.clone(), Of::Location);
    }
    if let Some(of) = at.scope.last("proxy_read_timeout") {
        let why = "program-deadline holds for all programs and servers: 60s, if nothing else is set";
        at.scope.differs(&of.source, why, Paths::None, Of::Everything);
    }
    false
}

fn has_port(server: &str) -> bool {
    server.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `None` where variables stand in it.
fn target(word: &str) -> Option<Target<'_>> {
    let (scheme, rest) = word.split_once("://").filter(|_| !word.contains(['$', '?', '#']))?;
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
fn replaced(at: &At<'_, '_>, of: &Directive, path: Option<&str>, settings: &mut Settings) -> String {
    let Some(path) = path else { return String::new() };
    let prefix = at.prefix.trim_end_matches('/');
    if prefix == at.prefix && !prefix.is_empty() {
        let why = "the server gets a slash behind its path";
        at.scope.differs(&of.source, why, Paths::Exact(prefix.into()), Of::Everything);
    }
    if !prefix.is_empty() {
        set(settings, "strip-prefix", Value::Text(prefix.into()), Some(of));
    }
    if path.ends_with('/') != at.prefix.ends_with('/') || matches!(at.concerns, Paths::Exact(_)) {
        let why = "the server gets one slash between its path and what follows the prefix";
        at.differs(of, why);
    }
    path.trim_end_matches('/').to_owned()
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
            ("host", value) if !value.is_empty() && !value.contains('$') => host = Some(value.into()),
            _ if is_told => {}
            (_, value) if value.contains('$') => {
                scope.left(
                    of,
                    "Flash fills in no variables: the server is told what Flash tells all of them",
                    Paths::None,
                );
            }
            ("connection" | "upgrade" | "content-length" | "transfer-encoding" | "host", _) => {
                scope.left(of, "Flash itself writes this field", Paths::None);
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
    use std::path::Path;

    use super::*;
    use crate::nginx::import;

    /// The file that a server's block becomes.
    fn imported(block: &str) -> String {
        let text = format!("http {{ server {{ listen 80; server_name a.example; root /srv/a; {block} }} }}");
        let nothing = |_: &Path| Ok(Vec::new());
        import(Path::new("nginx.conf"), &text, &nothing).expect("its syntax is right").text
    }

    #[test]
    fn nobody_comes_in_where_nginx_keeps_clients_out() {
        // A list in a location takes the place of the server's.
        let text = imported("allow 10.0.0.0/8; deny all; location /internal/ { deny all; }");
        assert!(text.contains("0.0.0.0/0"), "{text}");
        for guard in
            ["auth_request /auth;", "auth_basic on;", "secure_link $arg_m; secure_link_md5 \"$uri\";"]
        {
            for way in ["proxy_pass http://b:1;", ""] {
                let text = imported(&format!("location /admin/ {{ {guard} {way} }}"));
                assert!(text.contains("deny = ") && !text.contains("proxy = "), "{guard}: {text}");
            }
        }
        let text = imported("location /_s3/ { internal; proxy_pass http://b:1; }");
        assert!(text.contains("deny = ") && !text.contains("files = "), "{text}");
        let text = imported("location = /auth { internal; proxy_pass http://b:1; }");
        assert!(text.contains("internal = true"), "{text}");
        // What answers for all of the site is not taken: nothing of it is a file.
        let text = imported("location / { proxy_pass http://$b; }");
        assert!(!text.contains("root = "), "{text}");
    }

    #[test]
    fn no_server_is_told_what_is_meant_for_another() {
        let place = |text: &str, path: &str| {
            let from = text.find(&format!("\"{path}\"")).unwrap_or_else(|| panic!("{path}: {text}"));
            text[from..].split("\n\n").next().expect("a place").to_owned()
        };
        let text = imported(
            "location / { proxy_set_header Authorization secret; proxy_set_header X-A a; proxy_pass http://a; } \
             location /b/ { proxy_pass http://b; } \
             location /c/ { proxy_set_header authorization other; proxy_pass http://c; }",
        );
        for part in ["\"Authorization\" = \"\"", "\"X-A\" = \"\""] {
            assert!(place(&text, "/b").contains(part), "{part}: {text}");
        }
        assert!(place(&text, "/c").contains("\"X-A\" = \"\""), "{text}");
        assert!(!place(&text, "/c").contains("secret") && place(&text, "/c").contains("other"), "{text}");
        assert!(!place(&text, "/c").contains("\"Authorization\""), "one field, one name: {text}");
        // A named location inherits from its server, and not from who leads to it.
        let text = imported(
            "location / { proxy_set_header X-A a; try_files $uri @b; } location @b { proxy_pass http://b; }",
        );
        assert!(text.contains("http://b") && !text.contains("X-A\""), "{text}");
    }

    #[test]
    fn a_path_stays_what_it_is() {
        // The server is asked for /files/x, where files lie below another folder.
        let text = imported(
            "location /files/ { alias /srv/f/; try_files $uri @b; } location @b { proxy_pass http://b; }",
        );
        assert!(text.contains("strip-prefix") && !text.contains("proxy = "), "{text}");
        let text = imported("location /files/ { alias /srv/f/; proxy_pass http://b; }");
        assert!(!text.contains("strip-prefix") && text.contains("http://b"), "{text}");
        let text = imported("location = /files/a { alias /srv/f/a; proxy_pass http://b; }");
        assert!(!text.contains("strip-prefix") && text.contains("http://b"), "{text}");
        // What the server tries holds where no location is.
        let text =
            imported("try_files $uri @b; location / { index a.html; } location @b { proxy_pass http://b; }");
        assert!(!text.contains("fallback"), "{text}");
    }

    #[test]
    fn certificates_are_required_where_nginx_verifies_them() {
        let text = |verify: &str| {
            imported(&format!(
                "listen 443 ssl; ssl_certificate /c; ssl_certificate_key /k; ssl_client_certificate /ca; {verify}"
            ))
        };
        assert!(!text("").contains("client-certificate") && !text("").contains("client-ca"), "{}", text(""));
        assert!(!text("ssl_verify_client off;").contains("client-ca"));
        assert!(text("ssl_verify_client on;").contains("client-certificate = \"required\""));
        assert!(text("ssl_verify_client optional;").contains("client-certificate = \"asked\""));
    }

    #[test]
    fn what_a_proxy_is_told() {
        let text = imported(
            "location /api/ { proxy_pass http://b:1/v2/; proxy_set_header Host \"\"; proxy_set_header Content-Length \"\"; \
             proxy_set_header X-A b; }",
        );
        for part in ["http://b:1/v2", "strip-prefix = \"/api\"", "proxy-host = \"b:1\"", "X-A"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("\"Content-Length\""), "{text}");
        // A socket has no path.
        let text = imported("location /api/ { proxy_pass http://unix:/run/b.sock:/v2/; }");
        assert!(!text.contains("proxy = ") && text.contains("deny = "), "{text}");
        let text = imported("location /api/ { proxy_pass http://unix:/run/b.sock:/; }");
        assert!(text.contains("proxy = \"unix:/run/b.sock\""), "{text}");
    }

    #[test]
    fn maps_of_paths_are_redirections() {
        let text = |map: &str, answer: &str| {
            let text = format!(
                "http {{ map $request_uri $new {{ {map} }} server {{ listen 80; root /srv/a; if ($new) {{ {answer} }} }} }}"
            );
            let file = |path: &Path| Ok(vec![(path.to_owned(), "/a /b;\n/c?d=e /f;".to_owned())]);
            import(Path::new("/etc/nginx/nginx.conf"), &text, &file).expect("its syntax is right")
        };
        let imported = text("default \"\"; include moved.map;", "return 301 $new;");
        assert!(imported.text.contains("redirects = \"/etc/nginx/moved.map\""), "{}", imported.text);
        let imported = text("/a /b; /c https://d.example/;", "return 302 $new;");
        for part in ["\"=/a\"", "to = \"/b?\", status = 302", "\"=/c\"", "to = \"https://d.example/?\""] {
            assert!(imported.text.contains(part), "{part}: {}", imported.text);
        }
        let imported = text("~^/a /b; /c $d;", "return 301 $new;");
        assert_eq!(imported.notes.iter().filter(|note| note.is_left).count(), 2, "{:?}", imported.notes);
    }

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
