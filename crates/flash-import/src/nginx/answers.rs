//! What answers instead of a file: `return`, `rewrite`, `if`, `try_files` and `error_page`.

use super::answer::{At, matching, status_of};
use super::proxy;
use crate::directive::Directive;
use crate::flash::{PlaceName, Settings, Value, forbid, set};
use crate::hosts::Answers;
use crate::note::{Of, Paths};
use crate::pattern::{self, Shape};
use crate::scope::{self, Scope};

/// Adds what the directives of the innermost block answer.
pub(super) fn settings(at: &At<'_, '_>, settings: &mut Settings) -> Answers {
    let mut answers = Answers::default();
    let Some(block) = at.scope.levels.last() else { return answers };
    for of in *block {
        match &*of.name {
            "return" => returned(at, of, settings, &mut answers),
            "rewrite" => rewritten(at, of, settings, &mut answers),
            "if" => {
                at.scope.context.see(of);
                super::conditions::settings(at, of, settings, &mut answers);
            }
            "set" => at.scope.context.see(of),
            _ => {}
        }
    }
    tried(at, settings);
    error_pages(at, settings);
    answers
}

fn returned(at: &At<'_, '_>, of: &Directive, settings: &mut Settings, answers: &mut Answers) {
    at.scope.context.see(of);
    match status_of(of) {
        (Some(status @ (301 | 302 | 303 | 307 | 308)), Some(to)) => {
            settings
                .extend(at.redirect(of, (to, status, at.tail, false)).map(|setting| ("redirect", setting)));
        }
        (Some(404), _) => {
            answers.is_missing = true;
        }
        (Some(444), _) => {
            answers.is_missing = true;
            at.differs(of, "404 takes the place of a closed connection");
        }
        (Some(403), _) => forbid(settings, of),
        (Some(410), _) => set(settings, "gone", Value::Flag(true), Some(of)),
        (Some(status @ 200..=599), text) if status != 304 && !text.unwrap_or_default().contains('$') => {
            let mut named = vec![("status", Value::Number(status.into()))];
            if let Some(text) = text {
                let kind = at.scope.word("default_type").unwrap_or("text/plain");
                named.extend([("body", Value::Text(text.into())), ("type", Value::Text(kind.into()))]);
            }
            set(settings, "respond", Value::Named(named), Some(of));
        }
        _ => at.left(of, "Flash has no such answer"),
    }
}

fn rewritten(at: &At<'_, '_>, of: &Directive, settings: &mut Settings, answers: &mut Answers) {
    at.scope.context.see(of);
    let [expression, to, flags @ ..] = &of.words[..] else { return };
    let is_url = ["http://", "https://", "$scheme"].iter().any(|begin| to.starts_with(begin));
    let status = match flags.first().map(String::as_str) {
        Some("permanent") => 301,
        Some("redirect") => 302,
        _ if is_url => 302,
        _ => {
            let is_front = matches!(pattern::shapes(expression).as_deref(), Some([Shape::All]));
            match to.split('?').next().filter(|to| is_front && !to.contains('$')) {
                Some(front) if at.prefix.is_empty() || at.prefix == "/" => {
                    at.left(
                        of,
                        format!("write fallback = \"{front}\", which answers for paths without a file"),
                    );
                }
                _ => at.scope.left(
                    of,
                    "Flash does not change paths: name the file as its requests do",
                    matching(expression),
                ),
            }
            return;
        }
    };
    let Some(tails) = pattern::tails(expression) else {
        at.scope.left(
            of,
            "Flash redirects prefixes and single paths: write a place for each",
            matching(expression),
        );
        return;
    };
    for (tail, is_whole) in tails {
        let Some(redirect) = at.redirect(of, (to, status, Some(&tail), true)) else { return };
        let path = tail.prefix.trim_end_matches('/');
        if tail.prefix.is_empty() || (tail.prefix == "/" && !is_whole) {
            settings.insert("redirect", redirect);
            continue;
        }
        let name = match is_whole {
            true => PlaceName::Exact(tail.prefix.clone()),
            false => PlaceName::Below(path.into()),
        };
        if !is_whole {
            at.scope.prefix_differs(of, &tail.prefix);
        }
        answers.parts.push((name, Settings::from([("redirect", redirect)])));
    }
}

