//! What programs answer: PHP behind `SetHandler` and `ProxyPassMatch`, HTTP servers behind `ProxyPass`, scripts of `ScriptAlias`.

use std::collections::BTreeMap;

use super::at::At;
use super::sections::{Spot, covered, files};
use crate::directive::Directive;
use crate::flash::{Setting, Settings, Value, is_below, set, set_more};
use crate::note::{Of, Paths, Source};
use crate::pattern::{self, Shape};

/// `ProxyPass` of a path.
pub(super) struct Pass<'t> {
    pub(super) of: &'t Directive,
    /// Without a slash at its end.
    pub(super) path: String,
    /// `None` for what is not passed on.
    to: Option<&'t str>,
    /// It stands in a `<Location>`.
    is_path: bool,
    /// The path was written with a slash at its end.
    has_slash: bool,
}

impl<'t> Pass<'t> {
    /// What a rule of mod_rewrite passes on: what follows the prefix stands behind `to`.
    pub(super) fn of_rule(of: &'t Directive, prefix: &str, to: &'t str) -> Self {
        let path = prefix.trim_end_matches('/').to_owned();
        Self { of, path, to: Some(to), is_path: false, has_slash: prefix.ends_with('/') }
    }
}

/// Where FastCGI answers, as in `proxy:unix:/run/php/php-fpm.sock|fcgi://localhost/`.
pub(super) fn fastcgi(handler: &str) -> Option<String> {
    let target = handler.strip_prefix("proxy:").unwrap_or(handler);
    if let Some(socket) = target.strip_prefix("unix:") {
        let (path, scheme) = socket.split_once('|')?;
        return scheme.starts_with("fcgi:").then(|| format!("unix:{path}"));
    }
    let authority = target.strip_prefix("fcgi://")?.split('/').next()?;
    Some(if authority.contains(':') { authority.into() } else { format!("{authority}:9000") })
}

/// Whether a handler is that of plain files.
pub(super) fn is_none(handler: &str) -> bool {
    ["none", "default-handler"].contains(&&*handler.to_ascii_lowercase())
}

/// Adds what runs scripts. Of what Flash has no handler for, nobody gets the source. Returns a line that closes the whole spot.
pub(super) fn handlers<'t>(
    at: &At<'_, 't>,
    spot: Spot<'_>,
    settings: &mut Settings,
) -> Option<&'t Directive> {
    for of in files(&at.scope.levels) {
        let handler =
            of.block.iter().flatten().rfind(|of| of.name == "sethandler").and_then(|of| of.words.first());
        if let Some(address) = handler.and_then(|handler| fastcgi(handler)) {
            at.scope.see_all(of);
            covered(of).shapes.iter().filter_map(end_of).for_each(|end| run(settings, end, &address, of));
        }
    }
    by_end(at, settings);
    let is_prefix = spot.name.is_none() && !spot.url.is_empty();
    let handler = at.scope.last("sethandler").filter(|_| spot.name.is_none());
    match handler.and_then(|of| of.words.first()) {
        Some(name) if is_none(name) && is_prefix => {
            set_more(settings, "no-programs", spot.url, &handler?.source)
        }
        Some(name) if is_none(name) => {}
        Some(name) => match fastcgi(name) {
            Some(address) => run(settings, if is_prefix { spot.url } else { "/" }, &address, handler?),
            None => {
                at.left(handler?, "Flash has no such handler: nobody gets in here");
                return handler;
            }
        },
        None => {}
    }
    let engines = ["php_flag", "php_admin_flag", "php_value"].map(|name| at.scope.every(name)).concat();
    let is_off = |of: &&&Directive| {
        let words: Vec<String> = of.words.iter().map(|word| word.to_ascii_lowercase()).collect();
        words == ["engine", "off"] || words == ["engine", "0"]
    };
    if let Some(of) = engines.iter().find(is_off).filter(|_| is_prefix) {
        set_more(settings, "no-programs", spot.url, &of.source);
    }
    let routes = settings.get("fastcgi").map(|of| &of.value);
    let runs_php = matches!(routes, Some(Value::Table(routes)) if routes.keys().any(|key| key == ".php" || is_below(spot.url, key.trim_end_matches('/'))));
    if !runs_php {
        // Another file may say what runs them. Nobody gets their sources.
        let of = Source { text: "no handler for PHP".into(), ..at.source.clone() };
        set_more(settings, "deny", "*.php", &of);
        let why = "nothing here runs PHP: fastcgi = { \".php\" = \"unix:/run/php/php-fpm.sock\" } does, in place of deny";
        at.scope.everywhere(why, Paths::Has(".php".into()), Of::Everything);
    }
    None
}

