//! The flags of `flash helper`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{Args, ValueHint};

use super::value::count;
use super::{FollowLinks, Listen, ListenAddress, Sandbox, duration, name, size};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct Helper {
    /// The folders whose files askers may have. The first is root number 0
    #[arg(value_name = "ROOT", required = true, num_args = 1..=64, value_hint = ValueHint::DirPath)]
    pub roots: Vec<PathBuf>,

    /// Where askers connect. Under a service manager that passes a socket (LISTEN_FDS), that socket is used instead
    #[arg(long, value_name = "unix:PATH", default_value = "unix:/run/flash/helper.sock", value_parser = unix(), help_heading = LISTENING)]
    pub listen: PathBuf,

    /// A user that may ask: a name or a number. May be given repeatedly. The daemon's own user may always ask
    #[arg(long, value_name = "USER", help_heading = RIGHTS)]
    pub allow_user: Vec<String>,

    /// Become this user once the socket is open: a name or a number. A group after a colon replaces the user's own
    #[arg(long, value_name = "USER[:GROUP]", help_heading = RIGHTS)]
    pub user: Option<String>,

    /// Give up all rights but reading below the roots. 'on' does as much as the kernel allows; 'required' does not start if the
    /// kernel cannot do all of it
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Sandbox::On, help_heading = RIGHTS)]
    pub sandbox: Sandbox,

    /// How far symbolic links are followed
    #[arg(long, value_name = "WHERE", value_enum, default_value_t = FollowLinks::Inside, help_heading = CONTENT)]
    pub follow_links: FollowLinks,

    /// The file that answers for its folder. If given repeatedly, the first that exists
    #[arg(long, value_name = "NAME", value_parser = name::parse, default_value = "index.html", help_heading = CONTENT)]
    pub index: Vec<String>,

    /// Do not look for compressed copies (.br, .zst, .gz) beside files
    #[arg(long, help_heading = CONTENT)]
    pub no_precompressed: bool,

    /// Time for the disk to answer. A question may ask for less, not for more
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse_positive, help_heading = LIMITS)]
    pub disk_deadline: Duration,

    /// Askers at once. One more is disconnected
    #[arg(long, value_name = "N", default_value = "4096", value_parser = count(1, 1 << 20), help_heading = LIMITS)]
    pub askers_max: usize,

    /// Questions of one asker without an answer. One more is answered with 'busy' at once
    #[arg(long, value_name = "N", default_value = "1024", value_parser = count(1, 1 << 20), help_heading = LIMITS)]
    pub questions_max: usize,

    /// Descriptors that one asker may have on their way, in either direction
    #[arg(long, value_name = "N", default_value = "1024", value_parser = count(1, 1 << 20), help_heading = LIMITS)]
    pub descriptors_max: usize,

    /// Memory for content that one asker has asked for and not yet taken
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = size::parse_positive, help_heading = LIMITS)]
    pub asker_bytes_max: u64,

    /// Jobs that may wait for a helper of one device. Beyond them, questions that need the disk are answered with 'busy'
    #[arg(long, value_name = "N", default_value = "1024", value_parser = count(1, 1 << 20), help_heading = LIMITS)]
    pub helper_queue_max: usize,

    /// The most helpers for each device. They start when a job would block, and end when idle. Without this flag, 64, or one
    /// for each 8 MiB of memory if those are fewer
    #[arg(long, value_name = "N", value_parser = count(1, 4096), help_heading = LIMITS)]
    pub helpers_max: Option<usize>,

    /// Paths in the cache. Each may hold a file open
    #[arg(long, value_name = "ENTRIES", default_value = "6000", value_parser = count(0, 1 << 30), help_heading = CACHES)]
    pub path_cache: usize,

    /// Memory for the content of files on remote mounts
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = size::parse, help_heading = CACHES)]
    pub file_cache_bytes: u64,

    /// How long a change of a file may stay unnoticed. 0 checks the disk for every question
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse, help_heading = CACHES)]
    pub revalidate: Duration,

    /// Log every counter at the end, too (docs/counters.md)
    #[arg(long, help_heading = LIMITS)]
    pub verbose: bool,
}

fn unix() -> impl TypedValueParser<Value = PathBuf> {
    |text: &str| match text.parse::<Listen>() {
        Ok(Listen { proxy_protocol: true, .. }) => {
            Err("askers speak for themselves, and not for others".into())
        }
        Ok(Listen { place: ListenAddress::Unix(place), .. })
            if place.mode.is_none() && place.group.is_none() =>
        {
            Ok(place.path)
        }
        Ok(Listen { place: ListenAddress::Unix(_), .. }) => {
            Err("every user may connect: --allow-user says who may ask, and not mode= or group=".into())
        }
        Err(error) if text.starts_with("unix:") => Err(error),
        _ => Err("askers get descriptors, so the place is unix:PATH".into()),
    }
}

const LISTENING: &str = "Listening";
const RIGHTS: &str = "Rights";
const CONTENT: &str = "Content";
const LIMITS: &str = "Limits";
const CACHES: &str = "Caches";

macro_rules! examples {
    () => {
        "\
Examples:
  flash helper /var/www --user www-data
  flash helper /srv/a /srv/b --listen unix:/run/flash/helper.sock --allow-user www-data"
    };
}

const EXAMPLES: &str = examples!();

const AFTER_LONG_HELP: &str = concat!(
    examples!(),
    "

Signals:
  SIGTERM, SIGINT   end. Askers connect again when the daemon is back
  SIGUSR2           log what has been done so far

Exit codes:
  0   ended as asked
  1   could not answer: no such folder or user, the socket is taken, no sandbox, or a root outside of it
  2   the command line is wrong"
);
