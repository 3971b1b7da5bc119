//! What the bench is asked to do.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::cached::CELLS;
use super::servers::Server;

pub(crate) const HELP: &str = "\
cargo xtask bench [OPTIONS]    processor time per request, beside the peers that are installed

  --quick            one short round of everything, to see that it works
  --rounds N         rounds, each server once in each (default 3)
  --seconds N        measured seconds per server and case (default 3)
  --only A,B         some of: 1k 10k 100k 1m close-1k 304-1k 404-new idle tls hot-cold
                     first-pass programs why, and cached for the first seven
  --peers A,B        some of: nginx nginx-copy nginx-threads h2o lighttpd caddy apache, or none
                     (default: all that are installed)
  --archs A,B        some of: amped uring sped pipelined mt mp (default: all)
  --flash PATH       this program instead of a fresh release build
  --flash-args 'A B' more arguments for flash serve
  --json FILE        the figures, also as JSON
";

/// The options, checked.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) only: Vec<String>,
    pub(crate) servers: Vec<Server>,
    pub(crate) flash: Option<PathBuf>,
    pub(crate) flash_args: Vec<String>,
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options {
            quick: false,
            rounds: 3,
            seconds: 3,
            only: Vec::new(),
            servers: Server::ALL.to_vec(),
            flash: None,
            flash_args: Vec::new(),
            json: None,
        };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let mut value =
                || args.next().map(String::as_str).with_context(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--quick" => (options.quick, options.rounds, options.seconds) = (true, 1, 1),
                "--rounds" => options.rounds = value()?.parse().context("--rounds: a number")?,
                "--seconds" => options.seconds = value()?.parse().context("--seconds: a number")?,
                "--only" => options.only = only(value()?)?,
                "--peers" => keep(&mut options.servers, value()?, Server::is_peer)?,
                "--archs" => keep(&mut options.servers, value()?, Server::is_flash)?,
                "--flash" => options.flash = Some(std::path::absolute(value()?)?),
                "--flash-args" => {
                    options.flash_args = value()?.split_whitespace().map(str::to_owned).collect()
                }
                "--json" => options.json = Some(std::path::absolute(value()?)?),
                _ => bail!("unknown option {flag}\n{HELP}"),
            }
        }
        if options.rounds == 0 || options.seconds == 0 {
            bail!("at least one round of one second");
        }
        Ok(options)
    }

    /// Whether a case or a part is to be measured.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }
}

fn only(list: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in list.split(',') {
        match name {
            "cached" => names.extend(CELLS.iter().map(|cell| cell.name.to_owned())),
            "idle" | "tls" | "hot-cold" | "first-pass" | "programs" | "why" => names.push(name.to_owned()),
            _ if CELLS.iter().any(|cell| cell.name == name) => names.push(name.to_owned()),
            _ => bail!("--only {name}: no such case\n{HELP}"),
        }
    }
    Ok(names)
}

/// Drops the servers of a kind that the list does not name.
fn keep(servers: &mut Vec<Server>, list: &str, of_the_kind: impl Fn(Server) -> bool) -> Result<()> {
    let mut named = Vec::new();
    for name in list.split(',').filter(|&name| name != "none") {
        match Server::named(name) {
            Some(server) if of_the_kind(server) => named.push(server),
            _ => bail!("{name}: no such server here\n{HELP}"),
        }
    }
    servers.retain(|server| !of_the_kind(*server) || named.contains(server));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let options = parse("--quick --only 1k,idle --peers nginx --archs amped").expect("good options");
        assert!(options.wants("1k") && options.wants("idle") && !options.wants("hot-cold"));
        use Server::{Amped, Floor, FloorFile, FloorMemory, Nginx};
        assert_eq!(options.servers, [Floor, FloorFile, FloorMemory, Amped, Nginx]);
        assert!(parse("").expect("no options").wants("hot-cold"));
        for wrong in ["--only 2k", "--peers amped", "--archs nginx", "--rounds 0", "--rounds", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
