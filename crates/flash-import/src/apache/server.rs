//! What stands above the sites: listeners, user, logs, times.

use crate::directive::Directive;
use crate::flash::{Setting, Settings, Value, set};
use crate::hosts::{self, Block, Listen};
use crate::note::{Of, Paths};
use crate::scope::Scope;
use crate::tls::Tls;

/// Flash does these by itself, or they say how Apache does something.
const NOTHING_TO_SET: &[&str] = &[
    "loadmodule",
    "serverroot",
    "servername",
    "serveralias",
    "serveradmin",
    "serversignature",
    "servertokens",
    "pidfile",
    "mutex",
    "defaultruntimedir",
    "keepalive",
    "maxkeepaliverequests",
    "keepalivetimeout",
    "timeout",
    "hostnamelookups",
    "loglevel",
    "startservers",
    "minspareservers",
    "maxspareservers",
    "minsparethreads",
    "maxsparethreads",
    "threadlimit",
    "threadsperchild",
    "maxrequestworkers",
    "maxconnectionsperchild",
    "serverlimit",
    "maxclients",
    "maxrequestsperchild",
    "allowoverride",
    "enablesendfile",
    "enablemmap",
    "usecanonicalname",
    "typesconfig",
    "addlanguage",
    "languagepriority",
    "forcelanguagepriority",
    "addencoding",
    "browsermatch",
    "setenvifnocase",
    "indexoptions",
    "addicon",
    "addiconbytype",
    "addiconbyencoding",
    "addalt",
    "defaulticon",
    "addaltbytype",
    "addaltbyencoding",
    "readmename",
    "headername",
    "indexignore",
    "indexorderdefault",
    "sslprotocol",
    "sslciphersuite",
    "sslhonorcipherorder",
    "sslsessioncache",
    "sslsessioncachetimeout",
    "sslsessiontickets",
    "sslrandomseed",
    "sslpassphrasedialog",
    "ssloptions",
    "sslcompression",
    "sslengine",
    "sslproxyengine",
    "sslopensslconfcmd",
    "protocols",
    "protocolshonororder",
    "h2push",
    "deflatecompressionlevel",
    "traceenable",
    "serverpath",
    "proxyrequests",
    "proxyvia",
    "proxypassreverse",
    "proxypassreversecookiepath",
    "proxypassreversecookiedomain",
    "proxyaddheaders",
    "proxytimeout",
    "proxyerroroverride",
    "requestreadtimeout",
    "addinputfilter",
    "documentroot",
    "authname",
    "authtype",
    "acceptpathinfo",
    "allowencodedslashes",
    "mergeslashes",
    "namevirtualhost",
    "extendedstatus",
    "proxystatus",
    "scriptsock",
    "cgipassauth",
    "fcgibackendtype",
    "modmimeusepathinfo",
    "defaultlanguage",
    "contentdigest",
    "limitrequestfields",
    "limitrequestfieldsize",
    "limitrequestline",
    "brotlicompressionquality",
    "proxyiobuffersize",
    "rewriteengine",
    "rewritemap",
    "rewritebase",
    "indexstylesheet",
    "listen",
    "user",
    "group",
    "expiresactive",
    "setenvif",
];

/// Whether Flash does by itself what a line asks for.
pub(super) fn needs_nothing(name: &str) -> bool {
    NOTHING_TO_SET.contains(&name)
}

/// What to do about lines that Flash has nothing for.
pub(super) fn advice(name: &str) -> &'static str {
    match name {
        "sslusestapling" | "sslstaplingcache" | "sslstaplingrespondertimeout" => {
            "Flash staples an answer of OCSP that lies beside the certificate, with .ocsp behind its name"
        }
        "sslcertificatechainfile" => "append the chain to the certificate's file",
        "php_value" | "php_flag" | "php_admin_value" | "php_admin_flag" => {
            "write it into php.ini, .user.ini or the pool of php-fpm"
        }
        "passenv" | "unsetenv" => "programs are told the variables of CGI, and those of fastcgi-param",
        "secruleengine" | "secrule" => "Flash has no rules about content",
        "cacheenable" | "cacheroot" => "Flash keeps no answers of programs: let the program do it",
        "if" | "elseif" | "else" => "Flash has no such condition: write sites and places",
        "dav" => "Flash writes no files",
        "wsgiscriptalias" | "wsgidaemonprocess" | "wsgiprocessgroup" | "passengerenabled" => {
            "run the application as an HTTP server, and write proxy"
        }
        "sethandler" => "Flash has no such handler",
        _ => "Flash has nothing like it",
    }
}

