//! What answers a path from a folder: index, listings, types, fields, compression, pages for errors.

use std::collections::BTreeMap;

use flash_http::media;

use super::at::At;
use crate::directive::Directive;
use crate::flash::{Settings, Value, set};
use crate::note::{Of, Paths};
use crate::scope::Scope;

/// Apache's own, without `DirectoryIndex`.
const DEFAULT_INDEX: &str = "index.html";

pub(super) fn settings(at: &At<'_, '_>, root: &str, settings: &mut Settings) {
    index(at, settings);
    options(at, settings);
    compression(at, settings);
    fields(at, settings);
    types(at, settings);
    error_pages(at, root, settings);
    let scope = at.scope;
    if let Some(size) = scope.last("limitrequestbody") {
        let bytes = size.words.first().filter(|bytes| *bytes != "0").map_or("1024G", String::as_str);
        set(settings, "body-bytes-max", Value::Text(bytes.into()), Some(size));
    } else {
        // 1 GiB is Apache's own.
        set(settings, "body-bytes-max", Value::Text("1G".into()), None);
    }
    if let Some(of) = scope.last("fileetag").filter(|of| of.words.iter().any(|word| is(word, "none"))) {
        set(settings, "etag", Value::Text("off".into()), Some(of));
    }
    if let Some(of) = scope.last("fallbackresource").filter(|of| of.words != ["disabled"]) {
        set_fallback(scope, settings, of.words.first().map_or("", String::as_str), of);
    }
}

/// What answers without a file, as the line has it.
pub(super) fn set_fallback(scope: &Scope<'_>, settings: &mut Settings, path: &str, line: &Directive) {
    set(settings, "fallback", Value::Text(path.into()), Some(line));
    let why = "the fallback answers for a folder without an index, too, and for paths below a file";
    let paths = Paths::Any(vec![Paths::Folders, Paths::BelowFiles]);
    scope.differs(&line.source, why, paths, Of::Everything);
}

fn is(word: &str, other: &str) -> bool {
    word.eq_ignore_ascii_case(other)
}

fn index(at: &At<'_, '_>, settings: &mut Settings) {
    // Several lines are one list.
    let lines = at.scope.all("directoryindex");
    let names: Vec<String> = match lines.is_empty() {
        true => vec![DEFAULT_INDEX.into()],
        false => lines.iter().flat_map(|of| of.words.iter().cloned()).collect(),
    };
    let (files, paths): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| !name.contains('/') && name != "disabled");
    if let (Some(of), false) = (lines.last(), paths.is_empty()) {
        let why = format!("an index is the name of a file: {} was left out", paths.join(", "));
        at.scope.differs(&of.source, why, Paths::Folders, Of::Everything);
    }
    set(settings, "index", Value::Texts(files), lines.last().copied());
    if let Some(of) = at.scope.last("directoryslash").filter(|of| is(&of.words.concat(), "off")) {
        at.scope.left(of, "a folder is redirected to its path with a slash", Paths::Folders);
    }
}

/// `Options`: without a sign they replace what was said before, with one they change it.
fn options(at: &At<'_, '_>, settings: &mut Settings) {
    let (mut list, mut views, mut links, mut last) = (false, None, true, None);
    for of in at.scope.every("options") {
        last = Some(of);
        if of.words.iter().any(|word| !word.starts_with(['+', '-'])) {
            (list, views, links) = (false, None, false);
        }
        for word in &of.words {
            let on = !word.starts_with('-');
            match word.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str() {
                "indexes" => list = on,
                "all" => (list, links) = (true, true),
                "followsymlinks" => links = on,
                "symlinksifownermatch" if on => {
                    let why = "links are followed within the site's folder alone, whoever owns them";
                    at.scope.differs(&of.source, why, Paths::None, Of::Everything);
                }
                "multiviews" => views = on.then_some(of),
                "includes" | "includesnoexec" if on => at.left(of, "Flash changes no content"),
                _ => {}
            }
        }
    }
    if let (true, Some(of)) = (list, last) {
        set(settings, "list", Value::Flag(true), Some(of));
        at.scope.differs(&of.source, "listings have another look", Paths::Folders, Of::Everything);
    }
    let how = if links { "anywhere" } else { "inside" };
    set(settings, "follow-links", Value::Text(how.into()), last);
    if let Some(of) = views {
        let why = "names have all of their ends: extensions = [\".html\"] lets paths leave one out";
        at.scope.differs(&of.source, why, Paths::Missing, Of::Everything);
    }
}

fn compression(at: &At<'_, '_>, settings: &mut Settings) {
    let filters =
        at.scope.every("addoutputfilterbytype").into_iter().chain(at.scope.every("setoutputfilter"));
    let mut codings: Vec<&str> = Vec::new();
    let mut last = None;
    for of in filters {
        for word in of.words.iter().flat_map(|word| word.split(';')) {
            match word.to_ascii_uppercase().as_str() {
                "DEFLATE" => codings.push("gzip"),
                "BROTLI_COMPRESS" => codings.push("br"),
                _ => continue,
            }
            last = Some(of);
        }
    }
    codings.sort_unstable();
    codings.dedup();
    let value = if codings.is_empty() { "off".into() } else { codings.join(",") };
    set(settings, "compress", Value::Text(value), last);
    set(settings, "no-precompressed", Value::Flag(true), None);
}

