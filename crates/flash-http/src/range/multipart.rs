//! The frame of a multipart/byteranges body (RFC 9110 §14.6): all of it but the bytes of the parts.

use std::io::Write;
use std::ops::Range;

use super::content_range::write_content_range;

/// Frames for the parts of one representation.
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    /// Of the representation, for each part.
    pub content_type: &'a str,
    /// Of the representation, in bytes.
    pub size: u64,
    /// Must not occur in the content; 1 to 70 letters and digits.
    pub boundary: &'a str,
}

const DELIMITER: &str = "\r\n--";
const TYPE: &str = "\r\nContent-Type: ";
const RANGE: &str = "\r\nContent-Range: ";
const HEAD_END: &str = "\r\n\r\n";
const END: &str = "--\r\n";

impl Multipart<'_> {
    /// Appends the value of the response's own Content-Type.
    pub fn write_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(self.boundary.as_bytes());
    }

    /// Appends what comes before the bytes of `range`: the delimiter and the part's head.
    pub fn write_part_head(&self, range: &Range<u64>, is_first: bool, out: &mut Vec<u8>) {
        let Multipart { content_type, boundary, .. } = self;
        // RFC 2046 §5.1.1: the line end before a delimiter belongs to it, and the first one may do without.
        let delimiter = if is_first { &DELIMITER[2..] } else { DELIMITER };
        write!(out, "{delimiter}{boundary}{TYPE}{content_type}{RANGE}").expect("a Vec takes every byte");
        write_content_range(range, self.size, out);
        out.extend_from_slice(HEAD_END.as_bytes());
    }

    /// Appends what comes behind the bytes of the last part.
    pub fn write_end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(DELIMITER.as_bytes());
        out.extend_from_slice(self.boundary.as_bytes());
        out.extend_from_slice(END.as_bytes());
    }

    /// Length of the whole body, with the bytes of the parts.
    pub fn content_length(&self, ranges: &[Range<u64>]) -> u64 {
        let delimiter = DELIMITER.len() + self.boundary.len();
        let part = delimiter + TYPE.len() + self.content_type.len() + RANGE.len() + HEAD_END.len();
        let frames = |range: &Range<u64>| {
            let numbers = digits(range.start) + digits(range.end - 1) + digits(self.size);
            part as u64 + "bytes -/".len() as u64 + numbers + (range.end - range.start)
        };
        let parts: u64 = ranges.iter().map(frames).sum();
        // The first delimiter has no line end before it.
        parts - 2 + (delimiter + END.len()) as u64
    }
}

/// How many digits a number is written with.
fn digits(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}