fn end_of(shape: &Shape) -> Option<&str> {
    match shape {
        Shape::Ends(end) | Shape::Info(end) => Some(end),
        _ => None,
    }
}

/// Scripts by the ends of their names, from `AddHandler`, `AddType` and `ProxyPassMatch`.
fn by_end(at: &At<'_, '_>, settings: &mut Settings) {
    let handlers = at.scope.every("addhandler").into_iter();
    let types = at
        .scope
        .every("addtype")
        .into_iter()
        .filter(|of| of.words.first().is_some_and(|kind| kind.contains("x-httpd-")));
    for of in handlers.chain(types) {
        let Some((handler, ends)) = of.words.split_first() else { continue };
        let ends = ends.iter().map(|end| format!(".{}", end.trim_start_matches('.')));
        match fastcgi(handler) {
            Some(address) => {
                for end in ends {
                    run(settings, &end, &address, of);
                    inner_end(at, settings, &end, of);
                }
            }
            None if ["send-as-is", "type-map", "imap-file", "default-handler"]
                .contains(&handler.as_str()) =>
            {
                at.scope.left(of, "Flash has no such handler", Paths::None);
            }
            None => {
                for end in ends {
                    let why = format!("nothing here runs names that end in {end}: nobody gets them");
                    at.scope.left(of, why, Paths::Has(end.clone()));
                    set_more(settings, "deny", &format!("*{end}"), &of.source);
                }
            }
        }
    }
    for of in at.scope.every("proxypassmatch") {
        let [expression, to, ..] = &of.words[..] else { continue };
        let (Some(address), Some(ends)) = (fastcgi(to), ends_of(expression)) else { continue };
        let why = "scripts are found in the site's folder, and run if they are there";
        at.scope.differs(&of.source, why, Paths::Missing, Of::Everything);
        ends.iter().for_each(|end| run(settings, end, &address, of));
    }
}

/// mod_mime goes by each end that a name has. Flash shows what has one inside, so what people keep beside scripts is denied.
fn inner_end(at: &At<'_, '_>, settings: &mut Settings, end: &str, of: &Directive) {
    const KEPT: [&str; 9] = ["old", "save", "dist", "txt", "new", "copy", "sample", "1", "2"];
    for kept in KEPT {
        set_more(settings, "deny", &format!("*{end}.{kept}"), &of.source);
    }
    let why = format!(
        "Apache runs names that have {end} inside, too: Flash denies those such as a{end}.old, and shows others; FilesMatch \"\\{end}$\" is about ends"
    );
    at.scope.differs(&of.source, why, Paths::Has(format!("{end}.")), Of::Everything);
}

/// The ends of names that an expression is about, if it is about nothing else.
pub(super) fn ends_of(expression: &str) -> Option<Vec<String>> {
    let shapes = pattern::shapes(expression)?;
    let mut ends: Vec<String> =
        shapes.iter().map(|shape| end_of(shape).map(str::to_owned)).collect::<Option<_>>()?;
    ends.dedup();
    (!ends.is_empty()).then_some(ends)
}

/// `SetEnv`, which PHP is told.
pub(super) fn variables(at: &At<'_, '_>, settings: &mut Settings) {
    let lines = at.scope.every("setenv");
    let of_programs = lines.iter().filter(|of| of.words.first().is_some_and(|name| !of_apache(name)));
    let pairs: BTreeMap<String, String> = of_programs
        .filter_map(|of| Some((of.words.first()?.clone(), of.words.get(1).cloned().unwrap_or_default())))
        .collect();
    if !pairs.is_empty() {
        set(settings, "fastcgi-param", Value::Table(pairs), lines.last().copied());
    }
}

