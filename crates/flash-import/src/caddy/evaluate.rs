//! What Caddy would do for the requests of a place, directive by directive in its order.

use std::cmp::Ordering;

use super::answer::Answer;
use super::directives::{advice, opens_nothing, place_in_order};
use super::lines::{Lines, Matched};
use super::matcher::{Matcher, Pattern};
use super::proxy;
use crate::directive::Directive;
use crate::flash::{PlaceName, Setting, Settings, Value, is_refused, set, set_more};
use crate::note::{Of, Paths};

/// Indexes of `file_server`.
const INDEX: [&str; 2] = ["index.html", "index.txt"];

/// The settings of a place, whose first line is `of`.
pub(super) fn of<'t>(lines: &Lines<'t>, place: &PlaceName, of: &'t Directive) -> Settings {
    let mut answer = Answer {
        lines: lines.clone(),
        place,
        settings: Settings::new(),
        stripped: String::new(),
        root: None,
        index: INDEX.map(Into::into).into(),
        is_answered: false,
        supplied: Vec::new(),
        runs_scripts: false,
        own_blocks: 0,
        in_doubt: Vec::new(),
    };
    for (key, value) in [("compress", "off"), ("body-bytes-max", "1024G"), ("follow-links", "anywhere")] {
        set(&mut answer.settings, key, Value::Text(value.into()), None);
    }
    set(&mut answer.settings, "no-precompressed", Value::Flag(true), None);
    answer.lines(true);
    match (answer.is_answered, answer.runs_scripts) {
        (true, _) => {}
        (false, true) => answer.close(of, "Caddy serves no files beside the scripts: write deny for them"),
        // Caddy has nothing to say, with 200.
        (false, false) => answer.respond(200, "", of),
    }
    answer.settle_doubts();
    let answers = |key: &&str| answer.settings.contains_key(*key);
    if ["proxy", "fastcgi"].iter().any(answers) {
        for (line, _) in &answer.supplied {
            answer.differs(line, "it takes the place of the field that a program sends");
        }
    }
    if ["respond", "proxy", "fastcgi"].iter().any(answers) && answer.settings.contains_key("cache-control") {
        let why = "files alone have this Cache-Control, and no answers of respond and programs";
        lines.scope.differs(&of.source, why, answer.concerns(), Of::CacheControl);
    }
    if let Some(fallback) =
        answer.settings.get("fallback").filter(|_| answer.settings.contains_key("respond"))
    {
        let why = "paths without a file are answered as others here, and not as the one that they lead to";
        let source = fallback.source.as_ref().unwrap_or(&of.source);
        lines.scope.differs(source, why, answer.concerns(), Of::Everything);
        answer.settings.remove("fallback");
    }
    if let Some(root) = answer.root {
        let path = root.words.last().map_or("", String::as_str);
        set(&mut answer.settings, "root", Value::Text(path.trim_end_matches('/').into()), Some(root));
    }
    if answer.root.is_none() && answer.settings.contains_key("deny") && !answer.settings.contains_key("proxy")
    {
        // A place without files needs another answer.
        let refusal = Value::Named(vec![("status", Value::Number(403))]);
        answer.settings.entry("respond").or_insert_with(|| Setting::new(refusal, None));
    }
    if !answer.stripped.is_empty() {
        set(&mut answer.settings, "strip-prefix", Value::Text(answer.stripped.clone()), None);
    }
    set(&mut answer.settings, "index", Value::Texts(answer.index), None);
    answer.settings
}

