//! `if`, in its common forms: the host, the scheme, the method, whether there is a file.

use super::answer::{At, matching, status_of};
use crate::directive::Directive;
use crate::flash::{PlaceName, Setting, Settings, Value, set};
use crate::hosts::{Answers, HostRedirect};
use crate::note::{Of, Paths};
use crate::pattern;
use crate::scope::{LEVELS_OF_SERVER, Scope};

/// A condition as its variable, operator and value.
struct Condition {
    variable: String,
    operator: String,
    value: String,
}

fn condition(of: &Directive) -> Option<Condition> {
    let text = of.words.join(" ");
    let text = text.trim().strip_prefix('(')?.strip_suffix(')')?.trim().to_owned();
    let mut words = text.splitn(3, ' ');
    let (variable, operator, value) = (words.next()?, words.next(), words.next());
    match (variable, operator, value) {
        ("-f" | "!-f" | "-e" | "!-e" | "-d" | "!-d", Some(file), None) => {
            Some(Condition { variable: file.into(), operator: variable.into(), value: String::new() })
        }
        (variable, Some(operator), value) => Some(Condition {
            variable: variable.into(),
            operator: operator.into(),
            value: value.unwrap_or_default().trim().trim_matches(['"', '\'']).into(),
        }),
        (variable, None, _) => {
            Some(Condition { variable: variable.into(), operator: "is".into(), value: String::new() })
        }
    }
}

/// A block that answers, if it has no other directives.
fn only<'b>(of: &'b Directive, scope: &Scope<'_>) -> Option<&'b Directive> {
    let only = alone(of)?;
    of.block.iter().flatten().for_each(|of| scope.context.see(of));
    Some(only)
}

fn alone(of: &Directive) -> Option<&Directive> {
    match of.block.as_deref().unwrap_or_default() {
        [only] => Some(only),
        [only, stop] if stop.name == "break" => Some(only),
        _ => None,
    }
}

pub(super) fn settings(at: &At<'_, '_>, of: &Directive, settings: &mut Settings, answers: &mut Answers) {
    let (Some(Condition { variable, operator, value }), Some(only)) = (condition(of), only(of, at.scope))
    else {
        return at.left(of, "Flash has no such condition: write sites and places");
    };
    let target = match &*only.name {
        "return" => status_of(only).1.map(str::to_owned),
        "rewrite" => only.words.get(1).cloned(),
        _ => None,
    };
    match (&*variable, &*operator) {
        ("$host" | "$http_host" | "$server_name", "=" | "!=" | "~" | "~*" | "!~" | "!~*")
            if target.is_some() =>
        {
            of_host(at, (of, only), (&operator, &value), answers);
        }
        ("$scheme", "=") | ("$https", "=" | "!=") | ("$server_port", "=") | ("$ssl_protocol", "=")
            if (value != "https" || variable == "$https")
                && target.as_deref().is_some_and(|to| to.starts_with("https://")) =>
        {
            let setting = Setting::new(Value::Text("required".into()), Some(&of.source));
            answers.https = Some(setting);
            at.scope.differs(&of.source, "the status is 308", Paths::Insecure, Of::Status);
        }
        ("$request_filename" | "$document_root$uri", "!-e" | "!-f") if only.name == "rewrite" => {
            without_file(at, (of, only), settings);
        }
        ("$http_user_agent" | "$http_referer", "~" | "~*") if only.name == "return" => {
            refused_words(at, of, (&operator, &value));
        }
        ("$request_method", "!~" | "!~*") if only.name == "return" => {
            let names = value
                .trim_matches(['^', '$', '"', '\''])
                .trim_start_matches('(')
                .trim_end_matches([')', '$']);
            let methods: Vec<String> =
                names.split('|').map(|name| name.trim_matches(['(', ')', '^', '$']).to_owned()).collect();
            set(settings, "methods", Value::Texts(methods), Some(of));
            if status_of(only).0 != Some(405) {
                at.scope.differs(&of.source, "the status is 405", Paths::OtherMethods, Of::Everything);
            }
        }
        (_, "is" | "!=") if value.is_empty() && super::maps::find(at, &variable).is_some() => {
            super::maps::settings(at, (of, only), &variable, settings, answers);
        }
        ("$request_uri" | "$uri", "~" | "~*") if only.name == "return" => {
            of_path(at, (of, only), &value, answers)
        }
        ("$request_uri" | "$uri", "=") if only.name == "return" => {
            let (Some(status), Some(to)) = status_of(only) else {
                return at.scope.left(of, "Flash has no such answer", Paths::Exact(value));
            };
            let redirect = at.redirect(only, (to, status, None, false));
            answers
                .parts
                .extend(redirect.map(|to| (PlaceName::Exact(value), Settings::from([("redirect", to)]))));
        }
        _ => at.left(of, "Flash has no such condition: write sites and places"),
    }
}

