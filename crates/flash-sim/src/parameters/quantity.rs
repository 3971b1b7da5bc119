//! Numbers as parameter files give them, refused where they make no sense. The name of a field ends in its unit, and serde's
//! message names the line; these say what was expected.

use serde::de::{Deserialize, Deserializer, Error};

pub(super) fn positive<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, |n| n > 0.0, "a number above 0")
}

pub(super) fn optional_positive<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    positive(from).map(Some)
}

pub(super) fn not_negative<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, |n| n >= 0.0, "a number, 0 or more")
}

pub(super) fn fraction<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, |n| (0.0..=1.0).contains(&n), "a number from 0 to 1")
}

pub(super) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = i64::deserialize(from)?;
    match u32::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(D::Error::custom(format!("{number}: expected a whole number, 1 or more"))),
    }
}

fn number<'de, D: Deserializer<'de>>(
    from: D,
    sensible: fn(f64) -> bool,
    expected: &str,
) -> Result<f64, D::Error> {
    let number = f64::deserialize(from)?;
    if number.is_finite() && sensible(number) {
        return Ok(number);
    }
    Err(D::Error::custom(format!("{number}: expected {expected}")))
}
