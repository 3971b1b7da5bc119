//! Places: parts of a site's names with rules of their own.
//!
//! A place is a prefix, `/admin` with all below it, the end of a file's name, such as `*.woff2`, or one path, such as `=/robots.txt`.
//! One path wins over all others. Then the longest prefix wins, and then the longest end. A name below a prefix and with such an end has the rules of both. Which rules those are was worked out
//! before: each pair of a prefix and an end has its own. A look-up does not allocate, and compares each byte of a path a few
//! times. What the rules say is not known here.

use std::cmp::Ordering;
use std::sync::Arc;

use flash_http::negotiate::Coding;

use crate::path::SitePath;

/// The places of a site, each with its rules.
#[derive(Debug)]
pub struct Places<Rules> {
    names: Arc<PlaceNames>,
    /// In the order of [`PlaceNames::pairs`].
    rules: Box<[Arc<Rules>]>,
}

/// Where the places of a site are. Sites with equal places share them.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct PlaceNames {
    /// In the order of their bytes.
    exact: Box<[Box<[u8]>]>,
    /// In the order of [`by_segments`].
    prefixes: Box<[Prefix]>,
    /// The longest first.
    suffixes: Box<[Box<[u8]>]>,
    /// Whether a compressed copy may belong to another place than its file.
    names_copies: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Prefix {
    /// A canonical path without a slash at its end.
    path: Box<[u8]>,
    /// The longest other prefix that covers this one.
    above: Option<u32>,
}

/// A place: one path, or the prefix of its names, and the end of its files' names. `None` stands for all names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceName<'n> {
    /// Then there is neither a prefix nor an end.
    pub exact: Option<&'n [u8]>,
    pub prefix: Option<&'n [u8]>,
    pub suffix: Option<&'n [u8]>,
}

impl PlaceNames {
    /// Paths such as `/robots.txt`, prefixes such as `/admin`, and ends of names such as `.woff2`. Each is given once.
    pub fn new(
        exact: impl IntoIterator<Item = Box<[u8]>>,
        prefixes: impl IntoIterator<Item = Box<[u8]>>,
        suffixes: impl IntoIterator<Item = Box<[u8]>>,
    ) -> Self {
        let mut paths: Vec<Box<[u8]>> = prefixes.into_iter().collect();
        paths.sort_by(|one, other| by_segments(one, other));
        let mut prefixes: Vec<Prefix> = Vec::with_capacity(paths.len());
        for path in paths {
            // The one before, or one of those above it.
            let mut above = prefixes.len().checked_sub(1);
            while let Some(number) = above
                && !covers(&prefixes[number].path, &path)
            {
                above = prefixes[number].above.map(|above| above as usize);
            }
            prefixes.push(Prefix { path, above: above.and_then(|above| above.try_into().ok()) });
        }
        let mut exact: Vec<Box<[u8]>> = exact.into_iter().collect();
        exact.sort();
        let mut suffixes: Vec<Box<[u8]>> = suffixes.into_iter().collect();
        suffixes.sort_by_key(|suffix| std::cmp::Reverse(suffix.len()));
        let names_copies = |coding: Coding| {
            let end = coding.suffix().as_bytes();
            exact.iter().chain(prefixes.iter().map(|prefix| &prefix.path)).any(|path| path.ends_with(end))
                || suffixes.iter().any(|suffix| suffix.ends_with(end) || end.ends_with(suffix))
        };
        let names_copies = Coding::ALL.into_iter().any(names_copies);
        Self { exact: exact.into(), prefixes: prefixes.into(), suffixes: suffixes.into(), names_copies }
    }