/// The words in fields of requests that the server refuses, and those that this block does: none of a block between them.
pub(super) fn field_rules(scope: &Scope<'_>) -> Option<Setting> {
    let (of_server, inner) = scope.levels.split_at_checked(LEVELS_OF_SERVER)?;
    let blocks = of_server.last().into_iter().chain(inner.last());
    let refusals: Vec<_> = blocks
        .flat_map(|block| block.iter())
        .filter_map(|of| Some((of, condition(of)?, refusal(of)?)))
        .filter_map(|(of, condition, _)| Some((of, field(&condition)?, pattern::words(&condition.value)?)))
        .collect();
    let mut fields = Vec::new();
    for name in ["User-Agent", "Referer"] {
        let of_field = refusals.iter().filter(|(_, field, _)| *field == name);
        let words: Vec<Value> = of_field.flat_map(|(_, _, words)| words).cloned().map(Value::Text).collect();
        if !words.is_empty() {
            fields.push((name, Value::Many(words)));
        }
    }
    let (of, ..) = refusals.first()?;
    Some(Setting::new(Value::Named(fields), Some(&of.source)))
}

/// The field that a condition finds words in.
fn field(condition: &Condition) -> Option<&'static str> {
    match (&*condition.variable, &*condition.operator) {
        ("$http_user_agent", "~" | "~*") => Some("User-Agent"),
        ("$http_referer", "~" | "~*") => Some("Referer"),
        _ => None,
    }
}

/// The status with which an `if` refuses, and does nothing else.
fn refusal(of: &Directive) -> Option<u16> {
    let only = alone(of).filter(|only| of.name == "if" && only.name == "return")?;
    match status_of(only) {
        (Some(status @ 400..), None) => Some(status),
        _ => None,
    }
}

/// What [`field_rules`] have of a line.
fn refused_words(at: &At<'_, '_>, of: &Directive, (operator, value): (&str, &str)) {
    let Some(status) = refusal(of) else {
        return at.left(of, "Flash has no such condition: write sites and places");
    };
    if pattern::words(value).is_none() {
        let why = "Flash looks for words in fields, and not for expressions: write field-rules";
        return at.scope.left(of, why, Paths::None);
    }
    if status != 403 {
        at.scope.differs(&of.source, "the status is 403", Paths::All, Of::Status);
    }
    if operator == "~" {
        let why = "large and small letters are the same";
        at.scope.differs(&of.source, why, Paths::None, Of::Everything);
    }
    if at.prefix.len() > 1 && at.prefix.ends_with('/') {
        at.scope.prefix_differs(of, at.prefix);
    }
}

/// What answers for paths without a file.
fn without_file(at: &At<'_, '_>, (of, only): (&Directive, &Directive), settings: &mut Settings) {
    let front = only.words.get(1).and_then(|to| to.split(['?', '$']).next());
    let Some(front) = front.filter(|front| front.starts_with('/') && front.len() > 1) else {
        return at.scope.left(of, "fallback names a file or a script", Paths::Missing);
    };
    set(settings, "fallback", Value::Text(front.into()), Some(of));
    if only.words[1].len() > front.len() && !only.words[1].contains("$args") {
        let why = format!("{front} gets the request's own query, and its path in REQUEST_URI");
        at.scope.differs(&only.source, why, Paths::Missing, Of::Everything);
    }
    let why = "the fallback answers for a folder without an index, too";
    at.scope.differs(&of.source, why, Paths::Folders, Of::Everything);
}

fn of_path(at: &At<'_, '_>, (of, only): (&Directive, &Directive), expression: &str, answers: &mut Answers) {
    let tails = pattern::tails(expression);
    let (Some(tails), (Some(status @ (301 | 302 | 303 | 307 | 308)), Some(to))) = (tails, status_of(only))
    else {
        return at.scope.left(
            of,
            "Flash redirects prefixes and single paths: write a place for each",
            matching(expression),
        );
    };
    for (tail, is_whole) in tails {
        let Some(redirect) = at.redirect(only, (to, status, Some(&tail), false)) else {
            return;
        };
        let path = tail.prefix.trim_end_matches('/');
        let name = match is_whole {
            true => PlaceName::Exact(tail.prefix.clone()),
            false if path.is_empty() => {
                return at.scope.left(of, "all would be redirected", matching(expression));
            }
            false => PlaceName::Below(path.into()),
        };
        if !is_whole {
            at.scope.prefix_differs(of, &tail.prefix);
        }
        answers.parts.push((name, Settings::from([("redirect", redirect)])));
    }
}

