//! Switches for people who study servers. Each switch removes one technique of Flash, or restores the technique of an earlier
//! server.

use clap::{Args, ValueEnum};

use super::Spawn;
use super::value::Switch;

const HEADING: &str = "Experiments (for the study of servers; the defaults are best)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub(crate) struct Experiments {
    /// How the content of files is cached. With --path-cache 0 nothing of a file is cached, and with --revalidate 0 every
    /// request looks its name up again
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = FileCache::Memory, help_heading = HEADING)]
    pub file_cache: FileCache,

    /// Keep header blocks ready-made
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::On, help_heading = HEADING)]
    pub header_cache: Switch,

    /// Fill response headers up to a multiple of 32 bytes
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::Off, help_heading = HEADING)]
    pub header_padding: Switch,

    /// Which jobs amped's loops give to helpers
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Offload::Needed, help_heading = HEADING)]
    pub offload: Offload,

    /// Do equal jobs of helpers once
    #[arg(long, value_enum, value_name = "SWITCH", default_value_t = Switch::On, help_heading = HEADING)]
    pub single_flight: Switch,

    /// Which process starts programs: the fork helper, or the server itself by fork
    #[arg(long, value_enum, value_name = "WHO", default_value_t = Spawn::Helper, help_heading = HEADING)]
    pub spawn: Spawn,

    /// Before sending pages by sendfile or through a map, check whether they are in memory, or assume it
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Residency::Tested, help_heading = HEADING)]
    pub residency: Residency,
}

/// How the content of files is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileCache {
    /// A copy of it, within --file-cache-bytes
    Memory,
    /// An open file, whose pages are sent by sendfile
    Descriptor,
    /// An open file, whose pages are sent through a map, as in 1999
    Mapped,
    /// Nothing: files are opened again for each piece that is sent
    Off,
}

/// Which jobs go to helpers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Offload {
    /// The jobs that would block the loop
    Needed,
    /// All jobs, even those that would not block
    Always,
    /// All except finding and opening files, for which the loop waits, as in 1999
    NotOpening,
}

/// How it is known that a file's pages are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Residency {
    Tested,
    Assumed,
}