/// `Header`, but for Cache-Control.
fn fields(at: &At<'_, '_>, settings: &mut Settings) {
    let (mut fields, mut dropped, mut last) = (BTreeMap::new(), Vec::new(), None);
    for of in at.scope.every("header") {
        let Some((action, name, value)) = field(of) else {
            at.scope.left(
                of,
                "Flash sets fields, and leaves them out: write header or no-header",
                Paths::None,
            );
            continue;
        };
        if is(name, "cache-control") {
            continue;
        }
        let known = fields.keys().find(|own: &&String| is(own, name)).cloned();
        match (action, value) {
            ("unset", _) => {
                if known.and_then(|known| fields.remove(&known)).is_none() && !is(name, "etag") {
                    dropped.push(name.to_owned());
                }
            }
            (_, Some(value)) if value.contains("%{") || value.contains("%t") || value.contains("%D") => {
                at.scope.left(of, "Flash fills in no variables in fields", Paths::None);
            }
            ("set" | "setifempty", Some(value)) => {
                fields.insert(known.unwrap_or_else(|| name.into()), value.into());
            }
            (_, Some(value)) => {
                let all = known.as_ref().and_then(|known| fields.get(known));
                let all = all.map_or(value.to_owned(), |before: &String| format!("{before}, {value}"));
                fields.insert(known.unwrap_or_else(|| name.into()), all);
            }
            _ => continue,
        }
        last = Some(of);
    }
    let kind = at.scope.last("forcetype").filter(|of| !is(&of.words.concat(), "none"));
    if let Some(of) = kind {
        fields.insert("Content-Type".into(), of.words.first().cloned().unwrap_or_default());
        last = Some(of);
    }
    if !fields.is_empty() {
        set(settings, "header", Value::Table(fields), last);
    }
    if !dropped.is_empty() {
        set(settings, "no-header", Value::Texts(dropped), last);
    }
}

/// The action of `Header`, its field and value, if there is no condition.
fn field(of: &Directive) -> Option<(&str, &str, Option<&str>)> {
    let mut words = of.words.iter().map(String::as_str).peekable();
    words.next_if(|word| ["always", "onsuccess"].contains(&&*word.to_ascii_lowercase()));
    let action = words.next()?;
    let (name, value) = (words.next()?, words.next());
    let known = ["set", "setifempty", "add", "append", "merge", "unset"];
    let action = known.into_iter().find(|known| is(known, action))?;
    words.next().is_none().then_some((action, name.trim_end_matches(':'), value))
}

/// The value of Cache-Control that `Header` and `ExpiresDefault` make, with the line that it is made of.
pub(super) fn cache_control<'t>(at: &At<'_, 't>) -> Option<(String, &'t Directive)> {
    let mut found = expires(at, at.scope.last("expiresdefault"), |of| of.words.join(" "));
    for of in at.scope.every("header") {
        match field(of) {
            Some(("unset", name, _)) if is(name, "cache-control") => found = None,
            Some((_, name, Some(value))) if is(name, "cache-control") && !value.contains('%') => {
                found = Some((value.to_owned(), of));
            }
            _ => {}
        }
    }
    found
}

/// The values by the ends of names that `ExpiresByType` is about.
pub(super) fn cache_by_type<'t>(at: &At<'_, 't>) -> Vec<(String, String, &'t Directive)> {
    let mut found = Vec::new();
    for of in at.scope.every("expiresbytype") {
        let Some(kind) = of.words.first() else { continue };
        let Some((value, of)) = expires(at, Some(of), |of| of.words[1..].join(" ")) else { continue };
        found.extend(
            at.types.iter().filter(|(_, of)| *of == kind).map(|(end, _)| (end.clone(), value.clone(), of)),
        );
    }
    found
}

/// `access plus 1 month 2 days`, or `A2592000`.
fn expires<'t>(
    at: &At<'_, 't>,
    of: Option<&'t Directive>,
    text: fn(&Directive) -> String,
) -> Option<(String, &'t Directive)> {
    let of = of.filter(|_| at.scope.word("expiresactive").is_some_and(|word| is(word, "on")))?;
    match seconds(&text(of).to_ascii_lowercase()) {
        Some(time) => Some((format!("max-age={time}"), of)),
        None => {
            at.left(of, "Flash has one Cache-Control for a rule, and no Expires: write cache-control");
            None
        }
    }
}

