//! The flags of certificates that an authority issues.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::certificate_host;
use super::explain::DEFAULT_CONFIG;
use super::tls::TLS;

#[derive(Debug, Args)]
pub(crate) struct Acme {
    /// The directory of the authority that issues certificates: Let's Encrypt, or any other that speaks ACME (RFC 8555). To ask it is to
    /// agree to its terms
    #[arg(long, value_name = "URL", default_value = DIRECTORY, value_parser = directory, help_heading = TLS)]
    pub acme_directory: String,

    /// Verify the authority's server by the root certificates in this file, PEM. Without this flag, by those of the system
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS)]
    pub acme_ca: Option<PathBuf>,

    /// Where the authority writes to if something is wrong with a certificate
    #[arg(long, value_name = "ADDRESS", value_parser = email, help_heading = TLS)]
    pub acme_email: Option<String>,

    /// The kind of certificate, if the authority issues several: Let's Encrypt has shortlived, for six days
    #[arg(long, value_name = "NAME", help_heading = TLS)]
    pub acme_profile: Option<String>,

    /// Keep accounts, keys and certificates in this folder, each for the server's user alone. Several servers may have the same one, and
    /// one of them asks for all
    #[arg(long, value_name = "DIR", default_value = "/var/lib/flash/acme", value_hint = ValueHint::AnyPath, help_heading = TLS)]
    pub acme_folder: PathBuf,

    /// The kind of key that certificates of an authority have
    #[arg(long, value_name = "KIND", value_enum, default_value_t = AcmeKey::Ecdsa, help_heading = TLS)]
    pub acme_key: AcmeKey,

    /// Prove by DNS that hosts are this server's: a program that sets a record, and removes it again. It is called as lego calls its
    /// programs (present, cleanup), with the variables of certbot's hooks. A second one removes records. A host such as
    /// *.example.org needs it. Without this flag, the authority asks at port 80 or 443
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::FilePath, help_heading = TLS)]
    pub acme_dns: Vec<PathBuf>,

    /// Bind the account to one that you have with the authority: a file with that account's number (the key identifier), a blank, and its
    /// key in base64url
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = TLS)]
    pub acme_account: Option<PathBuf>,
}

const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcmeKey {
    /// P-256
    Ecdsa,
    /// 2,048 bits, for clients that know nothing newer
    Rsa,
}

/// What `flash acme` does.
#[derive(Debug, Subcommand)]
pub(crate) enum AcmeCommand {
    /// Say when certificates expire and are renewed, and what has failed
    ///
    /// Prints a line for each certificate. The exit code is 0 if none has failed, and 1 otherwise.
    #[command(after_help = "Example:\n  flash acme status --config site.toml")]
    Status(AcmeFolder),
    /// Have certificates renewed now
    ///
    /// The server asks the authority within seconds, after failures too. Its error log says what comes of it.
    #[command(after_help = "Examples:\n  flash acme renew\n  flash acme renew www.example.org")]
    Renew(AcmeHosts),
    /// Tell the authority that clients must not trust certificates any more
    ///
    /// For a key that others may have. The server gets another certificate with another key at once.
    #[command(after_help = "Example:\n  flash acme revoke www.example.org")]
    Revoke(AcmeHosts),
}

/// Where certificates are.
#[derive(Debug, Args)]
pub(crate) struct AcmeFolder {
    /// The configuration file of the server
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct AcmeHosts {
    /// The first host of a certificate, as flash acme status prints it
    #[arg(value_name = "HOST", value_parser = certificate_host::parse, required = true)]
    pub hosts: Vec<String>,

    #[command(flatten)]
    pub of: AcmeFolder,
}

/// RFC 8555 §6.1.
fn directory(text: &str) -> Result<String, String> {
    let rest =
        text.strip_prefix("https://").filter(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace));
    rest.map(|_| text.to_owned()).ok_or_else(|| "it has to begin with https://".into())
}

fn email(text: &str) -> Result<String, String> {
    let is_one = text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
    let is_plain = !text.contains(|c: char| c.is_whitespace() || matches!(c, ',' | '?' | '%'));
    if is_one && is_plain { Ok(text.to_owned()) } else { Err("it is no address of mail".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert!(directory(DIRECTORY).is_ok() && directory("http://localhost/dir").is_err());
        assert!(email("a@example.org").is_ok());
        for wrong in ["a", "@", "a@", "a@b c", "a@b,c@d"] {
            assert!(email(wrong).is_err(), "{wrong}");
        }
    }
}
