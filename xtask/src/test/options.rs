//! What `cargo xtask test` is told.

use anyhow::{Context, Result, bail};

use super::programs::Program;

pub(crate) const HELP: &str = "\
cargo xtask test [WORD]...   only programs of tests whose names have one of the words: 'flash-core', 'tree'
  --changed            only those of crates that the change since the last commit reaches
  --repeat N           so many rounds; names each test that ever failed, and how often
  --under-load         with other work on all processors (with --repeat)
";

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) changed: bool,
    pub(super) rounds: Option<usize>,
    pub(super) under_load: bool,
    words: Vec<String>,
}

impl Options {
    /// # Errors
    /// When there is no such option, or a number is none.
    pub(super) fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            match arg {
                "--changed" => options.changed = true,
                "--under-load" => options.under_load = true,
                "--repeat" => {
                    let number = args.next().and_then(|number| number.parse().ok());
                    options.rounds =
                        Some(number.filter(|&rounds| rounds > 0).context("--repeat takes a number")?);
                }
                _ if arg.starts_with('-') => bail!("test has no option {arg}"),
                word => options.words.push(word.to_owned()),
            }
        }
        if options.under_load && options.rounds.is_none() {
            bail!(
                "--under-load is for --repeat: a test that fails beside other work is to fail often enough to be found"
            );
        }
        Ok(options)
    }

    pub(super) fn wants(&self, program: &Program) -> bool {
        self.words.is_empty()
            || self.words.iter().any(|word| program.name.split(' ').any(|part| part == word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let read = |args: &[&str]| Options::parse(args).map_err(|error| error.to_string());
        assert_eq!(read(&[]), Ok(Options::default()));
        let all = Options { changed: true, rounds: Some(20), under_load: true, words: vec!["tree".into()] };
        assert_eq!(read(&["--changed", "tree", "--repeat", "20", "--under-load"]), Ok(all));
        for wrong in
            [&["--repeat"][..], &["--repeat", "0"], &["--repeat", "x"], &["--under-load"], &["--fast"]]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