fn seconds(text: &str) -> Option<u64> {
    if let Some(time) = text.strip_prefix('a').and_then(|time| time.parse().ok()) {
        return Some(time);
    }
    let rest = text.strip_prefix("access").or_else(|| text.strip_prefix("now"))?.trim_start();
    let rest = rest.strip_prefix("plus").unwrap_or(rest);
    let words: Vec<&str> = rest.split_whitespace().collect();
    words.chunks(2).try_fold(0_u64, |all, pair| {
        let [number, unit] = pair else { return None };
        let each = match unit.trim_end_matches('s') {
            "year" => 31_536_000,
            "month" => 2_592_000,
            "week" => 604_800,
            "day" => 86_400,
            "hour" => 3600,
            "minute" => 60,
            "second" => 1,
            _ => return None,
        };
        all.checked_add(number.parse::<u64>().ok()?.checked_mul(each)?)
    })
}

/// `AddDefaultCharset`, and `AddType` where Flash has another type.
fn types(at: &At<'_, '_>, settings: &mut Settings) {
    let charset = at.scope.last("adddefaultcharset");
    let name = match charset.and_then(|of| of.words.first()).map(String::as_str) {
        Some(name) if is(name, "on") => "iso-8859-1",
        Some(name) if !is(name, "off") => name,
        _ => "off",
    };
    set(settings, "charset", Value::Text(name.to_ascii_lowercase()), charset);
    let mut table: BTreeMap<String, String> = BTreeMap::new();
    let mut last = None;
    for of in at.scope.every("addtype") {
        let Some((kind, ends)) = of.words.split_first() else { continue };
        if kind.contains("x-httpd-") {
            at.scope.context.see(of);
            continue;
        }
        for end in ends {
            let end = end.trim_start_matches('.').to_ascii_lowercase();
            if essence(&end) != kind.to_ascii_lowercase() {
                table.insert(format!("*.{end}"), kind.clone());
                last = Some(of);
            }
        }
    }
    let with_charset = |name: &str| {
        at.scope.every(name).into_iter().flat_map(|of| match of.words.split_first() {
            Some((charset, ends)) => ends.iter().map(|end| (charset.clone(), end.clone(), of)).collect(),
            None => Vec::new(),
        })
    };
    for (charset, end, of) in with_charset("addcharset") {
        let end = end.trim_start_matches('.').to_ascii_lowercase();
        let kind = table.get(&format!("*.{end}")).cloned().unwrap_or_else(|| essence(&end));
        if !charset.eq_ignore_ascii_case(name) {
            table.insert(format!("*.{end}"), format!("{kind}; charset={charset}"));
            last = Some(of);
        }
    }
    if !table.is_empty() {
        set(settings, "types", Value::Table(table), last);
    }
    if let (Some(of), true) = (charset, name != "off") {
        let plain = |end: &&String| !["text/html", "text/plain"].contains(&&*essence(end));
        let others = at.types.keys().filter(plain).map(|end| Paths::Ends(format!(".{end}"))).collect();
        let why = "all text has the charset, and not only HTML and plain text";
        at.scope.differs(&of.source, why, Paths::Any(others), Of::Type);
    }
}

/// The type that Flash gives to names with this end, without its charset.
pub(super) fn essence(end: &str) -> String {
    let of = media::of(format!("a.{end}").as_bytes()).content_type;
    of.split(';').next().unwrap_or_default().to_owned()
}

/// `ErrorDocument`: files that are named after their status, in one folder.
fn error_pages(at: &At<'_, '_>, root: &str, settings: &mut Settings) {
    for of in at.scope.every("errordocument") {
        let [status, page, ..] = &of.words[..] else { continue };
        let own = page.rsplit_once('/').filter(|(folder, _)| folder.is_empty() || folder.starts_with('/'));
        match own.map(|(folder, name)| (folder, name.split('.').next().unwrap_or_default())) {
            Some((folder, name))
                if name == status && page.rsplit('/').next().is_some_and(|page| page.contains('.')) =>
            {
                let other = settings.get("error-pages").map(|of| of.value.clone());
                if other.is_some_and(|other| other != Value::Text(format!("{root}{folder}"))) {
                    at.scope.left(
                        of,
                        "the pages for errors are those of one folder: copy this one to the other",
                        Paths::All,
                    );
                    continue;
                }
                // The root's own 404.html needs no key.
                if !(folder.is_empty() && status == "404") {
                    set(settings, "error-pages", Value::Text(format!("{root}{folder}")), Some(of));
                }
            }
            _ if is(page, "default") => {}
            Some(_) if page.ends_with(".php") && status == "404" => {
                set(settings, "fallback", Value::Text(page.clone()), Some(of));
                let why = "the script has to say 404 itself";
                at.scope.differs(&of.source, why, Paths::Missing, Of::Everything);
            }
            _ => {
                let why = format!("write the page to {status}.html in a folder, and name it in error-pages");
                at.scope.left(of, why, if status.starts_with('4') { Paths::All } else { Paths::None });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_apache() {
        for (text, expected) in [
            ("access plus 1 month", Some(2_592_000)),
            ("access plus 1 year 2 days", Some(31_708_800)),
            ("now plus 5 minutes", Some(300)),
            ("access 10 seconds", Some(10)),
            ("a300", Some(300)),
            ("m300", None),
            ("modification plus 1 day", None),
            ("access plus 1 fortnight", None),
            ("access plus", Some(0)),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
