//! What answers a path: the folder, its index, fields, compression.

use std::collections::BTreeMap;

use super::logs;
use crate::flash::{Settings, Value, set};
use crate::note::{Of, Paths, Source};
use crate::scope::Scope;

/// Where nginx looks without `root`.
const DEFAULT_ROOT: &str = "/usr/share/nginx/html";

/// The settings of files at a place whose location begins with `prefix`.
pub(super) fn settings(scope: &Scope<'_>, prefix: &str, concerns: &Paths) -> Settings {
    let mut settings = Settings::new();
    folder(scope, prefix, matches!(concerns, Paths::Exact(_)), &mut settings);
    let index = scope.last("index");
    let names: Vec<String> = index.map_or_else(|| vec!["index.html".into()], |index| index.words.clone());
    let (files, paths): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| !name.contains(['/', '$']));
    if let (Some(index), false) = (index, paths.is_empty()) {
        scope.differs(
            &index.source,
            format!("an index is the name of a file: {} was left out", paths.join(", ")),
            Paths::Folders,
            Of::Everything,
        );
    }
    set(&mut settings, "index", Value::Texts(files), index);
    if scope.is_on("autoindex") {
        set(&mut settings, "list", Value::Flag(true), scope.last("autoindex"));
        if let Some(of) = scope.last("autoindex") {
            scope.differs(&of.source, "listings have another look", Paths::Folders, Of::Everything);
        }
    }
    for of_listings in ["autoindex_exact_size", "autoindex_localtime", "autoindex_format"] {
        scope.all(of_listings);
    }
    compression(scope, &mut settings);
    fields(scope, concerns, &mut settings);
    logs::settings(scope, &mut settings);
    if let Some(size) = scope.last("client_max_body_size") {
        let bytes = size.words.first().map(|word| word.to_ascii_uppercase()).unwrap_or_default();
        let bytes = if bytes == "0" { "1024G".into() } else { bytes };
        set(&mut settings, "body-bytes-max", Value::Text(bytes), Some(size));
    }
    if scope.word("etag") == Some("off") {
        set(&mut settings, "etag", Value::Text("off".into()), scope.last("etag"));
    }
    settings
}

fn folder(scope: &Scope<'_>, prefix: &str, is_exact: bool, settings: &mut Settings) {
    // The innermost of both counts. A server that is asked instead gets the path as it is.
    let is_proxied = scope.own("proxy_pass").next().is_some();
    let alias = scope.own("alias").last().filter(|_| !is_proxied);
    let root = scope.last("root");
    match (alias, root) {
        (Some(alias), _) if is_exact => {
            let (folder, name) =
                alias.words.first().and_then(|word| word.rsplit_once('/')).unwrap_or_default();
            set(
                settings,
                "root",
                Value::Text(if folder.is_empty() { "/" } else { folder }.into()),
                Some(alias),
            );
            match prefix.rsplit_once('/') {
                Some((above, own)) if own == name && above.is_empty() => {}
                Some((above, own)) if own == name => {
                    set(settings, "strip-prefix", Value::Text(above.into()), Some(alias))
                }
                _ => set(settings, "fallback", Value::Text(format!("/{name}")), Some(alias)),
            }
        }
        (Some(alias), _) => {
            let folder = alias.words.first().map_or("", |word| word.trim_end_matches('/'));
            let folder = if folder.is_empty() { "/" } else { folder };
            set(settings, "root", Value::Text(folder.into()), Some(alias));
            let prefix = prefix.trim_end_matches('/');
            if !prefix.is_empty() {
                set(settings, "strip-prefix", Value::Text(prefix.into()), Some(alias));
            }
            if folder.contains('$') {
                scope.left(
                    alias,
                    "Flash fills in no variables: write the folder",
                    Paths::Begins(prefix.into()),
                );
            }
        }
        (None, Some(root)) => {
            let folder = root.words.first().map_or("", |word| word.trim_end_matches('/'));
            let folder = if folder.is_empty() { "/" } else { folder };
            if folder.contains('$') {
                scope.left(root, "Flash fills in no variables: write a site for each folder", Paths::All);
            }
            let folder =
                if folder.starts_with('/') { folder.into() } else { format!("/usr/share/nginx/{folder}") };
            set(settings, "root", Value::Text(folder), Some(root));
        }
        (None, None) => set(settings, "root", Value::Text(DEFAULT_ROOT.into()), None),
    }
}

