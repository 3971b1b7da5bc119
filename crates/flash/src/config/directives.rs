//! Directives of nginx, and what to write in the file instead. Only names that are no keys here stand in the table.
//!
//! The page `docs/from-nginx.md` has more of them. Flags of other servers are looked up elsewhere.

/// Names, with a dash for each low line, and what meets the same need.
const TABLE: &[(&[&str], &str)] = &[
    (&["location"], "write a place in its site: \"/path\" = { list = true }"),
    (&["server"], "write a table for each site: [site.\"www.example.org\"]"),
    (
        &["server-name"],
        "write a table for its site, [site.\"www.example.org\"], and further hosts as names = [\"example.org\"]",
    ),
    (&["return", "rewrite"], "write a place: \"/old\" = { redirect = \"/new{rest}\" }"),
    (&["alias"], "write a place: \"/docs\" = { root = \"/srv/docs\", strip-prefix = \"/docs\" }"),
    (&["try-files"], "write fallback = \"/index.php\", or spa = \"index.html\", or extensions = [\".html\"]"),
    (&["expires"], "write cache-control = \"max-age=3600\""),
    (&["add-header"], "write header = { \"Name\" = \"value\" }"),
    (&["error-page"], "write error-pages = \"/srv/errors\", a folder with 404.html and the like"),
    (&["proxy-pass"], "write proxy = \"http://127.0.0.1:3000\", or a list of servers"),
    (&["proxy-set-header"], "write proxy-header = { \"Name\" = \"value\" }, or proxy-host = \"NAME\""),
    (&["fastcgi-pass"], "write fastcgi = { \".php\" = \"unix:/run/php/php-fpm.sock\" }"),
    (&["fastcgi-index"], "leave it out: an index is found by its name"),
    (&["map"], "write redirects = \"/etc/flash/moved.txt\", a file of old and new paths"),
    (&["client-max-body-size"], "write body-bytes-max = \"16M\""),
    (&["worker-processes"], "leave it out, or write loops = 4: there is a loop for each processor"),
    (&["worker-connections"], "leave it out, or write connections-max = 10000"),
    (&["keepalive-timeout"], "write idle-timeout = \"60s\""),
    (
        &["ssl-certificate", "ssl-certificate-key"],
        "write tls = { certificate = \"/etc/tls/fullchain.pem\", key = \"/etc/tls/privkey.pem\" }",
    ),
    (&["autoindex"], "write list = true"),
    (&["limit-req", "limit-req-zone"], "write limit = \"20/s burst 40\""),
    (&["limit-conn", "limit-conn-zone"], "write connections-per-client = 10"),
    (&["auth-basic", "auth-basic-user-file"], "write auth = \"/etc/flash/staff.htpasswd\""),
    (&["limit-except"], "write methods = [\"GET\"]"),
    (&["sendfile", "tcp-nopush", "tcp-nodelay"], "leave it out: Flash sends files in the best way by itself"),
    (&["default-type"], "write header = { \"Content-Type\" = \"text/plain\" } in a place"),
];

/// What to write instead of a directive, if it is one.
pub(super) fn instead(name: &str) -> Option<&'static str> {
    TABLE.iter().find(|(names, _)| names.contains(&name)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;

    #[test]
    fn no_directive_hides_a_key_and_each_advice_names_keys_that_there_are() {
        let known = keys::of_flags();
        for (names, instead) in TABLE {
            for name in *names {
                assert!(known.get(name).is_none(), "{name} is a key");
            }
            for (before, _) in instead.match_indices(" = ").map(|(at, _)| instead.split_at(at)) {
                let key = before.rsplit([' ', '{']).next().unwrap_or_default();
                let is_quoted = key.starts_with('"');
                let is_inner = ["names", "certificate", "key"].contains(&key);
                assert!(is_quoted || is_inner || known.get(key).is_some(), "{key} in {instead}");
            }
        }
        assert_eq!(instead("autoindex"), Some("write list = true"));
    }
}
