//! Calendar dates from Unix milliseconds, as log lines write them.
//!
//! Always UTC, without leap seconds, without the C library: a log needs neither time zones nor locales. Dates
//! of HTTP header fields are not made here.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in UTC, in the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc {
    pub year: u64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub ms: u16,
}

impl Utc {
    pub fn from_unix_ms(unix_ms: u64) -> Utc {
        let seconds = unix_ms / 1000;
        let (year, month, day) = civil(seconds / 86_400);
        Utc {
            year,
            month,
            day,
            hour: (seconds / 3600 % 24) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            ms: (unix_ms % 1000) as u16,
        }
    }

    /// Reads the clock. A clock before 1970 reads as 1970.
    pub fn now() -> Utc {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Utc::from_unix_ms(since.as_millis() as u64)
    }

    /// `10/Oct/2000:13:55:36 +0000`, as Apache's `%t` between its brackets.
    pub fn common_log(self) -> impl fmt::Display {
        CommonLog(self)
    }

    /// `2000-10-10T13:55:36.000Z` (RFC 3339 §5.6).
    pub fn rfc3339(self) -> impl fmt::Display {
        Rfc3339(self)
    }
}

struct CommonLog(Utc);

impl fmt::Display for CommonLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let Utc { year, month, day, hour, minute, second, .. } = self.0;
        let month = MONTHS[usize::from(month) - 1];
        write!(f, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
    }
}

struct Rfc3339(Utc);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc { year, month, day, hour, minute, second, ms } = self.0;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// Year, month and day of the given day since 1970-01-01.
///
/// Years are counted from March, so that the leap day is a year's last and every 400 years are alike.
fn civil(days_since_1970: u64) -> (u64, u8, u8) {
    const DAYS_PER_400_YEARS: u64 = 146_097;
    const DAYS_FROM_MARCH_0000_TO_1970: u64 = 719_468;

    let days = days_since_1970 + DAYS_FROM_MARCH_0000_TO_1970;
    let (cycle, day) = (days / DAYS_PER_400_YEARS, days % DAYS_PER_400_YEARS);

    // Take the leap days out that lie behind us: one per 4 years (1,461 days), none in three centuries of four
    // (36,524 days), and never count the cycle's very last day, which is the 29th of February itself.
    let leap_days = day / 1460 - day / 36_524 + day / (DAYS_PER_400_YEARS - 1);
    let year = (day - leap_days) / 365;
    let day = day - (year * 365 + year / 4 - year / 100);

    // From March on, five months have 153 days, and every such five are alike.
    let month_from_march = (day * 5 + 2) / 153;
    let day = (day - (month_from_march * 153 + 2) / 5 + 1) as u8;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u8;
    // January and February close the year that began in March.
    (cycle * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        let text = |unix_ms| Utc::from_unix_ms(unix_ms).rfc3339().to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(text(971_186_136_789), "2000-10-10T13:55:36.789Z");
        assert_eq!(text(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
        assert_eq!(text(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
        let apache = Utc::from_unix_ms(971_186_136_789).common_log().to_string();
        assert_eq!(apache, "10/Oct/2000:13:55:36 +0000");
    }

    /// A second calendar, counted day by day, agrees for eight hundred years.
    #[test]
    fn every_day_for_eight_centuries() {
        let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..292_194 {
            assert_eq!(civil(days), (year, month, day));
            let month_days = match month {
                2 => 28 + u8::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > month_days {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
