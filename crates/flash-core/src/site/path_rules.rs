//! Rules about the names of a site: which paths they cover. What becomes of such a path is not decided here.

use crate::path::SitePath;

/// A rule as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRule {
    /// `/uploads`: this path, and all below it.
    Below(Box<[u8]>),
    /// `*.bak`: each file or folder whose name ends so, and all in such a folder.
    Suffix(Box<[u8]>),
    /// `notes.txt`: each file or folder of this name.
    Name(Box<[u8]>),
}

/// Rules, any of which may cover a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRules(Box<[PathRule]>);

impl PathRule {
    /// # Errors
    /// What to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bytes: Box<[u8]> = match text.strip_prefix('*') {
            Some(suffix) => suffix.as_bytes().into(),
            None => text.strip_suffix('/').unwrap_or(text).as_bytes().into(),
        };
        let wrong = || "write /folder, *.suffix, or the name of a file".to_owned();
        if bytes.is_empty() || bytes.iter().any(|byte| b"*?\0".contains(byte)) {
            return Err(wrong());
        }
        match bytes[0] {
            b'/' if !text.starts_with('*') => match SitePath::parse(&bytes) {
                Ok(path) if path.as_bytes() == &*bytes => Ok(Self::Below(bytes)),
                _ => Err("write a path without escapes, empty segments and dots, such as /uploads".into()),
            },
            _ if bytes.contains(&b'/') => Err(wrong()),
            _ if text.starts_with('*') => Ok(Self::Suffix(bytes)),
            _ => Ok(Self::Name(bytes)),
        }
    }

    fn covers(&self, path: &SitePath<'_>) -> bool {
        self.covers_name(path.relative())
    }

    /// Whether it covers a name below the root, without the slash before it.
    pub(crate) fn covers_name(&self, name: &[u8]) -> bool {
        let mut segments = name.split(|&byte| byte == b'/');
        match self {
            Self::Below(prefix) => {
                name.strip_prefix(&prefix[1..]).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
            }
            Self::Suffix(suffix) => segments.any(|segment| segment.ends_with(suffix)),
            Self::Name(name) => segments.any(|segment| segment == &**name),
        }
    }
}

impl PathRules {
    /// Whether they cover the path. A compressed copy is covered with its file.
    pub fn cover(&self, path: &SitePath<'_>) -> bool {
        let any = |path: &SitePath<'_>| self.0.iter().any(|rule| rule.covers(path));
        any(path) || (!self.0.is_empty() && path.copy_of().is_some_and(|file| any(&file)))
    }

    /// Whether they cover this name in a folder.
    pub fn cover_in(&self, folder: &SitePath<'_>, name: &[u8]) -> bool {
        !self.0.is_empty() && self.cover(&folder.child(name))
    }
}

impl FromIterator<PathRule> for PathRules {
    fn from_iter<I: IntoIterator<Item = PathRule>>(rules: I) -> Self {
        Self(rules.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_covers_whole_names() {
        for (rule, covered, others) in [
            (
                "/up",
                &["/up", "/up/", "/up/a/b", "//up/x", "/a/../up/x", "/%75p"][..],
                &["/upper", "/a/up", "/"][..],
            ),
            ("/up/", &["/up", "/up/x"], &["/upper"]),
            ("*.bak", &["/a.bak", "/d/a.bak", "/d.bak/x", "/.bak", "/a.ba%6b"], &["/bak", "/a.bak.txt", "/"]),
            ("*~", &["/a.php~", "/~"], &["/~user", "/a"]),
            ("notes.txt", &["/notes.txt", "/d/notes.txt", "/notes.txt/x"], &["/my-notes.txt", "/notes.txt2"]),
        ] {
            let rules: PathRules = [PathRule::parse(rule).unwrap()].into_iter().collect();
            for (paths, expected) in [(covered, true), (others, false)] {
                for path in paths {
                    let parsed = SitePath::parse(path.as_bytes()).unwrap();
                    assert_eq!(rules.cover(&parsed), expected, "{rule}: {path}");
                }
            }
        }
    }

    #[test]
    fn names_in_a_folder() {
        let rules: PathRules = ["/d/x", "*.bak"].iter().map(|rule| PathRule::parse(rule).unwrap()).collect();
        for (folder, name, expected) in [
            ("/d/", "x", true),
            ("/d/", "y", false),
            ("/", "x", false),
            ("/", "d.bak", true),
            ("/d", "x", true),
        ] {
            let folder = SitePath::parse(folder.as_bytes()).unwrap();
            assert_eq!(rules.cover_in(&folder, name.as_bytes()), expected, "{folder:?} {name}");
        }
    }

    #[test]
    fn a_rule_that_means_nothing_is_refused() {
        for text in ["", "*", "/", "a/b", "*a/b", "*/a", "a*b", "/a/*", "a?", "/a//b", "/a/../b", "/%61"] {
            assert!(PathRule::parse(text).is_err(), "{text}");
        }
    }
}
