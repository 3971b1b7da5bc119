//! A line of the file for each key, as an example.

use flash_config::Kind;

/// Values that do not follow from the key's form. A test reads all of them.
const VALUES: &[(&str, &str)] = &[
    ("access-log", r#""/var/log/flash/access.log""#),
    ("acme-account", r#""/etc/flash/authority.account""#),
    ("acme-ca", r#""/etc/tls/authority.pem""#),
    ("acme-directory", r#""https://acme-staging-v02.api.letsencrypt.org/directory""#),
    ("acme-dns", r#""/etc/flash/dns-hook""#),
    ("acme-email", r#""admin@example.org""#),
    ("acme-folder", r#""/srv/shared/acme""#),
    ("acme-profile", r#""shortlived""#),
    ("admin", r#""unix:/run/flash/admin.sock""#),
    ("admin-hosts", r#"["flash.example.org"]"#),
    ("admin-listen", r#""127.0.0.1:9180""#),
    ("allow", r#"["192.0.2.0/24", "2001:db8::/32"]"#),
    ("app", r#"{ ".php" = "php-cgi" }"#),
    ("auth", r#""/etc/flash/staff.htpasswd""#),
    ("cache-control", r#"["/assets=max-age=31536000, immutable", "no-cache"]"#),
    ("cgi", r#"{ "/cgi-bin" = "/usr/lib/cgi-bin" }"#),
    ("cgi-direct", r#"{ "/out" = "/usr/lib/cgi-bin" }"#),
    ("cgi-user", r#""www-cgi""#),
    ("client-ca", r#""/etc/tls/clients.pem""#),
    ("compress", r#""br,gzip""#),
    ("compress-programs", r#""zstd,gzip""#),
    ("connections-max", "65536"),
    ("connections-per-client", "100"),
    ("deny", r#"["*.sql", "/private"]"#),
    ("digest-store", r#""/var/cache/flash/digests""#),
    ("error-log", r#""/var/log/flash/error.log""#),
    ("error-pages", r#""/srv/errors""#),
    ("extensions", r#"[".html"]"#),
    ("fallback-root", r#""/srv/previous""#),
    ("field-rules", r#"{ User-Agent = "/etc/flash/crawlers.txt" }"#),
    ("fallback", r#""index.php""#),
    ("fastcgi", r#"{ ".php" = "unix:/run/php/php-fpm.sock" }"#),
    ("files", r#"{ "/protected" = "/srv/private" }"#),
    ("handshakes-max", "8192"),
    ("header", r#"{ "X-Frame-Options" = "DENY" }"#),
    ("hsts", r#""365d; includeSubDomains""#),
    ("host", r#""0.0.0.0""#),
    ("index", r#"["index.html", "index.htm"]"#),
    ("limit", r#""20/s burst 40""#),
    ("listen", r#"[":80", "https://:443", "unix:/run/flash.sock"]"#),
    ("proxy", r#""http://127.0.0.1:3000""#),
    ("proxy-ca", r#""/etc/flash/internal-ca.pem""#),
    ("proxy-header", r#"{ "X-Site" = "shop" }"#),
    ("proxy-response-header", r#"{ "X-Powered-By" = "" }"#),
    ("proxy-host", r#""app.internal""#),
    ("rate", r#""2M/s burst 20M""#),
    ("rate-total", r#""100M/s""#),
    ("charset", r#""iso-8859-1""#),
    ("log-status", r#"["404", "5xx"]"#),
    ("log-fields", r#"["time", "client", "request", "status", "request_id"]"#),
    ("list-footer", r#""README""#),
    ("list-header", r#""/HEADER.html""#),
    ("methods", r#"["GET", "POST"]"#),
    ("no-header", r#"["X-Powered-By"]"#),
    ("path-cache", "100000"),
    ("port", "3000"),
    ("processes-max", "512"),
    ("threads-max", "4096"),
    ("fastcgi-param", r#"{ APP_ENV = "production" }"#),
    ("satisfy", r#""any""#),
    ("respond", r#"{ status = 503, retry-after = "10m", except = ["10.0.0.0/8"] }"#),
    ("redirects", r#""/etc/flash/moved.txt""#),
    ("redirect", r#""https://example.org{path}""#),
    ("strip-prefix", r#""/docs""#),
    ("no-programs", r#"["/uploads"]"#),
    ("root", r#""/srv/site""#),
    ("signed", r#"{ key = { file = "/etc/flash/links.key" } }"#),
    ("spa", r#""index.html""#),
    ("tls", r#"{ certificate = "/etc/tls/fullchain.pem", key = "/etc/tls/privkey.pem" }"#),
    ("trusted-proxies", r#"["127.0.0.1", "10.0.0.0/8"]"#),
    ("system-calls", r#""portable+mincore""#),
    ("types", r#"{ "*.br.js" = "text/javascript", "README" = "text/plain; charset=utf-8" }"#),
    ("upstream", r#"{ app = { servers = ["http://10.0.0.1:8000", "http://10.0.0.2:8000"] } }"#),
    ("user", r#""www-data""#),
];

/// `NAME = VALUE`.
pub(super) fn line(name: &str, kind: &Kind, default: Option<&str>) -> String {
    let known = VALUES.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    let value = known.unwrap_or_else(|| match (kind, default) {
        (Kind::Switch | Kind::SwitchOr { .. }, _) => "true".into(),
        (Kind::Number, default) => default.unwrap_or("8").into(),
        (Kind::Bytes, default) => format!("\"{}\"", default.unwrap_or("64M")),
        (Kind::Duration, default) => format!("\"{}\"", default.unwrap_or("10s")),
        (Kind::Choice(words), default) => {
            let word = words.iter().find(|word| Some(word.as_str()) != default);
            format!("\"{}\"", word.map_or("", String::as_str))
        }
        _ => String::new(),
    });
    format!("{name} = {value}")
}