/// Variables by which Apache itself goes.
fn of_apache(name: &str) -> bool {
    [
        "no-gzip",
        "dont-vary",
        "nokeepalive",
        "force-proxy-request-1.0",
        "proxy-nokeepalive",
        "proxy-sendchunked",
        "proxy-sendcl",
    ]
    .contains(&name)
}

/// Adds a route for scripts.
pub(super) fn run(settings: &mut Settings, end: &str, address: &str, of: &Directive) {
    let routes = Setting::new(Value::Table(BTreeMap::new()), Some(&of.source));
    if let Value::Table(routes) = &mut settings.entry("fastcgi").or_insert(routes).value {
        routes.entry(end.into()).or_insert_with(|| address.into());
    }
}

/// All lines that pass paths on, the first one first. In a `<Location>` they leave its path out.
pub(super) fn passes<'t>(blocks: &[&'t [Directive]]) -> Vec<Pass<'t>> {
    let pass = |of: &'t Directive, path: &'t str, to: &'t str| Pass {
        of,
        path: path.trim_end_matches('/').into(),
        to: (to != "!").then_some(to),
        is_path: of.name == "proxypass" && of.words.len() < 2 || !of.words[0].starts_with('/'),
        has_slash: path.ends_with('/'),
    };
    let mut passes = Vec::new();
    for of in blocks.iter().copied().flatten() {
        match (&*of.name, &of.words[..]) {
            ("proxypass", [path, to, ..]) if path.starts_with('/') => passes.push(pass(of, path, to)),
            ("location", [path]) => {
                let inner = of.block.iter().flatten().filter(|of| of.name == "proxypass");
                passes.extend(inner.filter_map(|of| Some(pass(of, path, of.words.first()?))));
            }
            _ => {}
        }
    }
    passes
}

/// What passes a path on: the last of those that stand in sections, or else the first line that covers it.
pub(super) fn covering<'p, 't>(passes: &'p [Pass<'t>], url: &str) -> Option<&'p Pass<'t>> {
    let covers = |pass: &&Pass<'_>| is_below(url, &pass.path);
    let of_path = passes.iter().rev().filter(|pass| pass.is_path).find(covers);
    of_path.or_else(|| passes.iter().find(covers)).filter(|pass| pass.to.is_some())
}

/// Sets what an HTTP server needs. Returns whether it is not taken.
pub(super) fn proxy(
    at: &At<'_, '_>,
    pass: &Pass<'_>,
    balancers: &[&Directive],
    settings: &mut Settings,
) -> bool {
    at.scope.context.see(pass.of);
    let Some(to) = pass.to else { return false };
    let to =
        to.split_once('|').filter(|(socket, _)| socket.starts_with("unix:")).map_or(to, |(socket, _)| socket);
    let (scheme, rest) = to.split_once("://").unwrap_or(("unix", to));
    let (authority, path) = rest.split_at(rest.find('/').filter(|_| scheme != "unix").unwrap_or(rest.len()));
    let servers: Vec<String> = match scheme {
        "unix" if to.starts_with("unix:") => vec![to.into()],
        "http" | "https" => vec![format!("{scheme}://{authority}")],
        "ws" | "wss" => vec![format!("http{}://{authority}", &scheme[2..])],
        "balancer" => members(at, authority, balancers),
        _ => Vec::new(),
    };
    if servers.is_empty() || to.contains(['$', '{']) {
        at.left(
            pass.of,
            "Flash passes requests on to HTTP and FastCGI servers: write proxy = \"http://HOST:PORT\"",
        );
        return true;
    }
    if servers.iter().any(|server| server.starts_with("https:")) && !at.scope.is_on("sslproxyverify") {
        at.differs(
            pass.of,
            "Flash looks at the server's certificate: proxy-ca names an authority of your own",
        );
    }
    let base = path.trim_end_matches('/');
    if base != pass.path {
        if !pass.path.is_empty() {
            set(settings, "strip-prefix", Value::Text(pass.path.clone()), Some(pass.of));
        }
        if pass.has_slash != path.ends_with('/') {
            at.differs(pass.of, "the server gets one slash between its path and what follows the prefix");
        } else if !pass.has_slash {
            let why = "the server gets a slash behind its path";
            at.scope.differs(&pass.of.source, why, Paths::Exact(pass.path.clone()), Of::Everything);
        }
    }
    let base = if base == pass.path { "" } else { base };
    if !base.is_empty() && servers.iter().any(|server| server.starts_with("unix:")) {
        at.left(pass.of, "a socket has no path: write proxy without one");
        return true;
    }
    let mut urls: Vec<String> = servers.iter().map(|server| format!("{server}{base}")).collect();
    let value = if urls.len() == 1 { Value::Text(urls.remove(0)) } else { Value::Texts(urls) };
    set(settings, "proxy", value, Some(pass.of));
    if !at.scope.is_on("proxypreservehost") {
        let host = servers[0].split_once("://").map_or("localhost", |(_, host)| host);
        set(settings, "proxy-host", Value::Text(host.into()), None);
    }
    told(at, settings);
    let why = "redirections of the application pass as they are: it is told X-Forwarded-Host";
    at.scope.differs(&pass.of.source, why, at.concerns.clone(), Of::Location);
    false
}

