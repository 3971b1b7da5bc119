//! The dates of logs as seconds. Days are the calendar's; what a clock shows is checked for what clocks can show.

use time::{Date, Month};

pub(super) const DAY_SECONDS: i64 = 86_400;

/// `01/Aug/1995:00:00:01 -0400`, since the beginning of 1970.
pub(super) fn common(text: &[u8]) -> Option<i64> {
    let (date, rest) = text.split_at_checked(11)?;
    let (clock_text, zone) = rest.strip_prefix(b":")?.split_at_checked(8)?;
    let [sign, h1, h2, m1, m2] = *zone.strip_prefix(b" ")? else { return None };
    let ahead = (number(&[h1, h2])? * 60 + number(&[m1, m2])?) * 60;
    let local = day(date)? * DAY_SECONDS + clock(clock_text)?;
    match sign {
        b'+' => Some(local - ahead),
        b'-' => Some(local + ahead),
        _ => None,
    }
}

/// `30/Apr/1998`: days since the beginning of 1970.
pub(super) fn day(text: &[u8]) -> Option<i64> {
    let mut fields = text.split(|&byte| byte == b'/');
    let (day, name, year) = (fields.next()?, fields.next()?, fields.next()?);
    let names =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let month = 1 + names.iter().position(|known| known.as_slice() == name)?;
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let year = (year.len() == 4 && fields.next().is_none()).then_some(year)?;
    let year = i32::try_from(number(year)?).ok()?;
    let date = Date::from_calendar_date(year, month, u8::try_from(number(day)?).ok()?).ok()?;
    Some(i64::from(date.to_julian_day() - time::UtcDateTime::UNIX_EPOCH.to_julian_day()))
}

/// `23:53:25`, in seconds. A minute may have a leap second.
pub(super) fn clock(text: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *text else { return None };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    (hour < 24 && minute < 60 && second <= 60).then_some((hour * 60 + minute) * 60 + second)
}

/// One to nine digits.
pub(super) fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}
