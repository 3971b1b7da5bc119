//! Ranges. No input may cause a panic. Parts are inside the representation and do not overlap. A body of several parts has the
//! promised length. The first eight bytes of the input are the representation's size.

use flash_http::range::{self, Multipart, RANGES_MAX, Ranges};
use std::ops::Range;

pub(crate) fn check(input: &[u8]) {
    let Some((size, value)) = input.split_first_chunk::<8>() else { return };
    let size = u64::from_le_bytes(*size);
    match range::select(value, size) {
        Ranges::Whole | Ranges::Unsatisfiable => {}
        Ranges::One(part) => assert!(part.start < part.end && part.end <= size),
        Ranges::Many(parts) => several(&parts, size),
    }
}

fn several(parts: &[Range<u64>], size: u64) {
    assert!((2..=RANGES_MAX).contains(&parts.len()));
    for (index, part) in parts.iter().enumerate() {
        assert!(part.start < part.end && part.end <= size);
        assert!(parts[..index].iter().all(|other| other.end < part.start || part.end < other.start));
    }
    // Frames around so many bytes would not fit a length of 64 bits; no file is so large.
    if size > u64::MAX / 2 {
        return;
    }
    let multipart = Multipart { content_type: "text/plain", size, boundary: "b" };
    let mut frames = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        multipart.write_part_head(part, index == 0, &mut frames);
    }
    multipart.write_end(&mut frames);
    let bytes: u64 = parts.iter().map(|part| part.end - part.start).sum();
    assert_eq!(multipart.content_length(parts), frames.len() as u64 + bytes);
}
