//! `flash explain`: what a request gets from a configuration file, and why.
//!
//! The request path itself answers, see [`serve::Rehearsal`]. The file says which rules hold, and on which line. Nothing here decides.

use std::fmt::Write;

use flash_core::file::validators::{Tag, Validators};
use flash_http::Scheme;
use serde_json::{Value, json};

use crate::config::{Explained, Line};
use crate::failure::Failure;
use crate::flags::{Explain, Listen, Serve, Url};
use crate::serve::{self, Answer, Found};

pub(crate) fn run(flags: &Explain) -> Result<(), Failure> {
    let explained = Explained::read(&flags.config)?;
    let rehearsal = serve::rehearse(&explained.flags)?;
    let mut text = String::new();
    for url in &flags.urls {
        let answer = rehearsal.answer(request(flags, url).as_bytes(), url.is_https);
        let listener = listener(&explained.flags, url);
        let (named, rules) = match answer.site {
            Some((site, place)) => explained.lines(site, place),
            None => (Vec::new(), Vec::new()),
        };
        let at = answer.site.zip(answer.found_at.clone()).map(|((site, _), (path, place))| {
            let (named, mut of_place) = explained.lines(site, place);
            of_place.retain(|rule| !rules.contains(rule));
            FoundAt { path, places: named.into_iter().skip(1).collect(), rules: of_place }
        });
        let explanation = Explanation { url, listener, named, rules, at, answer };
        if flags.json {
            let _ = writeln!(text, "{}", explanation.json());
        } else {
            let blank = if text.is_empty() { "" } else { "\n" };
            let _ = write!(text, "{blank}{}", explanation.text());
        }
    }
    flash_cli::print(text.as_bytes())
}

fn request(flags: &Explain, url: &Url) -> String {
    let fields: String = flags.header.iter().map(|field| format!("{field}\r\n")).collect();
    format!("{} {} HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", flags.method.name(), url.target, url.authority)
}

/// The first listener with this scheme and this port.
fn listener(flags: &Serve, url: &Url) -> Option<String> {
    let is_it = |listen: &&Listen| {
        let port = listen.port();
        (listen.scheme() == Scheme::Https) == url.is_https && port.is_some_and(|of| of == url.port || of == 0)
    };
    flags.listen.iter().find(is_it).map(|listen| listen.place.to_string())
}

struct Explanation<'a> {
    url: &'a Url,
    listener: Option<String>,
    /// The site, and the parts of the place.
    named: Vec<Line>,
    rules: Vec<Line>,
    at: Option<FoundAt>,
    answer: Answer,
}

/// What answers at another path than the request's: its path, the parts of its place, and the rules that hold there, too.
struct FoundAt {
    path: String,
    places: Vec<Line>,
    rules: Vec<Line>,
}

impl Explanation<'_> {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.url.text);
        let mut line = |name: &str, value: &str, at: &str| {
            let at = if at.is_empty() { String::new() } else { format!("  ({at})") };
            let _ = writeln!(text, "  {name:<9} {value}{at}");
        };
        match &self.listener {
            Some(listener) => line("listener", listener, ""),
            None => {
                let scheme = if self.url.is_https { "with" } else { "without" };
                line("listener", &format!("none at port {} {scheme} TLS", self.url.port), "");
            }
        }
        match self.answer.site {
            None => line("site", "none has this host", ""),
            Some(_) if self.named.is_empty() => line("site", "the only one", ""),
            Some(_) => {}
        }
        for (number, name) in self.named.iter().enumerate() {
            line(if number == 0 { "site" } else { "place" }, &name.text, &name.at);
        }
        self.rules.iter().for_each(|rule| line("rule", &rule.text, &rule.at));
        if let Some(FoundAt { path, places, rules }) = &self.at {
            line("answers", path, "");
            places.iter().for_each(|place| line("place", &place.text, &place.at));
            rules.iter().for_each(|rule| line("rule", &rule.text, &rule.at));
        }
        self.rule_of("signed").into_iter().for_each(|rule| line("link", "signed", &rule.at));
        self.rule_of("auth").into_iter().for_each(|rule| line("log-in", "needed", &rule.at));
        match &self.answer.found {
            Some(Found::File(path)) => line("file", &path.display().to_string(), ""),
            Some(Found::Folder) => line("found", "a folder", ""),
            Some(Found::Script) => line("found", "a script", ""),
            Some(Found::Nothing) => line("found", "nothing", ""),
            None => {}
        }
        self.known_by().into_iter().for_each(|known_by| line("known by", known_by, ""));
        if let Some((program, script)) = &self.answer.program {
            line("program", program, "");
            script.iter().for_each(|script| line("script", script, ""));
            line("status", "the program's", "");
        }
        if let Some((status, fields)) = &self.answer.head {
            line("status", &status.to_string(), "");
            fields.iter().for_each(|(name, value)| line("field", &format!("{name}: {value}"), ""));
        }
        text
    }

    /// What tells versions of the file apart, and why.
    fn known_by(&self) -> Option<&'static str> {
        let Validators { tag, has_time } = self.answer.validators?;
        Some(match (tag, has_time) {
            (Tag::Time, _) => "its time and size",
            (Tag::Digest(None), _) => "nothing: its content could not be read",
            (Tag::Digest(_), true) => "its content and time",
            (Tag::Digest(_), false) => "its content, because its time says nothing",
            (Tag::Off, true) => "its time, without a tag",
            (Tag::Off, false) => "nothing: there are no tags, and its time says nothing",
        })
    }

    /// The rule with this key, by which the client has to show something.
    fn rule_of(&self, key: &str) -> Option<&Line> {
        let is_on = |rule: &&Line| {
            rule.text.split_once(" = ").is_some_and(|(name, value)| name == key && value != "off")
        };
        let of_found = self.at.iter().flat_map(|at| &at.rules);
        self.rules.iter().chain(of_found).find(is_on)
    }

    fn json(&self) -> Value {
        let lines = |lines: &[Line]| -> Vec<Value> {
            lines.iter().map(|line| json!({ "text": line.text, "at": line.at })).collect()
        };
        let found = match &self.answer.found {
            Some(Found::File(path)) => json!({ "file": path.display().to_string() }),
            Some(Found::Folder) => "folder".into(),
            Some(Found::Script) => "script".into(),
            Some(Found::Nothing) => "nothing".into(),
            None => Value::Null,
        };
        let program = self.answer.program.as_ref();
        let (status, fields) =
            self.answer.head.as_ref().map_or((None, &[][..]), |(status, fields)| (Some(status), fields));
        json!({
            "url": self.url.text,
            "listener": self.listener,
            "site": self.named.first().map(|site| json!({ "text": site.text, "at": site.at })),
            "places": lines(self.named.get(1..).unwrap_or_default()),
            "rules": lines(&self.rules),
            "answers": self.at.as_ref().map(|at| {
                json!({ "path": at.path, "places": lines(&at.places), "rules": lines(&at.rules) })
            }),
            "link": self.rule_of("signed").map(|rule| json!({ "at": rule.at })),
            "login": self.rule_of("auth").map(|rule| json!({ "at": rule.at })),
            "found": found,
            "known_by": self.known_by(),
            "program": program.map(|(program, script)| json!({ "text": program, "script": script })),
            "status": status,
            "fields": fields,
        })
    }
}
