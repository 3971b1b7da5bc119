//! HTTP dates (RFC 9110 §5.6.7), as seconds since the Unix epoch.
//!
//! Only the formats; which time it is, callers know.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// Length of a date as we write it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const DATE_BYTES: usize = 29;

/// The last second of the year 9999, behind which the format has no words.
const UNIX_MAX: i64 = 253_402_300_799;

/// Writes a date in the preferred format. Times before 1970 and behind the year 9999 become the nearest that can
/// be written.
pub fn format(unix: i64) -> [u8; DATE_BYTES] {
    let seconds = unix.clamp(0, UNIX_MAX).unsigned_abs();
    let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds));
    let mut text = [0; DATE_BYTES];
    write!(&mut text[..], "{date}").expect("a date in this range has 29 bytes");
    text
}

/// Reads any of the three formats; `None` for anything else, and for dates before 1970.
pub fn parse(text: &[u8]) -> Option<i64> {
    let date = httpdate::parse_http_date(str::from_utf8(text).ok()?).ok()?;
    i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc9110_5_6_7_three_formats_read_one_written() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn malformed_dates_are_none() {
        for text in ["", "0", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT", "\u{e9}"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn times_without_words_are_clamped() {
        assert_eq!(&format(-5), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format(i64::MAX), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    proptest! {
        #[test]
        fn written_dates_read_back(unix in 0..=UNIX_MAX) {
            prop_assert_eq!(parse(&format(unix)), Some(unix));
        }

        #[test]
        fn any_bytes_may_be_read(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&text);
        }
    }
}
