//! The flags of `flash sign`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use flash_core::clients::ByteRate;
use flash_core::site::network::Network;

use super::duration;
use super::explain::{DEFAULT_CONFIG, Url, parse_url};

#[derive(Debug, Args)]
pub(crate) struct Sign {
    /// What the link is for, such as https://www.example.org/members/a.iso. Without a scheme, http
    #[arg(value_name = "URL", value_parser = parse_url)]
    pub url: Url,

    /// How long the link is right from now on, as in 1h or 30d
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    pub expires: Duration,

    /// The link is right for all that lies below the URL's path, too
    #[arg(long)]
    pub prefix: bool,

    /// The link is right for this client alone: an address, or a network such as 192.0.2.0/24 or 2001:db8::/64
    #[arg(long, value_name = "ADDRESS", value_parser = parse_client)]
    pub client: Option<String>,

    /// How fast a client gets what the link opens, in place of the rate of its site or place: 2M/s, or "2M/s burst 20M"
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<String>,

    /// The configuration file
    #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG, value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
}

/// As it was written, because that is signed.
fn parse_client(text: &str) -> Result<String, String> {
    text.parse::<Network>().map(|_| text.to_owned())
}

fn parse_rate(text: &str) -> Result<String, String> {
    text.parse::<ByteRate>().map(|_| text.to_owned())
}