/// `<Proxy balancer://name>` with its members.
fn members(at: &At<'_, '_>, name: &str, balancers: &[&Directive]) -> Vec<String> {
    let is_named = |of: &&&Directive| {
        of.words.first().is_some_and(|word| word.trim_end_matches('/') == format!("balancer://{name}"))
    };
    let mut servers = Vec::new();
    for block in balancers.iter().filter(is_named) {
        at.scope.context.see(block);
        for of in block.block.iter().flatten() {
            at.scope.context.see(of);
            match (&*of.name, of.words.first()) {
                ("balancermember", Some(url)) if !of.words.iter().any(|word| word == "status=+D") => {
                    servers.push(url.trim_end_matches('/').to_owned());
                    if of.words.iter().any(|word| word.starts_with("loadfactor=") || word == "status=+H") {
                        at.scope.left(of, "all servers have the same part of the requests", Paths::None);
                    }
                }
                ("proxyset", _) => {
                    at.scope.left(of, "balance knows least-requests and round-robin", Paths::None)
                }
                _ => {}
            }
        }
    }
    servers
}

/// `RequestHeader`.
fn told(at: &At<'_, '_>, settings: &mut Settings) {
    let (mut fields, mut last) = (BTreeMap::new(), None);
    for of in at.scope.every("requestheader") {
        match &of.words[..] {
            [action, name] if action.eq_ignore_ascii_case("unset") => {
                fields.insert(name.clone(), String::new());
            }
            [action, name, value]
                if action.eq_ignore_ascii_case("set") && !value.contains("%{") && !is_told(name) =>
            {
                fields.insert(name.clone(), value.clone());
            }
            [action, name, value]
                if action.eq_ignore_ascii_case("set")
                    && name.eq_ignore_ascii_case("host")
                    && !value.contains('%') =>
            {
                set(settings, "proxy-host", Value::Text(value.clone()), Some(of));
                continue;
            }
            [_, name, value, ..] if is_told(name) && value.contains("%{") => continue,
            _ => {
                at.scope.left(of, "Flash fills in no variables: write proxy-header", Paths::None);
                continue;
            }
        }
        last = Some(of);
    }
    if !fields.is_empty() {
        set(settings, "proxy-header", Value::Table(fields), last);
    }
}

/// What servers are told by Flash, too.
fn is_told(name: &str) -> bool {
    ["x-forwarded-proto", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "host"]
        .contains(&&*name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers() {
        for (handler, expected) in [
            ("proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost", Some("unix:/run/php/php8.2-fpm.sock")),
            ("proxy:unix:/run/a.sock|fcgi://localhost/", Some("unix:/run/a.sock")),
            ("proxy:fcgi://127.0.0.1:9000", Some("127.0.0.1:9000")),
            ("fcgi://127.0.0.1:9000/var/www/$1", Some("127.0.0.1:9000")),
            ("proxy:unix:/run/a.sock|http://localhost/", None),
            ("application/x-httpd-php", None),
        ] {
            assert_eq!(fastcgi(handler).as_deref(), expected, "{handler}");
        }
    }
}
