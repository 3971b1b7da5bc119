//! Which requests a directive is about: paths and clients, and what Flash has no place for.

use crate::directive::Directive;
use crate::flash::{PlaceName, is_below, is_network};

/// A path as a matcher writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    All,
    /// What is below `/a/`. A slash is no part of it.
    Below(String),
    /// What begins so.
    Begins(String),
    Exact(String),
    Ends(String),
    Other,
}

/// What a directive is about.
#[derive(Clone, Debug, Default)]
pub(super) struct Matcher {
    pub(super) paths: Vec<Pattern>,
    pub(super) not_paths: Vec<Pattern>,
    /// Networks of clients, and whether all others are meant.
    pub(super) clients: Option<(Vec<String>, bool)>,
    /// There are conditions that Flash has not.
    pub(super) is_unknown: bool,
}

/// Those that Caddy calls private.
const PRIVATE: [&str; 6] =
    ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1/128"];

impl Pattern {
    /// Caddy's paths have no case. What a note says of capitals leaves those in small letters.
    fn all(text: &str) -> Vec<Self> {
        let mut all = vec![Self::of(text), Self::of(&text.to_ascii_lowercase())];
        all.dedup();
        all
    }

    /// Whether only the case differs.
    fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Below(one), Self::Below(other))
            | (Self::Begins(one), Self::Begins(other))
            | (Self::Exact(one), Self::Exact(other))
            | (Self::Ends(one), Self::Ends(other)) => one.eq_ignore_ascii_case(other),
            _ => false,
        }
    }

    fn of(text: &str) -> Self {
        let inner = |text: &str| text.contains(['*', '{', '%']);
        match (text.strip_suffix('*'), text.strip_prefix('*')) {
            _ if text == "*" || text == "/*" => Self::All,
            (Some(begin), _) if begin.starts_with('/') && !inner(begin) => match begin.strip_suffix('/') {
                Some(folder) => Self::Below(folder.into()),
                None => Self::Begins(begin.into()),
            },
            (None, Some(end)) if !end.is_empty() && !end.contains('/') && !inner(end) => {
                Self::Ends(end.into())
            }
            (None, None) if text.starts_with('/') && !inner(text) => Self::Exact(text.into()),
            _ => Self::Other,
        }
    }

    /// The place that it is about.
    pub(super) fn place(&self) -> Option<PlaceName> {
        match self {
            Self::Below(path) | Self::Begins(path) => Some(PlaceName::Below(path.clone())),
            Self::Exact(path) => Some(PlaceName::Exact(path.clone())),
            Self::Ends(end) => Some(PlaceName::Ends(end.clone())),
            _ => None,
        }
    }

    /// Whether it is about a place, without the parts that have places of their own.
    fn covers(&self, place: &PlaceName) -> bool {
        match (self, place) {
            (Self::All, _) => true,
            (Self::Below(path) | Self::Begins(path), PlaceName::Below(own)) => is_below(own, path),
            (Self::Below(path), PlaceName::Exact(own)) => own != path && is_below(own, path),
            (Self::Begins(path), PlaceName::Exact(own)) => own.starts_with(path.as_str()),
            (Self::Exact(path), PlaceName::Exact(own)) => own == path,
            (Self::Ends(end), PlaceName::Exact(own) | PlaceName::Ends(own)) => own.ends_with(end.as_str()),
            _ => false,
        }
    }
}

