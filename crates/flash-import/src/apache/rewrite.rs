//! `RewriteRule` in its common forms: front controllers, redirections, refusals, ends that paths leave out.

use super::at::At;
use super::files::set_fallback;
use super::programs::{self, Pass};
use super::redirects::{matching, name_of, names, redirect, status};
use crate::directive::Directive;
use crate::flash::{PlaceName, Setting, Settings, Value, forbid, set, set_more};
use crate::hosts::{Answers, HostRedirect};
use crate::note::{Of, Paths};
use crate::pattern::{self, Shape, Tail};
use crate::target::{Known, target};

/// A rule with its conditions.
struct Rule<'r> {
    of: &'r Directive,
    conditions: Vec<Condition<'r>>,
    /// One of several conditions is enough.
    has_or: bool,
    pattern: &'r str,
    to: &'r str,
    flags: Vec<(String, Option<&'r str>)>,
    /// The value of `RewriteBase`.
    base: Option<&'r str>,
    /// A rule before this one lets paths of files pass.
    files_pass: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition<'r> {
    /// The path has no file.
    NoFile,
    /// The path has no folder, or is no link.
    NoFolder,
    /// The path has a file.
    File,
    /// The path has a folder.
    Folder,
    /// The path has a file with this end.
    FileWithEnd(&'r str),
    WithoutTls,
    Host {
        pattern: &'r str,
        is_not: bool,
    },
    /// Some paths are left alone.
    Except(&'r str),
    /// These paths are meant.
    Path(&'r str),
    Authorization,
    /// The path ends in a slash.
    Slash,
    /// Who asks.
    Client,
    /// What a client says of itself.
    Other,
}

/// Adds what the rules of a block answer. `base` is the folder's path if they stand there, where paths are relative.
pub(super) fn settings(
    at: &At<'_, '_>,
    block: &[Directive],
    base: Option<&str>,
    settings: &mut Settings,
    answers: &mut Answers,
) {
    let mut conditions: Vec<(Condition<'_>, bool)> = Vec::new();
    let is_on = is_on(at, block, base);
    let rewrite_base = block.iter().rfind(|of| of.name == "rewritebase").and_then(|of| of.words.first());
    let mut files_pass = false;
    for of in block {
        match &*of.name {
            "rewritecond" => conditions.push((condition(&of.words), is_or(&of.words))),
            "rewriterule" => {
                let conditions = std::mem::take(&mut conditions);
                if let (true, Some(mut rule)) = (is_on, rule(of, conditions)) {
                    (rule.base, rule.files_pass) =
                        (rewrite_base.map(|base| base.trim_end_matches('/')), files_pass);
                    files_pass |= rule.lets_files_pass();
                    one(at, &rule, base, settings, answers);
                }
            }
            "rewriteengine" | "rewritebase" => {}
            _ => continue,
        }
        at.scope.context.see(of);
    }
}

/// The state of the engine is inherited by folders.
fn is_on(at: &At<'_, '_>, block: &[Directive], base: Option<&str>) -> bool {
    let levels = match base {
        Some(_) => at.scope.levels.get(at.depth..).unwrap_or_default().to_vec(),
        None => vec![block],
    };
    let last = levels.into_iter().flatten().rfind(|of| of.name == "rewriteengine");
    last.is_some_and(|of| of.words.first().is_some_and(|word| word.eq_ignore_ascii_case("on")))
}

fn is_or(words: &[String]) -> bool {
    flags(words).any(|(name, _)| matches!(&*name, "OR" | "ORNEXT"))
}

/// The flags of a rule or a condition, in capitals, with their values.
fn flags(words: &[String]) -> impl Iterator<Item = (String, Option<&str>)> {
    let text = words.get(2).map_or("", |flags| flags.trim_matches(['[', ']']));
    text.split(',').map(|flag| {
        let (name, value) =
            flag.trim().split_once('=').map_or((flag.trim(), None), |(name, value)| (name, Some(value)));
        (name.to_ascii_uppercase(), value)
    })
}

fn rule<'r>(of: &'r Directive, conditions: Vec<(Condition<'r>, bool)>) -> Option<Rule<'r>> {
    let [pattern, to, ..] = &of.words[..] else { return None };
    let flags = flags(&of.words);
    let has_or = conditions.iter().any(|(_, is_or)| *is_or);
    let conditions = conditions.into_iter().map(|(condition, _)| condition).collect();
    Some(Rule { of, conditions, has_or, pattern, to, flags: flags.collect(), base: None, files_pass: false })
}

fn condition(words: &[String]) -> Condition<'_> {
    let [test, pattern, ..] = words else { return Condition::Other };
    let plain = pattern.trim_start_matches('!').trim_start_matches('=');
    let is_not = pattern.starts_with('!');
    let bare = plain.trim_start_matches('^').trim_end_matches('$');
    let file = |test: &str| {
        [
            "%{REQUEST_FILENAME}",
            "%{SCRIPT_FILENAME}",
            "%{DOCUMENT_ROOT}%{REQUEST_URI}",
            "%{DOCUMENT_ROOT}/$1",
            "%{DOCUMENT_ROOT}/%{REQUEST_URI}",
        ]
        .contains(&test)
    };
    match (test.as_str(), plain) {
        (test, "-f" | "-s" | "-F") if file(test) && is_not => Condition::NoFile,
        (test, "-d" | "-l") if file(test) && is_not => Condition::NoFolder,
        (test, "-f" | "-s" | "-F") if file(test) => Condition::File,
        (test, "-d" | "-l") if file(test) => Condition::Folder,
        (test, "-f" | "-s") if !is_not => match test.rsplit_once('.') {
            Some((path, end)) if file(path.trim_end_matches('\\')) && !end.contains(['/', '}']) => {
                Condition::FileWithEnd(end)
            }
            _ => Condition::Other,
        },
        ("%{HTTPS}", _) if (bare == "off" && !is_not) || (bare == "on" && is_not) => Condition::WithoutTls,
        ("%{SERVER_PORT}", _) if (bare == "80" && !is_not) || (bare == "443" && is_not) => {
            Condition::WithoutTls
        }
        ("%{REQUEST_SCHEME}", _) if (bare == "http" && !is_not) || (bare == "https" && is_not) => {
            Condition::WithoutTls
        }
        ("%{HTTP:X-Forwarded-Proto}", _) if bare == "https" && is_not => Condition::WithoutTls,
        ("%{HTTP_HOST}" | "%{SERVER_NAME}", _) => Condition::Host { pattern: plain, is_not },
        ("%{HTTP:Authorization}", _) => Condition::Authorization,
        ("%{REQUEST_URI}", "(.+)/$" | "/$" | "^(.+)/$" | "^(.*)/$") if !is_not => Condition::Slash,
        ("%{REQUEST_URI}", _) if is_not => Condition::Except(plain),
        ("%{REQUEST_URI}", _) => Condition::Path(plain),
        ("%{REMOTE_ADDR}" | "%{REMOTE_HOST}" | "%{REMOTE_USER}" | "%{SSL:SSL_CLIENT_VERIFY}", _) => {
            Condition::Client
        }
        _ => Condition::Other,
    }
}

impl Rule<'_> {
    /// Whether no later rule comes to the path of a file.
    fn lets_files_pass(&self) -> bool {
        let of_files = |of: &Condition<'_>| matches!(of, Condition::File | Condition::Folder);
        let is_end = self.has(&["L", "LAST", "END"]);
        let alone = self.has_or || self.conditions.len() == 1;
        self.to == "-"
            && is_end
            && alone
            && self.is_all()
            && self.only(of_files)
            && self.conditions.contains(&Condition::File)
    }

    fn has(&self, names: &[&str]) -> bool {
        self.flags.iter().any(|(name, _)| names.contains(&&**name))
    }

    fn value(&self, names: &[&str]) -> Option<Option<&str>> {
        self.flags.iter().find(|(name, _)| names.contains(&&**name)).map(|(_, value)| *value)
    }

    fn only(&self, is: impl Fn(&Condition<'_>) -> bool) -> bool {
        self.conditions.iter().all(is)
    }

    /// The expression for whole paths.
    fn expression(&self, base: Option<&str>) -> String {
        let Some(base) = base else { return self.pattern.into() };
        if self.is_all() {
            return format!("^{}/(.*)$", regex_syntax::escape(base));
        }
        let anchored = self.pattern.strip_prefix('^');
        match anchored.map(|rest| rest.strip_prefix("/?").or(rest.strip_prefix('/')).unwrap_or(rest)) {
            Some(rest) => format!("^{}/{rest}", regex_syntax::escape(base)),
            None => self.pattern.into(),
        }
    }

    /// All paths are meant.
    fn is_all(&self) -> bool {
        [
            "^", ".", ".*", ".?", "(.*)", "^.*$", "^(.*)$", "^(.*)", "^/(.*)$", "^/.*$", "^/?(.*)$",
            "^/?(.*)", "^/?.*$", "^(.+)$", "^.+$", "^/(.+)$", "(.+)", "^/",
        ]
        .contains(&self.pattern)
    }

    /// Where it leads, as a path from the root.
    fn path(&self, base: Option<&str>) -> String {
        let plain = self.to.strip_prefix("%{DOCUMENT_ROOT}").unwrap_or(self.to);
        match plain.starts_with('/') {
            true => plain.into(),
            false => {
                let base = self.base.filter(|_| base.is_some()).or(base).unwrap_or_default();
                format!("{base}/{}", plain.trim_start_matches("./"))
            }
        }
    }
}

fn one(at: &At<'_, '_>, rule: &Rule<'_>, base: Option<&str>, settings: &mut Settings, answers: &mut Answers) {
    let is_url = rule.to.contains("://");
    if rule.has(&["NC", "NOCASE"]) && !rule.is_all() {
        let why = "names are compared with their case";
        at.scope.differs(&rule.of.source, why, Paths::Capitals, Of::Everything);
    }
    let is_of_entrance = |of: &Condition<'_>| matches!(of, Condition::WithoutTls | Condition::Host { .. });
    if rule.has_or && rule.only(is_of_entrance) {
        // Each for itself.
        for condition in &rule.conditions {
            let (conditions, flags) = (vec![condition.clone()], rule.flags.clone());
            one(at, &Rule { conditions, flags, has_or: false, ..*rule }, base, settings, answers);
        }
        return;
    }
    let sends = rule.value(&["R", "REDIRECT"]).map(|value| value.map_or(Some(302), status));
    match sends {
        _ if rule.to.starts_with("${") => mapped(at, rule, base, settings),
        _ if rule.has(&["P", "PROXY"]) => passed(at, rule, base, settings, answers),
        _ if rule.to == "-" => refused(at, rule, base, settings, answers),
        _ if rule.has_or || rule.has(&["C", "CHAIN", "S", "SKIP"]) => left(at, rule, base, settings),
        Some(status) => redirected(at, rule, base, status, answers, settings),
        None if is_url => redirected(at, rule, base, Some(302), answers, settings),
        None => internal(at, rule, base, settings, answers),
    }
}

/// Requests that are passed on to an HTTP server.
fn passed(
    at: &At<'_, '_>,
    rule: &Rule<'_>,
    base: Option<&str>,
    settings: &mut Settings,
    answers: &mut Answers,
) {
    if rule.to.starts_with("ws://") || rule.to.starts_with("wss://") {
        // Flash passes WebSockets on with all else.
        return;
    }
    let of_files = |of: &Condition<'_>| matches!(of, Condition::NoFile | Condition::NoFolder);
    let has_no_file = rule.conditions.contains(&Condition::NoFile) || rule.files_pass;
    let tails =
        pattern::tails(&rule.expression(base)).filter(|tails| tails.len() == 1 && rule.only(of_files));
    let to =
        rule.to.strip_suffix("$1").or(rule.to.strip_suffix("%{REQUEST_URI}")).or(rule.to.strip_suffix("$0"));
    match (tails.as_deref(), to) {
        (Some([(tail, false)]), Some(to)) if !to.contains(['$', '%']) => {
            let pass = Pass::of_rule(rule.of, &tail.prefix, to);
            let mut part = settings.clone();
            let is_left = programs::proxy(at, &pass, &[], &mut part);
            if is_left {
                forbid(&mut part, rule.of);
            } else if has_no_file {
                set(&mut part, "fallback", Value::Text("proxy".into()), Some(rule.of));
            }
            match tail.prefix.len() <= 1 {
                true => *settings = part,
                false => answers.parts.push((name_of(at, rule.of, &tail.prefix, false), part)),
            }
        }
        _ => left(at, rule, base, settings),
    }
}

/// `${name:$1}` of a `RewriteMap` that is a file of text.
fn mapped(at: &At<'_, '_>, rule: &Rule<'_>, base: Option<&str>, settings: &mut Settings) {
    let (name, argument) = rule.to[2..].trim_end_matches('}').split_once(':').unwrap_or_default();
    let maps = at.scope.every("rewritemap");
    let map = maps.iter().find(|of| of.words.first().is_some_and(|own| own == name));
    let file = map.and_then(|of| of.words.get(1)?.strip_prefix("txt:"));
    let is_whole =
        argument.split('|').next().is_some_and(|argument| ["$1", "$0", "%{REQUEST_URI}"].contains(&argument));
    match file.filter(|_| is_whole && rule.is_all()) {
        Some(file) => {
            set(settings, "redirects", Value::Text(file.into()), Some(rule.of));
            if rule.value(&["R", "REDIRECT"]).flatten().and_then(status) != Some(301) {
                let why = format!("the status is 301, or what stands behind the lines of {file}");
                at.scope.differs(&rule.of.source, why, Paths::All, Of::Status);
            }
        }
        None => at.scope.left(
            rule.of,
            "Flash redirects single paths by a file of text: write redirects",
            covered(rule, base),
        ),
    }
}

fn covered(rule: &Rule<'_>, base: Option<&str>) -> Paths {
    if rule.is_all() { at_all(base) } else { matching(&rule.expression(base)) }
}

fn at_all(base: Option<&str>) -> Paths {
    base.map_or(Paths::All, |base| Paths::Begins(base.into()))
}

/// Whether a rule that changes no path keeps those behind it from nothing.
fn is_harmless(rule: &Rule<'_>) -> bool {
    rule.has(&["E", "ENV"])
        || rule.lets_files_pass()
        || rule.only(|of| matches!(of, Condition::File | Condition::Folder)) && !rule.conditions.is_empty()
        || rule.pattern.ends_with("\\.php$") && rule.conditions.is_empty()
}

/// Rules that change no path: refusals, and what is left alone.
fn refused(
    at: &At<'_, '_>,
    rule: &Rule<'_>,
    base: Option<&str>,
    settings: &mut Settings,
    answers: &mut Answers,
) {
    let gone = rule.has(&["G", "GONE"]);
    let status = rule.value(&["R", "REDIRECT"]).flatten().and_then(status).filter(|status| *status >= 400);
    if !gone && !rule.has(&["F", "FORBIDDEN"]) && status.is_none() {
        if !is_harmless(rule) {
            let why = "the rules behind it hold for these paths, too";
            at.scope.left(rule.of, why, covered(rule, base));
        }
        return;
    }
    // What clients say of themselves keeps nobody out.
    if rule.conditions.contains(&Condition::Other) {
        let why = "Flash has no conditions about what clients send: nobody is refused";
        return at.scope.left(rule.of, why, covered(rule, base));
    }
    let mut refusal = Settings::new();
    match gone {
        true => set(&mut refusal, "gone", Value::Flag(true), Some(rule.of)),
        false => forbid(&mut refusal, rule.of),
    }
    let path = rule.conditions.iter().find_map(|of| match of {
        Condition::Path(path) => Some(*path),
        _ => None,
    });
    if rule.is_all() && path.is_none() {
        return settings.extend(refusal);
    }
    let expression = path
        .map_or_else(|| rule.expression(base), str::to_owned)
        .replace("[^/]+", ".*")
        .replace("[^/]*", ".*");
    let is_anywhere = !expression.starts_with('^') && base.is_some_and(|base| !base.is_empty());
    let (shapes, is_all) = pattern::known_shapes(&expression);
    for shape in shapes {
        match &shape {
            Shape::Ends(end) | Shape::Info(end) if is_anywhere => {
                set_more(settings, "deny", &format!("*{end}"), &rule.of.source)
            }
            Shape::BelowEnds(path, end) if end == ".php" => {
                set_more(settings, "no-programs", path, &rule.of.source)
            }
            Shape::InEnds(folder, end) if end == ".php" => {
                set_more(settings, "no-programs", folder, &rule.of.source)
            }
            Shape::BelowEnds(path, _) => {
                answers.parts.push((PlaceName::Below(path.clone()), refusal.clone()))
            }
            Shape::Name(name) => set_more(settings, "deny", name, &rule.of.source),
            Shape::Begins(prefix) => {
                at.scope.prefix_is_name(rule.of, prefix, true);
                answers
                    .parts
                    .extend(names(&[shape]).into_iter().flatten().map(|name| (name, refusal.clone())));
            }
            Shape::Hidden(_) => {}
            _ => answers
                .parts
                .extend(names(&[shape]).into_iter().flatten().map(|name| (name, refusal.clone()))),
        }
    }
    let why = "404 or 403 takes the place of the other, and all that the rule's conditions leave out is refused, too";
    match is_all {
        true => at.scope.differs(&rule.of.source, why, matching(&expression), Of::Everything),
        false => {
            at.scope.left(rule.of, "write deny in a place: these paths stay open", matching(&expression))
        }
    }
}

fn redirected(
    at: &At<'_, '_>,
    rule: &Rule<'_>,
    base: Option<&str>,
    status: Option<u16>,
    answers: &mut Answers,
    settings: &mut Settings,
) {
    let Some(status) = status.filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308)) else {
        return at.scope.left(rule.of, "Flash has no such answer", covered(rule, base));
    };
    let hosts: Vec<_> = rule.conditions.iter().filter(|of| matches!(of, Condition::Host { .. })).collect();
    let is_insecure = rule.conditions.contains(&Condition::WithoutTls);
    let is_plain = rule.only(|of| {
        matches!(
            of,
            Condition::WithoutTls
                | Condition::Host { .. }
                | Condition::Except(_)
                | Condition::NoFile
                | Condition::NoFolder
        )
    });
    match (&hosts[..], is_insecure) {
        _ if !is_plain && rule.conditions.contains(&Condition::Slash) => {
            let why = "a path with a slash at its end is a folder's: such paths are not redirected";
            at.scope.left(rule.of, why, Paths::Any(vec![Paths::Ends("/".into()), Paths::Missing]));
        }
        _ if !is_plain => {
            at.scope.left(rule.of, "Flash has no such condition: write sites and places", covered(rule, base))
        }
        ([] | [Condition::Host { .. }], true) if rule.is_all() && rule.to.starts_with("https://") => {
            match at.has_tls {
                true => {
                    let required = Setting::new(Value::Text("required".into()), Some(&rule.of.source));
                    answers.https = Some(required);
                    at.scope.differs(&rule.of.source, "the status is 308", Paths::Insecure, Of::Everything);
                }
                false => at.scope.left(
                    rule.of,
                    "no listener here speaks TLS: what ends it may redirect",
                    Paths::Insecure,
                ),
            }
        }
        ([], false) => parts(at, rule, base, status, answers, settings),
        ([Condition::Host { pattern, is_not }], _) if rule.is_all() => {
            of_host(at, rule, (pattern, *is_not), status, answers);
        }
        _ => {
            at.scope.left(rule.of, "Flash has no such condition: write sites and places", covered(rule, base))
        }
    }
}

/// A redirection of parts of the site.
fn parts(
    at: &At<'_, '_>,
    rule: &Rule<'_>,
    base: Option<&str>,
    status: u16,
    answers: &mut Answers,
    settings: &mut Settings,
) {
    let expression = rule.expression(base);
    let Some(tails) = pattern::tails(&expression) else {
        return at.scope.left(
            rule.of,
            "Flash redirects prefixes and single paths: write a place for each",
            matching(&expression),
        );
    };
    for of in &rule.conditions {
        let why = "the redirection holds for all paths below the prefix";
        if !matches!(of, Condition::NoFile | Condition::NoFolder) {
            at.scope.differs(&rule.of.source, why, covered(rule, base), Of::Everything);
        } else {
            at.scope.differs(&rule.of.source, why, Paths::Not(Box::new(Paths::Missing)), Of::Everything);
        }
    }
    for (tail, is_whole) in tails {
        match to(at, rule, base, Some(&tail), None) {
            Err(why) => {
                return at.scope.left(
                    rule.of,
                    format!("{why}: write a redirect by hand"),
                    matching(&expression),
                );
            }
            Ok(to) if tail.prefix.len() <= 1 && !is_whole => settings.extend(redirect(to, status, rule.of)),
            Ok(to) => answers
                .parts
                .push((name_of(at, rule.of, &tail.prefix, is_whole), redirect(to, status, rule.of))),
        }
    }
}

/// The target in Flash's words. `host` takes the place of `%1`.
fn to(
    at: &At<'_, '_>,
    rule: &Rule<'_>,
    base: Option<&str>,
    tail: Option<&Tail>,
    host: Option<&str>,
) -> Result<String, String> {
    let whole = if rule.to.contains("://") { rule.to.to_owned() } else { rule.path(base) };
    let mut text = whole.replace("%{HTTP_HOST}", "${host}").replace("%{SERVER_NAME}", "${server_name}");
    text = text.replace("%{REQUEST_URI}", "${uri}").replace("%{REQUEST_SCHEME}", "${scheme}");
    if let Some(host) = host {
        text = text.replace("%1", host);
    }
    if let Some(at) =
        text.find('%').filter(|at| text[at + 1..].starts_with(|c: char| c == '{' || c.is_ascii_digit()))
    {
        return Err(format!("Flash does not fill in {}", &text[at..]));
    }
    let (plain, query) = text.split_once('?').map_or((&*text, None), |(plain, query)| (plain, Some(query)));
    if query.is_some_and(|query| !query.is_empty()) && rule.has(&["QSA", "QSAPPEND"]) {
        let why = "the query that is added stays as it is, and is not encoded again";
        at.scope.differs(&rule.of.source, why, Paths::Queries, Of::Location);
    }
    let keeps_query =
        query.is_none_or(|_| rule.has(&["QSA", "QSAPPEND"])) && !rule.has(&["QSD", "QSDISCARD"]);
    let plain = match query.filter(|query| !query.is_empty()) {
        Some(query) => format!("{plain}?{query}"),
        None => plain.to_owned(),
    };
    target(&plain, &Known { server_name: at.server_name, scheme: at.scheme, tail, adds_query: keeps_query })
}

/// A redirection of requests for some hosts, all paths of theirs.
fn of_host(
    at: &At<'_, '_>,
    rule: &Rule<'_>,
    (expression, is_not): (&str, bool),
    status: u16,
    answers: &mut Answers,
) {
    let plain = expression.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".");
    let is_name = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    let begin = ["(.*)", "(.+)", "(.+)$"].iter().find_map(|end| plain.strip_suffix(end)).unwrap_or(&plain);
    // Each host of the site that is meant, with what follows the beginning.
    let meant: Vec<(String, String)> = match is_name(begin) {
        true if begin == plain && !begin.ends_with('.') => vec![(plain.clone(), String::new())],
        true => {
            let known =
                at.scope.hosts.iter().filter(|host| host.starts_with(begin) != is_not && *host != "*");
            known.map(|host| (host.clone(), host.strip_prefix(begin).unwrap_or(host).to_owned())).collect()
        }
        false => Vec::new(),
    };
    if meant.is_empty() {
        return match is_name(begin) {
            // The site has no such name.
            true => {}
            false => at.scope.left(rule.of, "write a site for these hosts, with redirect", Paths::All),
        };
    }
    let is_one = begin == plain && !begin.ends_with('.');
    let tail = Tail { prefix: "/".into(), group: Some(1) };
    for (host, rest) in meant {
        match to(at, rule, Some(""), Some(&tail), Some(&rest)) {
            Ok(to) => {
                answers.hosts.extend(redirect(to, status, rule.of).remove("redirect").map(|redirect| {
                    HostRedirect { hosts: vec![host], is_except: is_one && is_not, redirect }
                }))
            }
            Err(why) => at.scope.left(rule.of, format!("{why}: write a site for the host"), Paths::All),
        }
    }
}

/// Rules that name another file.
fn internal(
    at: &At<'_, '_>,
    rule: &Rule<'_>,
    base: Option<&str>,
    settings: &mut Settings,
    answers: &mut Answers,
) {
    let path = rule.path(base);
    let (plain, query) = path.split_once('?').map_or((&*path, ""), |(plain, query)| (plain, query));
    let front = plain.strip_suffix("/$1").or(plain.strip_suffix("/$0")).unwrap_or(plain);
    let has_file =
        |of: &Condition<'_>| matches!(of, Condition::NoFile | Condition::NoFolder | Condition::Except(_));
    let is_for_missing = rule.files_pass || rule.conditions.contains(&Condition::NoFile);
    let root = settings.get("root").map(|of| of.value.clone());
    match &rule.conditions[..] {
        [.., Condition::FileWithEnd(end)]
            if (front.contains('$') || front.contains('%')) && *end != "php" =>
        {
            let all = settings
                .entry("extensions")
                .or_insert(Setting::new(Value::Texts(Vec::new()), Some(&rule.of.source)));
            if let Value::Texts(all) = &mut all.value {
                all.push(format!(".{end}"));
            }
            let why = "the file comes before a folder of the same name";
            at.scope.differs(&rule.of.source, why, Paths::Folders, Of::Everything);
        }
        // WordPress and others give everything without a file to one script.
        conditions
            if is_for_missing && rule.only(has_file) && rule.is_all() && !front.contains(['$', '%']) =>
        {
            set_fallback(at.scope, settings, front, rule.of);
            if !query.is_empty() || front != plain {
                let why = format!("{front} gets the request's own query, and its path in REQUEST_URI");
                at.scope.differs(&rule.of.source, why, Paths::Missing, Of::Everything);
            }
            if conditions.iter().any(|of| matches!(of, Condition::Except(_))) {
                let why = "the fallback answers for all paths without a file";
                at.scope.differs(&rule.of.source, why, Paths::Missing, Of::Everything);
            }
        }
        // Laravel and others lie in a folder of what is served.
        [] | [Condition::Except(_)]
            if rule.is_all() && front != plain && !front.contains(['$', '%', '.']) =>
        {
            if let Some(Value::Text(root)) = root {
                set(settings, "root", Value::Text(format!("{root}{front}")), Some(rule.of));
            }
            let why = format!("the folder's own name is no part of paths: {front} is not found in itself");
            at.scope.differs(&rule.of.source, why, Paths::Begins(front.into()), Of::Everything);
        }
        [] if !plain.contains(['$', '%']) => match pattern::shapes(&rule.expression(base)).as_deref() {
            Some([Shape::Exact(from)]) => {
                let mut single = Settings::new();
                set(&mut single, "fallback", Value::Text(plain.into()), Some(rule.of));
                answers.parts.push((PlaceName::Exact(from.clone()), single));
                if !query.is_empty() {
                    let why = format!("{plain} gets the request's own query, and its path in REQUEST_URI");
                    at.scope.differs(&rule.of.source, why, Paths::Exact(from.clone()), Of::Everything);
                }
            }
            _ => left(at, rule, base, settings),
        },
        _ => left(at, rule, base, settings),
    }
}

/// A rule that is not taken. If a program was to answer in place of all files, nobody gets these.
fn left(at: &At<'_, '_>, rule: &Rule<'_>, base: Option<&str>, settings: &mut Settings) {
    let is_for_missing = rule.files_pass || rule.conditions.contains(&Condition::NoFile) && !rule.has_or;
    let is_of_all = rule.is_all() || rule.pattern.starts_with('!');
    let changes_paths = !rule.to.contains("://") || rule.has(&["P", "PROXY"]);
    if is_of_all && changes_paths && !is_for_missing && rule.value(&["R", "REDIRECT"]).is_none() {
        forbid(settings, rule.of);
        let why = "what answers all of this in place of files has no counterpart: nobody gets in until you write fallback or proxy";
        return at.scope.left(rule.of, why, at_all(base));
    }
    let why =
        "Flash does not change paths: let the script read REQUEST_URI, or name the file as its requests do";
    at.scope.left(rule.of, why, covered(rule, base));
}
