//! Switches for people who study servers, as flags.

use clap::{Args, ValueEnum};
use flash_core::experiments::{FileCache, Offload};
use flash_os::system_calls::Calls;

use super::value::{Switch, one_of};

const HEADING: &str = "Experiments (for the study of servers; the defaults are best)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(crate) struct Experiments {
    /// How the content of files is cached. With --path-cache 0 nothing of a file is cached, and with --revalidate 0 every
    /// request looks its name up again
    #[arg(long, value_name = "WHAT", default_value = "memory", help_heading = HEADING, value_parser = one_of([
        ("memory", "A copy of it, within --file-cache-bytes", FileCache::Memory),
        ("descriptor", "An open file, whose pages are sent by sendfile", FileCache::Descriptor),
        ("mapped", "An open file, whose pages are sent through a map, as in 1999", FileCache::Mapped),
        ("off", "Nothing: files are opened again for each piece that is sent", FileCache::Off),
    ]))]
    pub file_cache: FileCache,

    /// Keep header blocks ready-made
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::On, help_heading = HEADING)]
    header_cache: Switch,

    /// Fill response headers up to a multiple of 32 bytes
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::Off, help_heading = HEADING)]
    header_padding: Switch,

    /// Which jobs amped's loops give to helpers
    #[arg(long, value_name = "WHICH", default_value = "needed", help_heading = HEADING, value_parser = one_of([
        ("needed", "The jobs that would block the loop", Offload::Needed),
        ("always", "All jobs, even those that would not block", Offload::Always),
        ("not-opening", "All except finding and opening files, for which the loop waits, as in 1999", Offload::NotOpening),
    ]))]
    pub offload: Offload,

    /// Which process starts programs: the fork helper, or the server itself by fork
    #[arg(long, value_enum, value_name = "WHO", default_value_t = Spawn::Helper, help_heading = HEADING)]
    pub spawn: Spawn,

    /// Before sending pages by sendfile or through a map, check whether they are in memory, or assume it
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Residency::Tested, help_heading = HEADING)]
    residency: Residency,

    /// The system calls that may be used: all that this kernel has, or only standard ones with those that are added to them, as in
    /// portable+mincore+openat2
    #[arg(long, value_name = "WHICH", default_value = "all", help_heading = HEADING, value_parser = Calls::parse)]
    pub system_calls: Calls,
}

/// Which process starts programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Spawn {
    /// A small process beside the server
    Helper,
    /// The server itself, by fork, which costs more the larger it is
    Server,
}

/// How it is known that a file's pages are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Residency {
    Tested,
    Assumed,
}

impl Experiments {
    /// What the server needs to know of them.
    pub(crate) fn settings(self) -> flash_core::experiments::Experiments {
        flash_core::experiments::Experiments {
            file_cache: self.file_cache,
            header_uncached: self.header_cache == Switch::Off,
            header_padding: self.header_padding == Switch::On,
            offload: self.offload,
            residency_assumed: self.residency == Residency::Assumed,
        }
    }
}
