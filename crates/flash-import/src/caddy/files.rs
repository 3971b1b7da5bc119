//! What a place has of files: fields, compression, folders and what is hidden in them.

use std::collections::BTreeMap;

use super::answer::Answer;
use crate::directive::Directive;
use crate::flash::{Setting, Value, set, set_more};
use crate::note::{Of, Paths};

impl<'t> Answer<'_, 't> {
    /// A line, or a block of lines, each with a field.
    pub(super) fn header(&mut self, of: &'t Directive, words: &'t [String]) {
        let lines = of.block.iter().flatten();
        let mut fields: Vec<(&'t Directive, &'t str, &[String])> =
            words.split_first().map(|(name, values)| (of, name.as_str(), values)).into_iter().collect();
        fields.extend(lines.map(|line| (line, line.name.as_str(), &line.words[..])));
        for (line, name, values) in fields {
            self.lines.scope.context.see(line);
            match (name.strip_prefix('-'), values) {
                _ if name == "defer" => {}
                (Some("Server"), []) => {}
                (Some(name), []) if !name.contains('*') => {
                    set_more(&mut self.settings, "no-header", name, &line.source)
                }
                (None, [value]) if !value.contains('{') => {
                    let field = name.trim_start_matches(['+', '?', '>']);
                    if name.starts_with('+') && self.has_field(field) {
                        self.left(line, "a field has one value: write all in one, with commas");
                        continue;
                    }
                    match name.starts_with('?') {
                        true => self.supply(line, field, value),
                        false => {
                            self.supplied.retain(|(_, known)| !known.eq_ignore_ascii_case(field));
                            self.field(line, field, value);
                        }
                    }
                }
                _ => self.left(line, "Flash sets fields, and leaves them out: write header or no-header"),
            }
        }
    }

    /// A field for answers without one: what an earlier line has set stays.
    fn supply(&mut self, line: &'t Directive, name: &'t str, value: &str) {
        let is_supplied = self.supplied.iter().any(|(_, known)| known.eq_ignore_ascii_case(name));
        if !self.has_field(name) || is_supplied {
            self.supplied.push((line, name));
            self.field(line, name, value);
        }
    }

    fn has_field(&self, name: &str) -> bool {
        if name.eq_ignore_ascii_case("cache-control") {
            return self.settings.contains_key("cache-control");
        }
        match self.settings.get("header").map(|of| &of.value) {
            Some(Value::Table(fields)) => fields.keys().any(|known| known.eq_ignore_ascii_case(name)),
            _ => false,
        }
    }

    pub(super) fn field(&mut self, line: &Directive, name: &str, value: &str) {
        if name.eq_ignore_ascii_case("cache-control") {
            return set(&mut self.settings, "cache-control", Value::Text(value.into()), Some(line));
        }
        let fields = Setting::new(Value::Table(BTreeMap::new()), Some(&line.source));
        if let Value::Table(fields) = &mut self.settings.entry("header").or_insert(fields).value {
            fields.retain(|known, _| !known.eq_ignore_ascii_case(name));
            fields.insert(name.into(), value.into());
        }
    }

    pub(super) fn encode(&mut self, of: &'t Directive, words: &[String]) {
        let lines = of.block.iter().flatten().inspect(|line| self.lines.scope.context.see(line));
        let all = words.iter().map(String::as_str).chain(lines.map(|line| line.name.as_str()));
        let codings: Vec<&str> = all.filter(|name| ["zstd", "br", "gzip"].contains(name)).collect();
        let codings = if codings.is_empty() { "zstd,gzip".into() } else { codings.join(",") };
        set(&mut self.settings, "compress", Value::Text(codings), Some(of));
    }

    pub(super) fn files(&mut self, of: &'t Directive, words: &[String]) {
        for word in words {
            match &**word {
                "browse" => self.list(of),
                _ => self.left(of, "Flash has no such option"),
            }
        }
        for line in of.block.iter().flatten() {
            self.lines.scope.context.see(line);
            match (&*line.name, &line.words[..]) {
                ("root", [path]) if !path.contains('{') => self.root = Some(line),
                ("browse", _) => self.list(line),
                ("index", names) => self.index = names.to_vec(),
                ("hide", names) => names.iter().for_each(|name| self.hide(line, name)),
                ("precompressed", _) => _ = self.settings.remove("no-precompressed"),
                _ => self.left(line, "Flash has no such option"),
            }
        }
        self.is_answered = true;
        let why = "a folder has its slash by 301 and not 308, and without an index it is 403; a file with a slash behind it is 404";
        let paths = Paths::Any(vec![Paths::Folders, Paths::BelowFiles]);
        self.lines.scope.differs(&of.source, why, paths, Of::Everything);
        if self.root.is_none() {
            self.close(of, "Caddy's own folder is served: write its root");
        }
    }

    pub(super) fn list(&mut self, of: &Directive) {
        set(&mut self.settings, "list", Value::Flag(true), Some(of));
        self.lines.scope.differs(&of.source, "listings have another look", Paths::Folders, Of::Everything);
    }

    /// A name, the end of names, or a path of the disk.
    pub(super) fn hide(&mut self, of: &Directive, name: &str) {
        let is_plain = |name: &str| !name.contains(['*', '?', '[', '{', '/']);
        match name.strip_prefix('*') {
            _ if name.starts_with('.') && is_plain(name) => {}
            Some(end) if is_plain(end) => set_more(&mut self.settings, "deny", name, &of.source),
            None if is_plain(name) => set_more(&mut self.settings, "deny", name, &of.source),
            _ => self.close(of, "write deny for what is hidden"),
        }
    }
}