/// `try_files`: the fallback, and ends of names that paths leave out.
fn tried(at: &At<'_, '_>, settings: &mut Settings) {
    // A location without it tries nothing, so the server's own holds where no location is.
    let root = at.scope.own("location").any(|of| of.words == ["/"]);
    let Some(of) = at.scope.own("try_files").last().filter(|_| !root) else { return };
    let Some((last, tried)) = of.words.split_last() else { return };
    let mut extensions = Vec::new();
    let mut folders = false;
    for (number, word) in tried.iter().enumerate() {
        match &**word {
            "$uri" | "$fastcgi_script_name" | "$document_root$fastcgi_script_name" | "$request_filename" => {}
            "$uri/" => folders = true,
            "$uri/index.html" | "$uri/index.php" => folders = true,
            word if word.strip_prefix("$uri.").is_some_and(|end| !end.contains(['$', '/'])) => {
                extensions.push(word["$uri".len()..].to_owned());
                if folders {
                    let why = "the file comes before the folder of the same name";
                    at.scope.differs(&of.source, why, Paths::Folders, Of::Everything);
                }
            }
            word => {
                let why = format!(
                    "Flash looks for the path itself, and not for {word} (the {}. of them)",
                    number + 1
                );
                at.left(of, why);
            }
        }
    }
    let is_script = at.prefix.is_empty() && matches!(at.concerns, Paths::Ends(_));
    if !folders && !is_script {
        let why = "a folder answers with its index, as with $uri/";
        at.scope.differs(&of.source, why, Paths::Folders, Of::Everything);
    }
    if !extensions.is_empty() {
        set(settings, "extensions", Value::Texts(extensions), Some(of));
    }
    last_resort(at, of, last, settings);
    if folders && settings.contains_key("fallback") && !settings.contains_key("list") {
        let why = "the fallback answers for a folder without an index, in place of 403";
        at.scope.differs(&of.source, why, Paths::Folders, Of::Everything);
    }
}

/// What answers for a path without a file.
fn last_resort(at: &At<'_, '_>, of: &Directive, last: &str, settings: &mut Settings) {
    match last {
        "=404" => {}
        _ if last.starts_with('=') => {
            at.scope.differs(
                &of.source,
                format!("404 takes the place of {}", &last[1..]),
                Paths::Missing,
                Of::Status,
            );
        }
        _ if last.starts_with('@') => {
            match at.server.named.get(last).and_then(|named| front_of(at.scope, named)) {
                Some(front) => set(settings, "fallback", Value::Text(front), Some(of)),
                None if is_proxied(at, last, settings) => {
                    set(settings, "fallback", Value::Text("proxy".into()), Some(of));
                }
                None => at.scope.left(
                    of,
                    format!("Flash has no {last}: fallback names a file or a script"),
                    Paths::Missing,
                ),
            }
        }
        _ => {
            let path = last.split(['?', '$']).next().unwrap_or_default();
            let query = &last[path.len()..];
            match ["", "?$args", "?$query_string", "$is_args$args", "$is_args$query_string"].contains(&query)
            {
                true if path.starts_with('/') => {
                    set(settings, "fallback", Value::Text(path.into()), Some(of))
                }
                false if path.starts_with('/') => {
                    set(settings, "fallback", Value::Text(path.into()), Some(of));
                    let why = format!(
                        "{path} gets the request's own query, and its path in REQUEST_URI: {query} is left out"
                    );
                    at.scope.differs(&of.source, why, Paths::Missing, Of::Everything);
                }
                _ => at.scope.left(of, format!("Flash fills in no variables: {last}"), Paths::Missing),
            }
        }
    }
}