impl<'t> Answer<'_, 't> {
    /// The block of a line.
    fn block(&mut self, of: &'t Directive, is_sorted: bool) {
        let inner = self.lines.inner(of);
        let outer = std::mem::replace(&mut self.lines, inner);
        self.lines(is_sorted);
        self.lines = outer;
    }

    /// The lines of the present block.
    fn lines(&mut self, is_sorted: bool) {
        let all = self.lines.matched(|all| {
            if is_sorted {
                sort(all)
            }
        });
        let mut is_handled = false;
        for (of, matcher, words) in &*all {
            if self.is_answered {
                return;
            }
            // Below a prefix there is no place for ends of names.
            let is_inner = self.own_blocks > 0 && matches!(self.place, PlaceName::Below(_));
            if (is_inner || !self.stripped.is_empty()) && matcher.has_ends() {
                self.unknown(of);
                continue;
            }
            if !matcher.covers(&self.local()) {
                continue;
            }
            let is_handle = is_sorted && matches!(&*of.name, "handle" | "handle_path");
            if is_handle && is_handled {
                continue;
            }
            self.lines.scope.context.see(of);
            if matcher.is_unknown {
                self.unknown(of);
                continue;
            }
            match &matcher.clients {
                Some((networks, is_not)) => self.clients(of, networks, *is_not),
                None => {
                    is_handled |= is_handle;
                    self.directive(of, matcher, words);
                }
            }
        }
    }

    /// A directive whose conditions Flash has not.
    fn unknown(&mut self, of: &'t Directive) {
        self.lines.scope.see_all(of);
        match opens_nothing(&of.name) {
            true => self.left(of, "Flash has no such condition: write sites and places"),
            false => self.in_doubt.push((of, "Flash has no such condition")),
        }
    }

    /// Without a line that answers some requests alone, those would have what later lines answer: they may have a refusal, and nothing else.
    fn settle_doubts(&mut self) {
        let is_refused = is_refused(&self.settings);
        for (of, why) in std::mem::take(&mut self.in_doubt) {
            match is_refused {
                true => self.left(of, why),
                false => self.close(of, why),
            }
        }
    }

    /// A directive for some clients alone.
    fn clients(&mut self, of: &'t Directive, networks: &[String], is_not: bool) {
        // Two lists that both have to admit a client are none of Flash's.
        if !is_refusal(of) || is_not && self.settings.contains_key("allow") {
            return self.unknown(of);
        }
        self.lines.scope.see_all(of);
        let key = if is_not { "allow" } else { "deny" };
        networks.iter().for_each(|network| set_more(&mut self.settings, key, network, &of.source));
        self.differs(of, "other clients get 403");
    }

    fn directive(&mut self, of: &'t Directive, matcher: &Matcher, words: &'t [String]) {
        match (&*of.name, words) {
            ("root", [path]) if path.contains('{') => {
                self.close(of, "Flash has no variables in the names of folders")
            }
            ("root", [_]) => self.root = Some(of),
            ("header", _) => self.header(of, words),
            ("encode", _) => self.encode(of, words),
            ("request_body", []) => {
                for line in of.block.iter().flatten().filter(|line| line.name == "max_size") {
                    self.lines.scope.context.see(line);
                    let size = line.words.concat().to_ascii_uppercase().replace("IB", "").replace('B', "");
                    set(&mut self.settings, "body-bytes-max", Value::Text(size), Some(line));
                }
            }
            ("redir", [to]) => self.redirect(of, to, "302"),
            ("redir", [to, code]) => self.redirect(of, to, code),
            ("rewrite", [to]) => self.rewrite(of, to),
            ("uri", [what, prefix])
                if what == "strip_prefix" && self.stripped.is_empty() && self.place_is_below(prefix) =>
            {
                self.stripped.push_str(prefix.trim_end_matches('/'));
            }
            ("try_files", _) => self.try_files(of, words),
            ("basicauth" | "basic_auth", _) => {
                self.close(of, "write its users into a file (htpasswd -B), and auth = \"FILE\"");
            }
            ("handle" | "route", []) => {
                let is_own = usize::from(!matcher.paths.is_empty());
                self.own_blocks += is_own;
                self.block(of, of.name == "handle");
                self.own_blocks -= is_own;
            }
            ("handle_path", []) => match &matcher.paths[..] {
                [Pattern::Below(path) | Pattern::Begins(path)] => {
                    self.stripped.push_str(path);
                    self.own_blocks += 1;
                    self.block(of, true);
                    self.own_blocks -= 1;
                    if !self.is_answered {
                        self.close(of, "what follows is about the rest of the path");
                    }
                }
                _ => self.close(of, "Flash strips prefixes"),
            },
            ("abort", []) => {
                self.respond(403, "", of);
                self.differs(of, "clients get 403, where Caddy closes the connection");
            }
            ("error" | "respond", _) => self.answer(of, words),
            ("reverse_proxy", _) => proxy::reverse(self, of, words),
            ("php_fastcgi", _) => proxy::php(self, of, words),
            ("file_server", _) => self.files(of, words),
            ("log_skip" | "skip_log", []) => {
                set(&mut self.settings, "access-log", Value::Text("off".into()), Some(of))
            }
            (name, _) if opens_nothing(name) => {
                self.lines.scope.see_all(of);
                self.left(of, advice(&of.name));
            }
            _ => {
                self.lines.scope.see_all(of);
                self.in_doubt.push((of, "Flash has nothing like it"));
            }
        }
    }

    fn redirect(&mut self, of: &'t Directive, to: &str, code: &str) {
        let status = match code {
            "permanent" => Some(301),
            "temporary" => Some(302),
            code => code.parse().ok().filter(|status| matches!(status, 301 | 302 | 303 | 307 | 308)),
        };
        let status = status.ok_or("Flash has no such redirection".to_owned());
        match status.and_then(|status| Ok((self.target(to)?, status))) {
            Ok((to, status)) => {
                let named = vec![("to", Value::Text(to)), ("status", Value::Number(status))];
                set(&mut self.settings, "redirect", Value::Named(named), Some(of));
                self.is_answered = true;
            }
            Err(why) => self.close(of, &why),
        }
    }

    /// A target in Flash's words. `{uri}` has the query, and without it the query is dropped.
    fn target(&self, to: &str) -> Result<String, String> {
        let path = match (&*self.stripped, self.place) {
            ("", _) => "{path}",
            (stripped, PlaceName::Below(path)) if path == stripped => "{rest}",
            _ => return Err("Flash has the whole path, or what follows the place".into()),
        };
        let mut keeps_query = false;
        let mut to = to.to_owned();
        for end in ["?{query}", "?{http.request.uri.query}"] {
            if let Some(before) = to.strip_suffix(end) {
                (to, keeps_query) = (before.to_owned(), true);
            }
        }
        for gap in ["{uri}", "{http.request.uri}"] {
            if let Some(before) = to.strip_suffix(gap) {
                (to, keeps_query) = (format!("{before}\u{1}"), true);
            }
        }
        let to = to.replace("{path}", "\u{1}").replace("{http.request.uri.path}", "\u{1}");
        let to = to.replace("{host}", "\u{2}").replace("{http.request.host}", "\u{2}");
        if to.contains(['{', '}']) || to.contains('\u{1}') && to.contains('?') {
            return Err("Flash fills in {path} and {host}".into());
        }
        let to = to.replace('\u{1}', path).replace('\u{2}', "{host}");
        Ok(if keeps_query { to } else { to + "?" })
    }

    fn rewrite(&mut self, of: &'t Directive, to: &str) {
        let to = to.strip_suffix("?{query}").unwrap_or(to);
        let is_file = to.starts_with('/') && !to.contains(['{', '?']) && self.root.is_some();
        let why = match self.place {
            PlaceName::Exact(_) if is_file => {
                "Flash answers a path with its own file: write redirect or respond"
            }
            _ => "Flash rewrites no paths: write fallback, extensions or strip-prefix",
        };
        self.close(of, why);
    }

    fn try_files(&mut self, of: &'t Directive, words: &[String]) {
        let (last, others) = match words.split_last() {
            Some(split) => split,
            None => return self.left(of, "there are no files"),
        };
        let own =
            |word: &String| ["{path}", "{path}/", "{path}/index.html", "{path}/index.php"].contains(&&**word);
        let extension = |word: &String| word.strip_prefix("{path}.").map(|end| format!(".{end}"));
        let (fallback, files) = match last.strip_prefix('/') {
            Some(_) => (Some(last.split('?').next().unwrap_or_default()), others),
            None => (None, words),
        };
        let files: Vec<&String> = files.iter().filter(|word| *word != "=404").collect();
        if !files.iter().all(|word| own(word) || extension(word).is_some())
            || fallback.is_some_and(|to| to.contains('{'))
        {
            return self.close(of, "write fallback or extensions for these files");
        }
        let extensions: Vec<String> = files.iter().filter_map(|word| extension(word)).collect();
        let why = "a path with a slash at its end is no file's";
        let paths = Paths::Any(vec![Paths::Ends("/".into()), Paths::BelowFiles]);
        self.lines.scope.differs(&of.source, why, paths, Of::Everything);
        if !extensions.is_empty() {
            set(&mut self.settings, "extensions", Value::Texts(extensions), Some(of));
        }
        // What an earlier line leads to is there.
        if let Some(to) = fallback.filter(|_| !self.settings.contains_key("fallback")) {
            set(&mut self.settings, "fallback", Value::Text(to.into()), Some(of));
            let why = "the fallback answers for folders without an index, too, and other methods are 405";
            let paths = Paths::Any(vec![Paths::Folders, Paths::OtherMethods]);
            self.lines.scope.differs(&of.source, why, paths, Of::Everything);
        }
        if *self.place != PlaceName::Below(String::new()) && fallback.is_some() && self.own_blocks == 0 {
            self.differs(
                of,
                "with Caddy, a path without a file leads to the last one before this place is looked at",
            );
        }
    }

    /// `respond` and `error`: a text, a status, or both.
    fn answer(&mut self, of: &'t Directive, words: &[String]) {
        self.lines.scope.see_all(of);
        let Some((status, body)) = status_and_body(of, words) else {
            return self.close(of, "Flash has no such answer");
        };
        match status {
            _ if body.contains('{') && of.name == "respond" => self.close(of, "Flash fills in no variables"),
            200..=599 if status != 304 => self.respond(status, &body, of),
            _ => self.close(of, "Flash has no such answer"),
        }
    }
}