fn compression(scope: &Scope<'_>, settings: &mut Settings) {
    let gzip = scope.last("gzip");
    let compress = if scope.is_on("gzip") { "gzip" } else { "off" };
    set(settings, "compress", Value::Text(compress.into()), gzip);
    let is_static =
        ["gzip_static", "brotli_static"].iter().any(|name| matches!(scope.word(name), Some("on" | "always")));
    set(settings, "no-precompressed", Value::Flag(!is_static), scope.last("gzip_static"));
}

/// `add_header`, but for Cache-Control.
fn fields(scope: &Scope<'_>, concerns: &Paths, settings: &mut Settings) {
    let mut fields = BTreeMap::new();
    let mut last = None;
    for of in scope.all("add_header") {
        let [name, value, ..] = &of.words[..] else { continue };
        if name.eq_ignore_ascii_case("cache-control") || value.is_empty() {
            continue;
        }
        if value.contains('$') {
            scope.left(of, "Flash fills in no variables in fields", Paths::None);
            continue;
        }
        if ["content-type", "content-encoding"].contains(&&*name.to_ascii_lowercase()) {
            let of_field = if name.eq_ignore_ascii_case("content-type") { Of::Type } else { Of::Everything };
            scope.differs(
                &of.source,
                format!("{name} takes the place of the one that nginx sends beside it"),
                concerns.clone(),
                of_field,
            );
        }
        if fields.insert(name.clone(), value.clone()).is_some() {
            scope.differs(
                &of.source,
                "a field has one value: this one takes the place of the line before",
                Paths::None,
                Of::Everything,
            );
        }
        last = Some(of);
    }
    if let Some(last) = last {
        set(settings, "header", Value::Table(fields), Some(last));
    }
}

/// The value of Cache-Control that `expires` and `add_header` make, with the line that it is made of.
pub(super) fn cache_control<'t>(scope: &Scope<'t>) -> Option<(String, &'t Source)> {
    let mut values = Vec::new();
    let mut source = None;
    if let Some(expires) = scope.last("expires") {
        let word = expires.words.first().map_or("", String::as_str);
        let value = match word {
            "off" => None,
            "max" => Some("max-age=315360000".to_owned()),
            "epoch" => Some("no-cache".into()),
            _ if word.starts_with('$') || expires.words.len() > 1 || word.starts_with('@') => {
                scope.left(
                    expires,
                    "Flash has one Cache-Control for a rule, and no Expires: write cache-control",
                    Paths::All,
                );
                None
            }
            _ => match seconds(word) {
                Some(time) if time < 0 => Some("no-cache".into()),
                Some(time) => Some(format!("max-age={time}")),
                None => None,
            },
        };
        source = value.as_ref().map(|_| &expires.source);
        values.extend(value);
    }
    for of in scope.all("add_header") {
        let [name, value, ..] = &of.words[..] else { continue };
        if name.eq_ignore_ascii_case("cache-control") && !value.is_empty() && !value.contains('$') {
            values.push(value.clone());
            source = Some(&of.source);
        }
    }
    Some((values.join(", "), source?))
}

/// A time as nginx has it: `1y 2M 3d`, `-1`, or seconds.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let (sign, mut rest) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let mut all: i64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: i64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let each = match rest[..unit].trim() {
            "y" => 31_536_000,
            "M" => 2_592_000,
            "w" => 604_800,
            "d" => 86_400,
            "h" => 3600,
            "m" => 60,
            "s" | "" => 1,
            "ms" => return Some(sign * (all + number / 1000)),
            _ => return None,
        };
        all = all.checked_add(number.checked_mul(each)?)?;
        rest = &rest[unit..];
    }
    Some(sign * all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_nginx() {
        for (text, expected) in [
            ("30d", Some(2_592_000)),
            ("1y", Some(31_536_000)),
            ("1h30m", Some(5400)),
            ("-1", Some(-1)),
            ("0", Some(0)),
            ("3600", Some(3600)),
            ("1500ms", Some(1)),
            ("1x", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
