//! `reverse_proxy` and `php_fastcgi`.

use std::collections::BTreeMap;

use super::answer::Answer;
use crate::directive::Directive;
use crate::flash::{PlaceName, Setting, Value, set};

/// Lines that Flash needs nothing for.
const NOTHING_TO_SET: [&str; 8] = [
    "flush_interval",
    "lb_try_duration",
    "lb_try_interval",
    "trusted_proxies",
    "fail_duration",
    "max_fails",
    "unhealthy_status",
    "stream_timeout",
];

pub(super) fn reverse<'t>(answer: &mut Answer<'_, 't>, of: &'t Directive, words: &'t [String]) {
    let to = of.block.iter().flatten().filter(|line| line.name == "to").flat_map(|line| &line.words);
    let servers: Option<Vec<String>> = words.iter().chain(to).map(|text| server(text)).collect();
    let Some(servers) = servers.filter(|servers| !servers.is_empty()) else {
        return answer.close(of, "write proxy = \"http://HOST:PORT\"");
    };
    let mut fields = BTreeMap::new();
    for line in of.block.iter().flatten() {
        answer.lines.scope.see_all(line);
        match (&*line.name, &line.words[..]) {
            ("to", _) => {}
            (name, _) if NOTHING_TO_SET.contains(&name) => {}
            ("header_up", [name, value]) if name.eq_ignore_ascii_case("host") => match value.as_str() {
                "{host}" | "{http.request.host}" => {}
                "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}" => {
                    let host = servers[0].split_once("://").map_or("localhost", |(_, host)| host);
                    set(&mut answer.settings, "proxy-host", Value::Text(host.into()), Some(line));
                }
                value if !value.contains('{') => {
                    set(&mut answer.settings, "proxy-host", Value::Text(value.into()), Some(line));
                }
                _ => answer.left(line, "Flash fills in no variables: write proxy-host"),
            },
            ("header_up", [name]) if name.starts_with('-') => {
                fields.insert(name[1..].to_owned(), String::new());
            }
            ("header_up", [name, value]) if !value.contains('{') && !name.starts_with(['+', '?']) => {
                fields.insert(name.clone(), value.clone());
            }
            ("header_up", [name, value]) if is_told(name, value) => {}
            ("lb_policy", [policy, ..]) if policy == "round_robin" || policy == "least_conn" => {
                let balance = if policy == "round_robin" { "round-robin" } else { "least-requests" };
                set(&mut answer.settings, "balance", Value::Text(balance.into()), Some(line));
            }
            ("handle_response" | "rewrite" | "method", _) => {
                return answer.close(line, "Flash passes on requests and answers as they are");
            }
            _ => {
                answer.left(line, "write it in [upstream.NAME], or by one of the keys that begin with proxy-")
            }
        }
    }
    if !fields.is_empty() {
        set(&mut answer.settings, "proxy-header", Value::Table(fields), Some(of));
    }
    let value = match servers.len() {
        1 => Value::Text(servers[0].clone()),
        _ => Value::Texts(servers),
    };
    set(&mut answer.settings, "proxy", value, Some(of));
    answer.settings.remove("fallback");
    answer.is_answered = true;
}

/// Whether Flash tells a server so, too.
fn is_told(name: &str, value: &str) -> bool {
    let values: &[&str] = match &*name.to_ascii_lowercase() {
        "x-real-ip" | "x-forwarded-for" => {
            &["{remote_host}", "{client_ip}", "{http.request.remote.host}", "{http.vars.client_ip}"]
        }
        "x-forwarded-proto" => &["{scheme}", "{http.request.scheme}"],
        "x-forwarded-host" => &["{host}", "{hostport}", "{http.request.host}", "{http.request.hostport}"],
        _ => &[],
    };
    values.contains(&value)
}

/// The URL of a server.
fn server(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let address = address(rest.strip_suffix('/').unwrap_or(rest))?;
    match (scheme, address.starts_with("unix:")) {
        ("http", true) => Some(address),
        ("http", false) if !address.contains(':') => Some(format!("http://{address}:80")),
        ("http" | "https", false) => Some(format!("{scheme}://{address}")),
        _ => None,
    }
}

/// A socket, or a host with its port.
fn address(text: &str) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix/") {
        return Some(format!("unix:{path}"));
    }
    let is_plain = !text.is_empty() && !text.contains(['/', '{', '*']);
    is_plain.then(|| if text.starts_with(':') { format!("127.0.0.1{text}") } else { text.to_owned() })
}

pub(super) fn php<'t>(answer: &mut Answer<'_, 't>, of: &'t Directive, words: &'t [String]) {
    let address = match words {
        [only] => address(only).filter(|address| address.contains(':') && answer.root.is_some()),
        _ => None,
    };
    let Some(address) = address else {
        return answer.close(of, "write root, and fastcgi = { \".php\" = \"ADDRESS\" }");
    };
    let (mut fields, mut front) = (BTreeMap::new(), Some("/index.php".to_owned()));
    for line in of.block.iter().flatten() {
        answer.lines.scope.context.see(line);
        match (&*line.name, &line.words[..]) {
            ("env", [name, value]) if !value.contains('{') => {
                fields.insert(name.clone(), value.clone());
            }
            ("index", [name]) if name == "off" => front = None,
            ("index", [name]) if !name.contains(['/', '{']) => front = Some(format!("/{name}")),
            _ => return answer.close(line, "Flash runs scripts by the end of their names"),
        }
    }
    if !fields.is_empty() {
        set(&mut answer.settings, "fastcgi-param", Value::Table(fields), Some(of));
    }
    let routes = BTreeMap::from([(".php".to_owned(), address)]);
    answer.settings.insert("fastcgi", Setting::new(Value::Table(routes), Some(&of.source)));
    if let Some(front) = front {
        answer.index = vec![front[1..].to_owned()];
        if *answer.place != PlaceName::Below(String::new()) {
            answer.differs(
                of,
                "the front controller lies outside of this place, where nothing runs it: such paths are 403",
            );
        }
        set(&mut answer.settings, "fallback", Value::Text(front), Some(of));
    }
    answer.has_programs(of);
}
