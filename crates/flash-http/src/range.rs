//! Byte ranges (RFC 9110 §14): which bytes does the client want?
//!
//! Asked between finding the file and sending its header, when If-Range does not object. The framing of a body of
//! several parts is [`multipart`]'s.

mod content_range;
pub mod multipart;

use std::ops::Range;

pub use content_range::{write_content_range, write_unsatisfied};
pub use multipart::Multipart;

use crate::scan;

/// More ranges than this in one request count as none, so the client gets everything. zsync, zchunk and dnf ask for some hundreds.
pub const RANGES_MAX: usize = 256;

/// What a Range field selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Everything: the field is malformed, in another unit or too long, and so is ignored.
    Whole,
    One(Range<u64>),
    /// Two or more that do not touch, in the order asked for.
    Many(Vec<Range<u64>>),
    /// 416
    Unsatisfiable,
}

/// Selects from a representation of `size` bytes.
pub fn select(value: &[u8], size: u64) -> Ranges {
    let Some(set) = strip_unit(value) else { return Ranges::Whole };
    match memchr::memchr(b',', set) {
        None => match Spec::read(scan::trim(set)).map(|spec| spec.on(size)) {
            None | Some(On::Everything) => Ranges::Whole,
            Some(On::Part(range)) => Ranges::One(range),
            Some(On::Nothing) => Ranges::Unsatisfiable,
        },
        Some(_) => select_several(set, size),
    }
}

fn select_several(set: &[u8], size: u64) -> Ranges {
    let mut any_spec = false;
    let mut parts = Vec::new();
    for (index, text) in set.split(|&byte| byte == b',').map(scan::trim).enumerate() {
        // RFC 9110 §17.15: many ranges are a cheap way to ask for much work.
        if index == RANGES_MAX {
            return Ranges::Whole;
        }
        // RFC 9110 §5.6.1.2: empty members of a list are passed over.
        if text.is_empty() {
            continue;
        }
        any_spec = true;
        match Spec::read(text).map(|spec| spec.on(size)) {
            None | Some(On::Everything) => return Ranges::Whole,
            Some(On::Part(range)) => join(&mut parts, range),
            Some(On::Nothing) => {}
        }
    }
    match parts.len() {
        0 if any_spec => Ranges::Unsatisfiable,
        0 => Ranges::Whole,
        1 => Ranges::One(parts.remove(0)),
        _ => Ranges::Many(parts),
    }
}

/// The set of ranges behind `bytes=` (RFC 9110 §14.1; names of units are case-insensitive).
fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// One range as asked for (RFC 9110 §14.1.2).
enum Spec {
    From { first: u64 },
    Between { first: u64, last: u64 },
    Suffix { length: u64 },
}

/// What a range asked for is on a representation of a certain size.
enum On {
    Part(Range<u64>),
    Nothing,
    /// The end of a representation of no bytes, for which Content-Range has no words.
    Everything,
}

impl Spec {
    /// `None` if it is malformed, or its last position lies before its first.
    fn read(text: &[u8]) -> Option<Spec> {
        let hyphen = memchr::memchr(b'-', text)?;
        let (first, last) = (&text[..hyphen], &text[hyphen + 1..]);
        match (first, last) {
            ([], _) => Some(Spec::Suffix { length: position(last)? }),
            (_, []) => Some(Spec::From { first: position(first)? }),
            _ => {
                let (first, last) = (position(first)?, position(last)?);
                (first <= last).then_some(Spec::Between { first, last })
            }
        }
    }

    fn on(self, size: u64) -> On {
        match self {
            Spec::From { first } if first < size => On::Part(first..size),
            Spec::Between { first, last } if first < size => {
                On::Part(first..size.min(last.saturating_add(1)))
            }
            Spec::Suffix { length: 1.. } if size == 0 => On::Everything,
            Spec::Suffix { length: length @ 1.. } => On::Part(size.saturating_sub(length)..size),
            Spec::From { .. } | Spec::Between { .. } | Spec::Suffix { .. } => On::Nothing,
        }
    }
}

/// Digits as a number. One beyond 64 bits is beyond the end of every file, and says no less if it is capped.
fn position(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| scan::decimal(digits).unwrap_or(u64::MAX))
}

/// Adds a range; it and those that it overlaps or touches become one, in the place of the first of them
/// (RFC 9110 §15.3.7.2).
fn join(parts: &mut Vec<Range<u64>>, new: Range<u64>) {
    let touches = |part: &Range<u64>| part.start <= new.end && new.start <= part.end;
    let Some(place) = parts.iter().position(touches) else { return parts.push(new) };
    // The parts do not touch each other, so the union touches none that the new one does not touch itself.
    let union = parts
        .iter()
        .filter(|part| touches(part))
        .fold(new.clone(), |union, part| union.start.min(part.start)..union.end.max(part.end));
    let mut index = 0;
    parts.retain(|part| {
        index += 1;
        index <= place + 1 || !touches(part)
    });
    parts[place] = union;
}

#[cfg(test)]
mod tests;
