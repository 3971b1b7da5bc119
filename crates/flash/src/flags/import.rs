//! The flags of `flash import`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The server whose configuration it is
    #[arg(value_name = "SERVER")]
    pub server: ForeignServer,

    /// Its configuration file. What the file includes is read, too
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ForeignServer {
    Apache,
    Caddyfile,
    Nginx,
}