    /// All pairs of a prefix and an end, but for the site itself. Then the single paths.
    pub fn pairs(&self) -> impl Iterator<Item = PlaceName<'_>> {
        let prefixes = [None].into_iter().chain(self.prefixes.iter().map(|prefix| Some(&*prefix.path)));
        let suffixes = || [None].into_iter().chain(self.suffixes.iter().map(|suffix| Some(&**suffix)));
        let pair = |prefix, suffix| PlaceName { exact: None, prefix, suffix };
        let pairs = prefixes.flat_map(move |prefix| suffixes().map(move |suffix| pair(prefix, suffix)));
        let exact = self.exact.iter().map(|path| PlaceName { exact: Some(path), ..PlaceName::default() });
        pairs.skip(1).chain(exact)
    }

    /// The prefixes that cover this one, the longest last.
    pub fn above<'n>(&'n self, prefix: &[u8]) -> Vec<&'n [u8]> {
        let mut found: Vec<_> =
            self.chain(self.last_up_to(prefix)).filter(|above| *above != prefix).collect();
        found.retain(|above| covers(above, prefix));
        found.reverse();
        found
    }

    /// The place that the path belongs to.
    pub fn of(&self, path: &SitePath<'_>) -> PlaceName<'_> {
        self.find(path).and_then(|pair| self.pairs().nth(pair)).unwrap_or_default()
    }

    /// Which of the [pairs](PlaceNames::pairs) the path belongs to.
    fn find(&self, path: &SitePath<'_>) -> Option<usize> {
        if let Ok(number) = self.exact.binary_search_by(|exact| (**exact).cmp(path.as_bytes())) {
            return Some(self.pairs_of_parts() + number);
        }
        let mut prefix = self.last_up_to(path.as_bytes());
        while let Some(number) = prefix
            && !covers(&self.prefixes[number].path, path.as_bytes())
        {
            prefix = self.prefixes[number].above.map(|above| above as usize);
        }
        let suffix = match path.names_folder() {
            true => None,
            false => self.suffixes.iter().position(|suffix| path.name().ends_with(suffix)),
        };
        let of_prefix = prefix.map_or(0, |prefix| prefix + 1) * (self.suffixes.len() + 1);
        (of_prefix + suffix.map_or(0, |suffix| suffix + 1)).checked_sub(1)
    }

    /// How many pairs of a prefix and an end there are, but for the site itself.
    fn pairs_of_parts(&self) -> usize {
        (self.prefixes.len() + 1) * (self.suffixes.len() + 1) - 1
    }

    /// The last prefix that is not behind this path. It covers the path, or one above it does, or none does.
    fn last_up_to(&self, path: &[u8]) -> Option<usize> {
        self.prefixes
            .partition_point(|prefix| by_segments(&prefix.path, path) != Ordering::Greater)
            .checked_sub(1)
    }

    /// A prefix and those above it.
    fn chain(&self, from: Option<usize>) -> impl Iterator<Item = &[u8]> {
        let above = |number: &usize| self.prefixes[*number].above.map(|above| above as usize);
        std::iter::successors(from, above).map(|number| &*self.prefixes[number].path)
    }
}

impl<Rules> Places<Rules> {
    /// `rules` has one for each of the [pairs](PlaceNames::pairs), in their order.
    pub fn new(names: Arc<PlaceNames>, rules: Vec<Arc<Rules>>) -> Self {
        debug_assert_eq!(names.pairs().count(), rules.len(), "each pair has its rules");
        Self { names, rules: rules.into() }
    }

    /// The rules of the place that the path belongs to.
    pub(crate) fn find(&self, path: &SitePath<'_>) -> Option<&Arc<Rules>> {
        self.rules.get(self.names.find(path)?)
    }

    /// The same, if the place has to do with the end of the path.
    pub(crate) fn find_by_end(&self, path: &SitePath<'_>) -> Option<&Arc<Rules>> {
        let pair = self.names.find(path)?;
        // Each prefix has a pair without an end, and one for each end.
        let is_exact = pair >= self.names.pairs_of_parts();
        let has_end = is_exact || !(pair + 1).is_multiple_of(self.names.suffixes.len() + 1);
        has_end.then(|| &self.rules[pair])
    }

