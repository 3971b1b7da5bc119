//! What a site or place answers to every request.

use std::str::FromStr;
use std::time::Duration;

use flash_core::site::fixed_response::FixedResponse;
use flash_core::site::network::Network;
use flash_http::status::Status;

use super::{duration, field};

/// A value of `--respond`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Respond {
    /// In a place, although its site does.
    Off,
    Status(Status),
    Body(String),
    Type(String),
    RetryAfter(Duration),
    /// These clients are answered as if nothing were set.
    Except(Network),
}

/// A longer body is a file.
const BODY_MAX: usize = 64 << 10;

impl Respond {
    /// The names in a table of the file, and before the values of flags.
    pub(crate) const STATUS: &str = "status";
    pub(crate) const BODY: &str = "body";
    pub(crate) const TYPE: &str = "type";
    pub(crate) const RETRY_AFTER: &str = "retry-after";
    pub(crate) const EXCEPT: &str = "except";

    /// What these values say together.
    pub(crate) fn response(values: &[Self]) -> Option<FixedResponse> {
        if values.is_empty() || values.contains(&Self::Off) {
            return None;
        }
        let mut response = FixedResponse {
            status: Status::OK,
            body: Box::default(),
            content_type: "text/plain; charset=utf-8".into(),
            retry_after: None,
            except: Box::default(),
        };
        for value in values {
            match value {
                Self::Off => {}
                Self::Status(status) => response.status = *status,
                Self::Body(body) => response.body = body.as_bytes().into(),
                Self::Type(kind) => response.content_type = (&**kind).into(),
                Self::RetryAfter(time) => response.retry_after = Some(time.as_secs().to_string().into()),
                Self::Except(network) => {
                    response.except = [&response.except, &[*network][..]].concat().into()
                }
            }
        }
        Some(response)
    }
}

impl FromStr for Respond {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text.split_once('=') {
            None if text == "off" => Self::Off,
            Some((Self::STATUS, status)) => {
                let status =
                    status.parse().ok().filter(|status| (200..600).contains(status) && *status != 304);
                Self::Status(Status(status.ok_or("a status is a number of 200 to 599, and not 304")?))
            }
            Some((Self::BODY, body)) if body.len() > BODY_MAX => return Err("a longer body is a file".into()),
            Some((Self::BODY, body)) => Self::Body(body.into()),
            Some((Self::TYPE, kind)) => Self::Type(field::parse_type(kind)?),
            Some((Self::RETRY_AFTER, time)) => Self::RetryAfter(duration::parse(time)?),
            Some((Self::EXCEPT, network)) => Self::Except(network.parse()?),
            _ => {
                return Err(
                    "write status=STATUS, body=TEXT, type=TYPE, retry-after=TIME, except=NETWORK or off"
                        .into(),
                );
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_make_one_response() {
        let values: Vec<Respond> = ["status=503", "retry-after=10m", "except=10.0.0.0/8", "except=::1"]
            .map(|text| text.parse().unwrap())
            .into();
        let response = Respond::response(&values).unwrap();
        assert_eq!((response.status.0, response.except.len()), (503, 2));
        assert_eq!(response.retry_after.as_deref(), Some("600"));
        assert_eq!(Respond::response(&[]), None);
        assert_eq!(Respond::response(&[Respond::Off]), None);
        for wrong in
            ["", "on", "ok", "status=100", "status=304", "status=x", "type=x", "retry-after=soon", "except=a"]
        {
            assert!(wrong.parse::<Respond>().is_err(), "{wrong}");
        }
    }
}