/// Where all servers listen.
pub(super) fn listens(main: &[Directive]) -> Vec<(String, bool)> {
    let lines = main.iter().filter(|of| of.name == "listen");
    lines
        .filter_map(|of| {
            let is_tls = of.words.get(1).is_some_and(|word| word.eq_ignore_ascii_case("https"));
            Some((address(of.words.first()?), is_tls))
        })
        .collect()
}

/// An address with its port, as in `*:80`. All addresses are those of both kinds.
pub(super) fn address(text: &str) -> String {
    match text.rsplit_once(':').filter(|(_, port)| !port.is_empty() && !port.contains(']')) {
        Some(("*" | "_default_" | "0.0.0.0" | "[::]", port)) => format!(":{port}"),
        Some(_) => text.into(),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => format!(":{text}"),
        None if text == "*" || text == "_default_" => ":80".into(),
        None => format!("{text}:80"),
    }
}

/// The listeners of a virtual host: those that its addresses cover, or the addresses themselves.
pub(super) fn of_host(addresses: &[String], listens: &[(String, bool)], is_tls: bool) -> Vec<Listen> {
    let port = |text: &str| text.rsplit_once(':').map(|(_, port)| port.to_owned()).unwrap_or_default();
    let mut found: Vec<Listen> = Vec::new();
    for text in addresses {
        let own = address(text);
        let covered = listens.iter().map(|(at, _)| at.clone()).filter(|at| {
            *at == own || own.starts_with(':') && port(at) == port(&own) || text.ends_with(":*")
        });
        let covered: Vec<String> = covered.collect();
        let all = if covered.is_empty() { vec![own] } else { covered };
        for at in all {
            if !found.iter().any(|known| known.at == at) {
                found.push(Listen::new(at, is_tls, false, false));
            }
        }
    }
    found
}

pub(super) fn settings(main: &Scope<'_>, blocks: &[Block<'_>], scopes: &[Scope<'_>]) -> Settings {
    let mut settings = Settings::new();
    let listens = hosts::listeners(blocks.iter().flat_map(|block| &block.listens));
    set(&mut settings, "listen", Value::Texts(listens), main.last("listen"));
    if let Some((of, user)) = main.last("user").and_then(|of| Some((of, of.words.first()?))) {
        let group = main.word("group").map(|group| format!(":{group}")).unwrap_or_default();
        set(&mut settings, "user", Value::Text(format!("{user}{group}")), Some(of));
    }
    for (name, key) in [("keepalivetimeout", "idle-timeout"), ("timeout", "program-deadline")] {
        let time = main.last(name).and_then(|of| Some((of, of.words.first()?.parse::<u64>().ok()?)));
        if let Some((of, time)) = time.filter(|(_, time)| *time > 0) {
            set(&mut settings, key, Value::Text(format!("{time}s")), Some(of));
        }
    }
    logs(main, scopes, &mut settings);
    proxies(main, &mut settings);
    let folders = main.every("userdir").into_iter();
    for of in folders.filter(|of| of.words.first().is_some_and(|word| word != "disabled")) {
        let why = "users' folders have guards of their own: look at them, and write user-dirs = true";
        main.left(of, why, Paths::Begins("/~".into()));
    }
    settings
}