    /// Whether a compressed copy may belong to another place than its file.
    pub(crate) fn name_copies(&self) -> bool {
        self.names.names_copies
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Rules>> {
        self.rules.iter()
    }
}

/// Whether the path is the prefix itself, or lies below it.
fn covers(prefix: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// An order in which all that lies below a prefix follows it directly: a slash comes before every other byte.
fn by_segments(one: &[u8], other: &[u8]) -> Ordering {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let rank = |path: &[u8]| path.get(same).map(|&byte| (byte != b'/', byte));
    rank(one).cmp(&rank(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(texts: &[&str]) -> Vec<Box<[u8]>> {
        texts.iter().map(|text| text.as_bytes().into()).collect()
    }

    fn names(prefixes: &[&str], suffixes: &[&str]) -> PlaceNames {
        PlaceNames::new([], all(prefixes), all(suffixes))
    }

    fn found(names: &PlaceNames, path: &str) -> (String, String) {
        let path = SitePath::parse(path.as_bytes()).expect("it is canonical");
        let name = names.of(&path);
        let text = |part: Option<&[u8]>| String::from_utf8_lossy(part.unwrap_or_default()).into_owned();
        (text(name.prefix), text(name.suffix))
    }

    #[test]
    fn the_longest_prefix_wins_by_whole_segments_and_then_the_longest_end() {
        let names = names(&["/a", "/a/b", "/a-b", "/a/b/c", "/assets", "/z"], &[".gz", ".tar.gz", ".php"]);
        for (path, prefix, suffix) in [
            ("/", "", ""),
            ("/b", "", ""),
            ("/a", "/a", ""),
            ("/a/", "/a", ""),
            ("/a/x", "/a", ""),
            ("/a/b", "/a/b", ""),
            ("/a/b/d", "/a/b", ""),
            ("/a/b/c/d", "/a/b/c", ""),
            ("/a/bc", "/a", ""),
            ("/a-b/c", "/a-b", ""),
            ("/a-", "", ""),
            ("/ab", "", ""),
            ("/assets../x", "", ""),
            ("/assets/../x", "", ""),
            ("/assets/%2e%2e/a/b/x", "/a/b", ""),
            ("//a", "/a", ""),
            ("/%61/b", "/a/b", ""),
            ("/zz", "", ""),
            ("/x.gz", "", ".gz"),
            ("/x.tar.gz", "", ".tar.gz"),
            ("/a/x.tar.gz", "/a", ".tar.gz"),
            ("/a/b/x.gz", "/a/b", ".gz"),
            ("/x.gz/", "", ""),
            ("/x.php/more", "", ""),
            ("/.php", "", ".php"),
        ] {
            assert_eq!(found(&names, path), (prefix.to_owned(), suffix.to_owned()), "{path}");
        }
        assert_eq!(names.above(b"/a/b/c"), [&b"/a"[..], b"/a/b"]);
        assert_eq!(names.above(b"/a/x"), [&b"/a"[..]]);
        assert!(names.above(b"/a-b").is_empty());
    }

    #[test]
    fn one_path_wins_over_all_that_cover_it() {
        let names = PlaceNames::new(all(&["/", "/a", "/a/", "/a/b.x"]), all(&["/a", "/a/b"]), all(&[".x"]));
        let exact = |path: &str| {
            let path = SitePath::parse(path.as_bytes()).expect("it leads somewhere");
            names.of(&path).exact.map(|exact| String::from_utf8_lossy(exact).into_owned())
        };
        for path in ["/", "/a", "/a/", "/a/b.x"] {
            assert_eq!(exact(path).as_deref(), Some(path));
        }
        assert_eq!(exact("//a/%62.x").as_deref(), Some("/a/b.x"));
        for path in ["/b", "/a/b", "/a/c.x", "/a/b.x/", "/a/b.x/c"] {
            assert_eq!(exact(path), None, "{path}");
        }
        let names = Arc::new(names);
        let rules = (0..).zip(names.pairs()).map(|(number, _)| Arc::new(number)).collect();
        let places: Places<usize> = Places::new(Arc::clone(&names), rules);
        for (number, name) in names.pairs().enumerate().filter_map(|(at, name)| Some((at, name.exact?))) {
            let path = SitePath::parse(name).expect("it is canonical");
            assert_eq!(places.find(&path).map(|rules| **rules), Some(number));
            assert_eq!(places.find_by_end(&path).map(|rules| **rules), Some(number));
        }
    }

    #[test]
    fn each_pair_has_its_rules() {
        let names = Arc::new(names(&["/a", "/b"], &[".x"]));
        let rules = (0..).zip(names.pairs()).map(|(number, _)| Arc::new(number));
        let places: Places<i32> = Places::new(Arc::clone(&names), rules.collect());
        let rules = |path: &str| places.find(&SitePath::parse(path.as_bytes()).unwrap()).map(|found| **found);
        let found = ["/", "/c.x", "/a", "/a/c.x", "/b", "/b/c.x"].map(rules);
        assert_eq!(found, [None, Some(0), Some(1), Some(2), Some(3), Some(4)]);
    }

    proptest! {
        /// A search through all prefixes finds the same.
        #[test]
        fn as_a_slow_search_finds(
            prefixes in prop::collection::btree_set("(/[ab.-]{1,2}){1,4}", 0..12),
            paths in prop::collection::vec("(/[ab.-]{1,3}){1,5}/?", 1..20),
        ) {
            let canonical = |text: &String| {
                SitePath::parse(text.as_bytes()).is_ok_and(|path| path.as_bytes() == text.as_bytes())
            };
            let prefixes: Vec<&str> = prefixes.iter().filter(|text| canonical(text)).map(String::as_str).collect();
            let names = names(&prefixes, &[]);
            for path in paths {
                let Ok(parsed) = SitePath::parse(path.as_bytes()) else { continue };
                let expected = prefixes.iter().filter(|prefix| covers(prefix.as_bytes(), parsed.as_bytes()));
                let expected = expected.max_by_key(|prefix| prefix.len()).copied().unwrap_or_default();
                prop_assert_eq!(found(&names, &path).0, expected, "{} of {:?}", path, prefixes);
            }
        }
    }
}
