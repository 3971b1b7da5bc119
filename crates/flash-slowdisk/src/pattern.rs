//! Which paths a rule is about: those below a prefix, those that a glob fits, a fraction of the files, or all.
//! Paths are bytes from the mount's root, `/` first.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::delay::draw;

/// Everything that it says must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pattern {
    prefix: Option<String>,
    glob: Option<String>,
    fraction: Option<f64>,
    seed: u64,
}

impl Pattern {
    /// Reads `prefix /bad/`, `glob /img/*.png`, `fraction 0.01 seed 7`, or several of them.
    pub(crate) fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Pattern, String> {
        let mut pattern = Pattern::default();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word:?} wants a value"))?;
            match word {
                "prefix" | "glob" if !value.starts_with('/') => {
                    return Err(format!("{value:?} does not begin with /"));
                }
                "prefix" => pattern.prefix = Some(value.into()),
                "glob" => pattern.glob = Some(value.into()),
                "fraction" => {
                    let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                    pattern.fraction = Some(share.ok_or_else(|| format!("{value:?} is not from 0 to 1"))?);
                }
                "seed" => pattern.seed = value.parse().map_err(|_| format!("{value:?} is no seed"))?,
                _ => return Err(format!("{word:?}: expected prefix, glob, fraction or seed")),
            }
        }
        Ok(pattern)
    }

    /// Whether it is about this path. A fraction is one of files: a folder in it would take all below along.
    pub(crate) fn fits(&self, path: &Path, is_folder: impl Fn() -> bool) -> bool {
        let path = path.as_os_str().as_bytes();
        self.prefix.as_ref().is_none_or(|prefix| path.starts_with(prefix.as_bytes()))
            && self.glob.as_ref().is_none_or(|glob| glob_fits(glob.as_bytes(), path))
            && self.fraction.is_none_or(|share| draw(self.seed, hash(path)) < share && !is_folder())
    }
}

/// `?` is any byte but `/`, `*` any number of them, `**` any bytes at all.
fn glob_fits(glob: &[u8], path: &[u8]) -> bool {
    match (glob, path) {
        ([b'*', b'*', rest @ ..], _) => (0..=path.len()).any(|taken| glob_fits(rest, &path[taken..])),
        ([b'*', rest @ ..], _) => {
            let name = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
            (0..=name).any(|taken| glob_fits(rest, &path[taken..]))
        }
        ([b'?', glob @ ..], [byte, path @ ..]) => *byte != b'/' && glob_fits(glob, path),
        ([expected, glob @ ..], [byte, path @ ..]) => expected == byte && glob_fits(glob, path),
        ([], []) => true,
        _ => false,
    }
}

/// FNV-1a: the same fraction of the same names on every machine and in every run.
fn hash(path: &[u8]) -> u64 {
    path.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str) -> bool {
        Pattern::parse(pattern.split_whitespace())
            .expect(pattern)
            .fits(Path::new(path), || path.ends_with("folder"))
    }

    #[test]
    fn prefixes_and_globs_choose_paths() {
        assert!(fits("", "/anything"));
        assert!(fits("prefix /bad/", "/bad/a") && !fits("prefix /bad/", "/bad"));
        assert!(fits("glob /*.html", "/a.html") && !fits("glob /*.html", "/a/b.html"));
        assert!(fits("glob /**.html", "/a/b.html") && !fits("glob /**.html", "/a/b.htm"));
        assert!(fits("glob /a?c/*", "/abc/d") && !fits("glob /a?c", "/a/c") && !fits("glob /a?", "/a"));
        assert!(fits("prefix /a glob /**z", "/a/z") && !fits("prefix /a glob /**z", "/b/z"));
    }

    #[test]
    fn a_fraction_is_one_of_files_and_depends_on_the_seed() {
        let chosen = |pattern: &str| -> Vec<u32> {
            (0..20_000).filter(|n| fits(pattern, &format!("/d{}/f{n}.txt", n % 100))).collect()
        };
        let one = chosen("fraction 0.01 seed 7");
        assert!((150..250).contains(&one.len()), "{}", one.len());
        assert_eq!(one, chosen("seed 7 fraction 0.01"));
        assert_ne!(one, chosen("fraction 0.01 seed 8"));
        assert!(
            fits("fraction 1", "/file") && !fits("fraction 1", "/folder") && !fits("fraction 0", "/file")
        );
    }

    #[test]
    fn nonsense_is_no_pattern() {
        for words in
            ["prefix", "prefix a", "glob *", "fraction 2", "fraction x", "fraction nan", "seed -1", "x y"]
        {
            assert!(Pattern::parse(words.split_whitespace()).is_err(), "{words}");
        }
    }
}