fn logs(main: &Scope<'_>, scopes: &[Scope<'_>], settings: &mut Settings) {
    access_log(main, settings);
    let all = || [main].into_iter().chain(scopes);
    if all().any(|scope| ["customlog", "transferlog"].iter().any(|name| scope.own(name).next().is_some())) {
        settings.insert("log-format", Setting::new(Value::Text("combined".into()), None));
    }
    for of in scopes.iter().chain([main]).flat_map(|scope| scope.own("errorlog")) {
        match settings.contains_key("error-log") {
            true => main.differs(&of.source, "all sites have one error log", Paths::None, Of::Everything),
            false => log(main, "error-log", of, settings),
        }
    }
    for of in main.every("logformat") {
        let is_known = of.words.last().is_some_and(|name| {
            ["combined", "common", "referer", "agent", "vhost_combined"].contains(&&**name)
        });
        if !is_known {
            main.left(of, "a log has one of Flash's formats: log-format, log-fields", Paths::None);
        }
    }
}

/// The access log of the server, or of a virtual host.
pub(super) fn access_log(scope: &Scope<'_>, settings: &mut Settings) {
    let mut all = scope.own("customlog").chain(scope.own("transferlog"));
    if let Some(of) = all.next() {
        log(scope, "access-log", of, settings);
    }
    for more in all {
        scope.left(more, "a request has a line in one log", Paths::None);
    }
}

fn log(scope: &Scope<'_>, key: &'static str, of: &Directive, settings: &mut Settings) {
    let path = of.words.first().map_or("", String::as_str);
    if path.starts_with(['|', '$']) || path.contains('%') {
        let why = "a log is a file or syslog: let logrotate and flash reopen turn it over";
        return scope.left(of, why, Paths::None);
    }
    let is_whole = path.starts_with('/') || path.starts_with("syslog");
    let path = if is_whole { path.into() } else { format!("/etc/apache2/{path}") };
    set(settings, key, Value::Text(path), Some(of));
}

/// `RemoteIPTrustedProxy` and `RemoteIPInternalProxy`.
fn proxies(main: &Scope<'_>, settings: &mut Settings) {
    let lines = [main.every("remoteiptrustedproxy"), main.every("remoteipinternalproxy")].concat();
    let trusted: Vec<String> = lines.iter().flat_map(|of| of.words.iter().cloned()).collect();
    if let Some(of) = lines.first() {
        set(settings, "trusted-proxies", Value::Texts(trusted), Some(of));
    }
    let field = main.last("remoteipheader");
    if let Some(of) = field.filter(|_| lines.is_empty()) {
        main.left(of, "write trusted-proxies: without them, a field is nobody's word", Paths::All);
    }
    if let Some(of) =
        field.filter(|of| !of.words.iter().any(|word| word.eq_ignore_ascii_case("x-forwarded-for")))
    {
        main.left(of, "proxies name clients in X-Forwarded-For or Forwarded", Paths::None);
    }
}

/// The certificates of a virtual host.
pub(super) fn tls(scope: &Scope<'_>) -> Settings {
    let verifies = scope.last("sslverifyclient");
    let how = match verifies.and_then(|of| of.words.first()).map(|word| word.to_ascii_lowercase()).as_deref()
    {
        Some("require") => Some("required"),
        Some("optional" | "optional_no_ca") => Some("asked"),
        _ => None,
    };
    let tls = Tls {
        certificates: scope.all("sslcertificatefile"),
        keys: scope.all("sslcertificatekeyfile"),
        clients: verifies.zip(how),
        authorities: how.and_then(|_| scope.last("sslcacertificatefile")),
    };
    tls.settings()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("80", ":80"),
            ("*:80", ":80"),
            ("_default_:443", ":443"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:80", "[::1]:80"),
            ("[::1]", "[::1]:80"),
            ("*", ":80"),
            ("192.0.2.1", "192.0.2.1:80"),
        ] {
            assert_eq!(address(text), expected, "{text}");
        }
        let listens = [(":80".to_owned(), false), ("127.0.0.1:443".to_owned(), true)];
        let texts = |address: &str, is_tls| -> Vec<String> {
            of_host(&[address.into()], &listens, is_tls).into_iter().map(|listen| listen.text).collect()
        };
        assert_eq!(texts("*:80", false), [":80"]);
        assert_eq!(texts("*:443", true), ["127.0.0.1:443"]);
        assert_eq!(texts("*:8443", true), ["https://:8443"]);
    }
}