fn of_host(
    at: &At<'_, '_>,
    (of, only): (&Directive, &Directive),
    (operator, value): (&str, &str),
    answers: &mut Answers,
) {
    let plain = value.trim_matches('"').trim_matches('\'');
    let host = match operator.contains('~') {
        false => Some(plain.to_owned()),
        // ^www\.example\.org$
        true => {
            let text = plain.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".");
            let is_host = text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
            (is_host && text.contains('.')).then_some(text)
        }
    };
    let (to, status, adds_query) = match (&*only.name, status_of(only)) {
        ("return", (Some(status @ (301 | 302 | 303 | 307 | 308)), Some(to))) => {
            (to.to_owned(), status, false)
        }
        ("rewrite", _) => {
            let is_permanent = only.words.get(2).is_some_and(|flag| flag == "permanent");
            (only.words.get(1).cloned().unwrap_or_default(), if is_permanent { 301 } else { 302 }, true)
        }
        _ => (String::new(), 0, false),
    };
    let tail = match &*only.name {
        "rewrite" => only.words.first().and_then(|of| pattern::tails(of)).and_then(|mut tails| tails.pop()),
        _ => None,
    };
    let Some(host) = host.filter(|_| status != 0 && (only.name == "return" || tail.is_some())) else {
        return at.scope.left(of, "write a site for these hosts, with redirect", Paths::All);
    };
    let redirect = at.redirect(only, (&to, status, tail.as_ref().map(|(tail, _)| tail), adds_query));
    answers.hosts.extend(redirect.map(|redirect| HostRedirect {
        hosts: vec![host],
        is_except: operator.starts_with('!'),
        redirect,
    }));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Imported;
    use crate::nginx::import;
    use crate::note::Note;

    fn imported(text: &str) -> Imported {
        let nothing = |_: &Path| Ok(Vec::new());
        import(Path::new("nginx.conf"), text, &nothing).expect("its syntax is right")
    }

    #[test]
    fn words_that_are_refused_are_those_of_the_server_and_of_the_location() {
        let text = "http { server { listen 80; server_name a.example; root /srv/a;
            if ($http_user_agent ~* \"iphone|android\") { return 302 https://m.example/; }
            if ($http_user_agent ~* GPTBot) { return 403; }
            if ($http_user_agent ~* Fetch) { set $x 1; return 403; }
            if ($http_referer ~* semalt) { return 403; }
            location / { try_files $uri =404; }
            location /feed/ {
                if ($http_user_agent ~* FeedBot) { return 410; }
                location /feed/all/ { if ($http_user_agent ~* AllBot) { return 403; } }
                location /feed/open/ { expires 1h; }
            } } }";
        let imported = imported(text);
        for word in ["iphone", "android", "Fetch"] {
            let taken = imported.text.lines().any(|line| line.contains("field-rules") && line.contains(word));
            assert!(!taken, "{word}: {}", imported.text);
        }
        for words in ["[\"GPTBot\"]", "[\"GPTBot\", \"FeedBot\"]", "[\"GPTBot\", \"AllBot\"]"] {
            let line = format!("field-rules = {{ User-Agent = {words}, Referer = [\"semalt\"] }}");
            assert!(imported.text.contains(&line), "{line}: {}", imported.text);
        }
        let open = imported.text.split("/feed/open\"]").nth(1).expect("a place");
        assert!(open.contains("field-rules = { User-Agent = [\"GPTBot\"],"), "{}", imported.text);
    }

    #[test]
    fn a_place_cannot_take_back_words_that_it_inherits() {
        let imported = imported(
            "http { server { listen 80; server_name a.example; root /srv/a;
            location /feed/ { if ($http_user_agent ~* FeedBot) { return 403; } }
            location /feed/open/ { expires 1h; } } }",
        );
        let is_named = |note: &Note| {
            note.text.contains("inherits field-rules")
                && note.concerns.paths == Paths::Begins("/feed/open".into())
        };
        assert!(imported.notes.iter().any(is_named), "{:?}", imported.notes);
    }
}
