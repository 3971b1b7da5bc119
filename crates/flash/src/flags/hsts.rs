//! The value of `--hsts`: how long browsers keep to TLS, and for which hosts (RFC 6797 §6.1).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::duration;

/// `365d`, or `365d; includeSubDomains; preload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hsts {
    time: Duration,
    include_subdomains: bool,
    preload: bool,
}

/// What browsers' lists of such sites ask for.
const PRELOAD_MIN: Duration = Duration::from_secs(365 * 24 * 3600);

impl FromStr for Hsts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';').map(str::trim);
        let time = duration::parse_long(parts.next().unwrap_or_default())?;
        let mut hsts = Self { time, include_subdomains: false, preload: false };
        for part in parts {
            let switch = match &*part.to_ascii_lowercase() {
                "includesubdomains" => &mut hsts.include_subdomains,
                "preload" => &mut hsts.preload,
                _ => {
                    return Err("write a time, as in \"365d\" or \"365d; includeSubDomains; preload\"".into());
                }
            };
            *switch = true;
        }
        match hsts.preload && (!hsts.include_subdomains || hsts.time < PRELOAD_MIN) {
            true => {
                Err("browsers' lists take a site with preload only with includeSubDomains and 365d or more"
                    .into())
            }
            false => Ok(hsts),
        }
    }
}

/// The value of the field.
impl fmt::Display for Hsts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max-age={}", self.time.as_secs())?;
        f.write_str(if self.include_subdomains { "; includeSubDomains" } else { "" })?;
        f.write_str(if self.preload { "; preload" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_and_whom_it_is_for() {
        for (text, value) in [
            ("1h", "max-age=3600"),
            ("0", "max-age=0"),
            ("730d", "max-age=63072000"),
            ("365d; includeSubDomains", "max-age=31536000; includeSubDomains"),
            ("365d;INCLUDESUBDOMAINS ; preload", "max-age=31536000; includeSubDomains; preload"),
        ] {
            assert_eq!(text.parse::<Hsts>().map(|hsts| hsts.to_string()), Ok(value.to_owned()), "{text}");
        }
        for text in
            ["", "63072000", "365d; preload", "30d; includeSubDomains; preload", "1h; all", "1h;", "9999999d"]
        {
            assert!(text.parse::<Hsts>().is_err(), "{text}");
        }
    }
}