/// As Caddy does: what comes before what is no order of all, so it matters how they are sorted.
fn sort(all: &mut [Matched<'_>]) {
    // The last one of these counts.
    let is_last = |of: &Directive| ["root", "vars"].contains(&&*of.name);
    let mut places: Vec<Option<usize>> = all.iter().map(|(of, ..)| place_in_order(&of.name)).collect();
    for end in 1..all.len() {
        let mut at = end;
        while at > 0 {
            let ((of, matcher, _), (_, before, _)) = (&all[at], &all[at - 1]);
            let comes_first = match places[at].cmp(&places[at - 1]) {
                Ordering::Equal if is_last(of) => before.is_before(matcher),
                Ordering::Equal => matcher.is_before(before),
                order => order == Ordering::Less,
            };
            if !comes_first {
                break;
            }
            all.swap(at, at - 1);
            places.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// What `respond` and `error` answer.
fn status_and_body(of: &Directive, words: &[String]) -> Option<(usize, String)> {
    let is_status = |word: &String| word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    let default = if of.name == "error" { 500 } else { 200 };
    let in_block = || {
        let line = of.block.iter().flatten().find(|line| line.name == "body");
        line.map(|line| line.words.concat()).unwrap_or_default()
    };
    match words {
        [] => Some((default, in_block())),
        [status] if is_status(status) => Some((status.parse().ok()?, in_block())),
        [body] => Some((default, body.clone())),
        [body, status] if is_status(status) => Some((status.parse().ok()?, body.clone())),
        _ => None,
    }
}

/// Whether a directive does nothing but refuse.
fn is_refusal(of: &Directive) -> bool {
    let has_matcher = |of: &Directive| of.words.first().is_some_and(|word| word.starts_with(['@', '/', '*']));
    match (&*of.name, of.block.as_deref()) {
        ("handle", Some([only])) => !has_matcher(only) && is_refusal(only),
        ("abort", _) => true,
        ("error" | "respond", _) => status_and_body(of, &of.words[usize::from(has_matcher(of))..])
            .is_some_and(|(status, _)| status >= 400),
        _ => false,
    }
}
