//! In which access log a request has its line. What a log is, and where it lies, is not known here.

use std::ops::RangeInclusive;
use std::str::FromStr;

use flash_http::status::Status;

/// The number of an access log. The same log has the same number after a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogNumber(pub u32);

/// What a site or a place says of the access log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChoice {
    /// `None` for no lines.
    pub log: Option<LogNumber>,
    /// Only responses with one of these have lines. All have, if there are none.
    pub statuses: Box<[Statuses]>,
}

impl LogChoice {
    /// The log that has a line for a response with this status.
    pub(crate) fn of(&self, status: Status) -> Option<LogNumber> {
        let is_wanted = self.statuses.is_empty() || self.statuses.iter().any(|some| some.contain(status));
        self.log.filter(|_| is_wanted)
    }
}

/// One status, as in `404`, or all of a class, as in `4xx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(RangeInclusive<u16>);

impl Statuses {
    fn contain(&self, status: Status) -> bool {
        self.0.contains(&status.0)
    }
}

impl FromStr for Statuses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let class = text.strip_suffix("xx");
        let number = class.unwrap_or(text).parse::<u16>().ok();
        match (class, number) {
            (Some(_), Some(class @ 1..=5)) => Ok(Self(class * 100..=class * 100 + 99)),
            (None, Some(status @ 100..=599)) => Ok(Self(status..=status)),
            _ => Err("write a status, such as 404, or a class, such as 5xx".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_classes() {
        let of = |text: &str| text.parse::<Statuses>().unwrap();
        for (text, status, expected) in [
            ("404", 404, true),
            ("404", 400, false),
            ("5xx", 500, true),
            ("5xx", 599, true),
            ("5xx", 499, false),
        ] {
            assert_eq!(of(text).contain(Status(status)), expected, "{text} {status}");
        }
        for wrong in ["", "xx", "6xx", "0xx", "40x", "99", "600", "4XX", "!404"] {
            assert!(wrong.parse::<Statuses>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_log_has_the_statuses_that_were_chosen() {
        let log = Some(LogNumber(3));
        let all = LogChoice { log, statuses: Box::default() };
        assert_eq!(all.of(Status::OK), log);
        let some = LogChoice { log, statuses: ["404", "5xx"].map(|text| text.parse().unwrap()).into() };
        assert_eq!(
            [Status::NOT_FOUND, Status::BAD_GATEWAY, Status::OK].map(|of| some.of(of)),
            [log, log, None]
        );
        assert_eq!(LogChoice { log: None, ..some }.of(Status::NOT_FOUND), None);
    }
}