impl Matcher {
    /// The matcher of a directive, and the words behind it. `named` finds the line of a name.
    pub(super) fn of<'t>(
        of: &'t Directive,
        named: impl FnOnce(&str) -> Option<&'t Directive>,
    ) -> (Self, &'t [String]) {
        let Some((first, rest)) = of.words.split_first() else { return (Self::default(), &of.words) };
        match first.strip_prefix('@') {
            Some(_) => (named(first).map_or_else(Self::unknown, Self::read), rest),
            None if first == "*" || first.starts_with('/') && may_have_path(of) => {
                (Self { paths: Pattern::all(first), ..Self::default() }, rest)
            }
            None => (Self::default(), &of.words),
        }
    }

    fn unknown() -> Self {
        Self { is_unknown: true, ..Self::default() }
    }

    /// A named one: its conditions stand in one line or in a block.
    fn read(named: &Directive) -> Self {
        let mut matcher = Self::default();
        match (&named.block, named.words.split_first()) {
            (Some(block), None) => {
                block.iter().for_each(|of| matcher.add(&of.name, &of.words, of.block.as_deref()))
            }
            (None, Some((name, words))) => matcher.add(name, words, None),
            _ => matcher.is_unknown = true,
        }
        // Others may come in where the variable is set.
        let mut lines = [named].into_iter().chain(named.block.iter().flatten());
        matcher.is_unknown |= matcher.clients.is_some() && lines.any(|of| of.has_defaults);
        matcher
    }

    fn add(&mut self, name: &str, words: &[String], block: Option<&[Directive]>) {
        let networks = || {
            words.iter().flat_map(|word| match word.as_str() {
                "private_ranges" => PRIVATE.map(str::to_owned).to_vec(),
                word => vec![word.to_owned()],
            })
        };
        match (name, words, block) {
            // Lines of one kind are joined.
            ("path", _, None) => self.paths.extend(words.iter().flat_map(|word| Pattern::all(word))),
            ("remote_ip" | "client_ip", _, None)
                if self.clients.is_none() && networks().all(|network| is_network(&network)) =>
            {
                self.clients = Some((networks().collect(), false));
            }
            ("not", [name, words @ ..], None) => {
                let mut inner = Self::default();
                inner.add(name, words, None);
                self.add_not(inner);
            }
            ("not", [], Some([only])) => {
                let mut inner = Self::default();
                inner.add(&only.name, &only.words, only.block.as_deref());
                self.add_not(inner);
            }
            _ => self.is_unknown = true,
        }
        self.is_unknown |= self.paths.iter().chain(&self.not_paths).any(|path| *path == Pattern::Other);
    }

    fn add_not(&mut self, inner: Self) {
        match inner {
            Self { paths, clients: None, is_unknown: false, .. } if !paths.is_empty() => {
                self.not_paths.extend(paths)
            }
            Self { clients: Some((networks, false)), is_unknown: false, .. } if self.clients.is_none() => {
                self.clients = Some((networks, true));
            }
            _ => self.is_unknown = true,
        }
    }

    pub(super) fn covers(&self, place: &PlaceName) -> bool {
        let covers = |paths: &[Pattern]| paths.iter().any(|path| path.covers(place));
        (self.paths.is_empty()
            || covers(&self.paths)
            || self.is_unknown && self.paths.contains(&Pattern::Other))
            && !covers(&self.not_paths)
    }

    /// Whether a directive with it comes before one of the same name: of two paths the longer one, and what has conditions before what
    /// has none.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        match (self.only_path(), other.only_path()) {
            (Some(own), Some(other)) => own > other,
            _ => self.has_conditions() && !other.has_conditions(),
        }
    }

    fn has_conditions(&self) -> bool {
        !matches!(self.paths[..], [] | [Pattern::All]) || self.has_more()
    }

    /// Conditions about something else than one path.
    fn has_more(&self) -> bool {
        !self.not_paths.is_empty() || self.clients.is_some() || self.is_unknown
    }

    /// The length of its path, if that is its only condition.
    fn only_path(&self) -> Option<usize> {
        let is_one = self.paths.windows(2).all(|pair| pair[0].is_alike(&pair[1]));
        match self.paths.first().filter(|_| is_one && !self.has_more())? {
            Pattern::Below(path) => Some(path.len() + 2),
            Pattern::Begins(text) | Pattern::Ends(text) => Some(text.len() + 1),
            Pattern::Exact(path) => Some(path.len()),
            Pattern::All | Pattern::Other => None,
        }
    }

    /// Whether it is about ends of names, for which there is no place below a prefix alone.
    pub(super) fn has_ends(&self) -> bool {
        self.paths.iter().chain(&self.not_paths).any(|path| matches!(path, Pattern::Ends(_)))
    }
}

/// Whether a first word that begins with a slash is a path, and not what the directive takes.
fn may_have_path(of: &Directive) -> bool {
    match &*of.name {
        "root" | "rewrite" | "redir" => {
            of.words.len() > 1 && !is_code(&of.words[1]) || of.name == "redir" && of.words.len() > 2
        }
        "try_files" | "import" => false,
        _ => true,
    }
}

fn is_code(word: &str) -> bool {
    matches!(word, "permanent" | "temporary" | "html") || word.len() == 3 && word.parse::<u16>().is_ok()
}
