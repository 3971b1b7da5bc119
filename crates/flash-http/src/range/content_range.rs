//! The values of Content-Range (RFC 9110 §14.4).

use std::io::Write;
use std::ops::Range;

/// Appends the value of Content-Range for one range, which is not empty: `bytes 0-4/10`.
pub fn write_content_range(range: &Range<u64>, size: u64, out: &mut Vec<u8>) {
    write!(out, "bytes {}-{}/{size}", range.start, range.end.saturating_sub(1)).expect(VEC);
}

/// Appends the value of Content-Range for 416: `bytes */10`.
pub fn write_unsatisfied(size: u64, out: &mut Vec<u8>) {
    write!(out, "bytes */{size}").expect(VEC);
}

/// Why writing cannot fail.
const VEC: &str = "a Vec takes every byte";