/// Whether a named location passes requests on, with the paths that they have. What that needs is set.
fn is_proxied(at: &At<'_, '_>, name: &str, settings: &mut Settings) -> bool {
    let named = at.server.named.get(name);
    let Some((named, block)) = named.and_then(|named| Some((named, named.block.as_deref()?))) else {
        return false;
    };
    at.scope.context.see(named);
    // It lies in the server, wherever requests come from.
    let mut of_server = at.scope.clone();
    of_server.levels.truncate(scope::LEVELS_OF_SERVER);
    let scope = of_server.inner(block);
    let named = At { scope: &scope, concerns: Paths::Missing, tail: None, prefix: "", ..*at };
    !settings.contains_key("strip-prefix")
        && !proxy::settings(&named, settings)
        && settings.contains_key("proxy")
}

/// The script that a named location leads all requests to.
pub(super) fn front_of(scope: &Scope<'_>, named: &Directive) -> Option<String> {
    let block = named.block.as_deref()?;
    let rewrite = block.iter().find(|of| of.name == "rewrite")?;
    let [expression, to, ..] = &rewrite.words[..] else { return None };
    let path = to.split(['?', '$']).next().filter(|path| path.starts_with('/') && path.len() > 1)?;
    if !matches!(pattern::shapes(expression).as_deref(), Some([Shape::All])) {
        return None;
    }
    scope.context.see(named);
    block
        .iter()
        .filter(|of| ["rewrite", "set", "internal"].contains(&&*of.name))
        .for_each(|of| scope.context.see(of));
    let query = &to[path.len()..];
    if !["", "?$args", "?$query_string", "$is_args$args"].contains(&query) {
        let why =
            format!("{path} gets the request's own query, and its path in REQUEST_URI: {query} is left out");
        scope.differs(&rewrite.source, why, Paths::Missing, Of::Everything);
    }
    Some(path.into())
}

fn error_pages(at: &At<'_, '_>, settings: &mut Settings) {
    let root = match settings.get("root").map(|root| &root.value) {
        Some(Value::Text(root)) => root.clone(),
        _ => String::new(),
    };
    for of in at.scope.all("error_page") {
        let Some((page, codes)) = of.words.split_last() else { continue };
        let (codes, changed): (Vec<_>, Vec<_>) = codes.iter().partition(|code| !code.starts_with('='));
        let is_missing = codes.iter().any(|code| *code == "404");
        let own =
            page.rsplit_once('/').map(|(folder, name)| (folder, name.split('.').next().unwrap_or_default()));
        match (own, changed.first()) {
            _ if page.contains("://") => {
                at.left(of, "a page for an error is a file: the status stays");
            }
            (_, Some(_)) | (None, None) if is_missing && settings.contains_key("fallback") => {}
            (_, Some(change)) if is_missing && (change.as_str() == "=" || change.as_str() == "=200") => {
                let front = match page.strip_prefix('@') {
                    Some(_) => at.server.named.get(&**page).and_then(|named| front_of(at.scope, named)),
                    None => page.split('?').next().map(str::to_owned),
                };
                match front {
                    Some(front) => {
                        set(settings, "fallback", Value::Text(front), Some(of));
                        let why = "the script gets the request's query, and its method";
                        at.scope.differs(&of.source, why, Paths::Missing, Of::Everything);
                    }
                    None => at.scope.left(of, "fallback names a file or a script", Paths::Missing),
                }
            }
            (Some((folder, "404")), None) if codes.len() == 1 && is_missing => {
                // The root's own 404.html needs no key.
                if !folder.is_empty() {
                    set(settings, "error-pages", Value::Text(format!("{root}{folder}")), Some(of));
                }
            }
            (Some((folder, _)), None) if folder != "@" => {
                let names: Vec<String> = codes.iter().map(|code| format!("{code}.html")).collect();
                let why = format!(
                    "copy the page to {} in one folder, and name the folder in error-pages",
                    names.join(", ")
                );
                let is_met = codes.iter().any(|code| code.starts_with('4'));
                at.scope.left(of, why, if is_met { Paths::All } else { Paths::None });
            }
            _ => at.left(of, "a page for an error is a file with its name"),
        }
    }
}
