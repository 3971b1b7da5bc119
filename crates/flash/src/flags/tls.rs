//! The flags of TLS.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::duration;

#[derive(Debug, Args)]
pub(crate) struct Tls {
    /// Speak TLS without a certificate of your own: Flash makes a certificate authority for you, and with it a certificate for
    /// localhost. It says how browsers trust it. In the file: true, or the certificate and its key
    #[arg(long, conflicts_with = "tls_certificate", help_heading = TLS)]
    pub tls: bool,

    /// Speak TLS with this certificate, a PEM file with the whole chain. May be given repeatedly, for example for keys of
    /// different kinds
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key", help_heading = TLS)]
    pub tls_certificate: Vec<PathBuf>,

    /// The key of the certificate, a PEM file. With several certificates, in their order
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_certificate", help_heading = TLS)]
    pub tls_key: Vec<PathBuf>,

    /// Whether requests without TLS are answered, or redirected to the listener with TLS (308)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Https::Optional, help_heading = TLS)]
    pub https: Https,

    /// With --https required, tell browsers to use TLS for this long (Strict-Transport-Security)
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive, help_heading = TLS)]
    pub hsts: Option<Duration>,
}

pub(super) const TLS: &str = "TLS";

/// What becomes of requests without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Https {
    /// They are answered
    Optional,
    /// They are redirected
    Required,
}

impl Tls {
    /// Whether a certificate is asked for.
    pub(crate) fn is_on(&self) -> bool {
        self.tls || !self.tls_certificate.is_empty()
    }
}
