//! The flags of TLS.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum, ValueHint};

use super::{Hsts, certificate_host};

#[derive(Clone, Debug, Args)]
pub(crate) struct Tls {
    /// Speak TLS without a certificate of your own: Flash makes a certificate authority for you, and with it a certificate for
    /// localhost. It says how browsers trust it. In the file: true, "acme", or the certificate and its key
    #[arg(long, conflicts_with = "tls_certificate", help_heading = TLS)]
    pub tls: bool,

    /// Speak TLS with this certificate, a PEM file with the whole chain. May be given repeatedly, for example for keys of
    /// different kinds
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key", help_heading = TLS)]
    pub tls_certificate: Vec<PathBuf>,

    /// The key of the certificate, a PEM file. With several certificates, in their order
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_certificate", help_heading = TLS)]
    pub tls_key: Vec<PathBuf>,

    /// Speak TLS with a certificate that an authority issues for this host, and renews: Let's Encrypt, unless --acme-directory names
    /// another. If given repeatedly, one for all. Until it is there, Flash shows one of its own, which no client trusts. Without --listen, at the ports
    /// 80 and 443, and what comes without TLS is redirected. In the file: tls = "acme" in a site, for its hosts
    #[arg(long, value_name = "HOST", value_parser = certificate_host::parse, conflicts_with_all = ["tls", "tls_certificate"], help_heading = TLS)]
    pub acme: Vec<String>,

    /// Ask clients for a certificate of these authorities, a PEM file. Programs see whom it names (SSL_CLIENT_S_DN). The
    /// handshake fails for any other certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS)]
    pub client_ca: Option<PathBuf>,

    /// With --client-ca, whether a client without a certificate is refused, or served all the same. Only Flash's own handshake shows
    /// one: a proxy's word for its client's TLS gets 403
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ClientCertificate::Required, help_heading = TLS)]
    pub client_certificate: ClientCertificate,

    /// Whether requests without TLS are answered, or redirected to the listener with TLS (308)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Https::Optional, help_heading = TLS)]
    pub https: Https,

    /// With --https required, tell browsers to use TLS for this long, as in 365d (Strict-Transport-Security). "365d;
    /// includeSubDomains; preload" says for which hosts. 0 takes it back. A program's own field is left out
    #[arg(long, value_name = "TIME", value_parser = Hsts::from_str, help_heading = TLS)]
    pub hsts: Option<Hsts>,
}

pub(super) const TLS: &str = "TLS";

/// What becomes of clients without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(crate) enum ClientCertificate {
    /// Their handshake fails
    Required,
    /// They are served, and programs see SSL_CLIENT_VERIFY=NONE
    Asked,
}

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
        self.tls || self.is_acme() || !self.tls_certificate.is_empty()
    }

    /// Whether an authority is asked for the certificate.
    pub(crate) fn is_acme(&self) -> bool {
        !self.acme.is_empty()
    }

    /// Whether a client has to show a certificate.
    pub(crate) fn requires_client_certificate(&self) -> bool {
        self.client_ca.is_some() && self.client_certificate == ClientCertificate::Required
    }
}
