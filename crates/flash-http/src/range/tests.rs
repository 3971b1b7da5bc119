//! Ranges, by the sections of RFC 9110 that they come from, and by laws.

use super::*;
use proptest::prelude::*;

fn on(value: &str, size: u64) -> Ranges {
    select(value.as_bytes(), size)
}

fn many<const N: usize>(parts: [Range<u64>; N]) -> Ranges {
    Ranges::Many(parts.to_vec())
}

#[test]
fn rfc9110_14_1_2_the_three_kinds() {
    assert_eq!(on("bytes=0-499", 10_000), Ranges::One(0..500));
    assert_eq!(on("bytes=500-999", 10_000), Ranges::One(500..1000));
    assert_eq!(on("bytes=-500", 10_000), Ranges::One(9500..10_000));
    assert_eq!(on("bytes=9500-", 10_000), Ranges::One(9500..10_000));
    assert_eq!(on("bytes= 9500- ", 10_000), Ranges::One(9500..10_000));
    assert_eq!(on("bytes=0-0,-1", 10_000), many([0..1, 9999..10_000]));
    assert_eq!(on("bytes= 0-999, 4500-5499, -1000", 10_000), many([0..1000, 4500..5500, 9000..10_000]));
}

#[test]
fn rfc9110_14_1_units_are_case_insensitive_and_others_ignored() {
    assert_eq!(on("BYTES=1-2", 10), Ranges::One(1..3));
    for value in ["lines=1-2", "bytes", "bytes 1-2", "bytes =1-2", "", "=1-2"] {
        assert_eq!(on(value, 10), Ranges::Whole, "{value}");
    }
}

#[test]
fn rfc9110_14_1_1_malformed_sets_are_ignored_as_a_whole() {
    for value in [
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=1",
        "bytes=2-1",
        "bytes=0-1,2-1",
        "bytes=0-1,x",
        "bytes=0-1-2",
        "bytes=--1",
        "bytes=+1-2",
        "bytes=0x1-2",
        "bytes=1 -2",
        "bytes=1- 2",
        "bytes=0-1;2-3",
    ] {
        assert_eq!(on(value, 10), Ranges::Whole, "{value}");
    }
}

#[test]
fn rfc9110_14_1_2_last_positions_and_suffixes_are_cut_to_size() {
    assert_eq!(on("bytes=5-99999999999999999999999", 10), Ranges::One(5..10));
    assert_eq!(on("bytes=-18446744073709551616", 10), Ranges::One(0..10));
    assert_eq!(on("bytes=0-18446744073709551615", u64::MAX), Ranges::One(0..u64::MAX));
}

#[test]
fn rfc9110_15_5_17_unsatisfiable() {
    for value in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=10-,20-30", "bytes=99999999999999999999-"] {
        assert_eq!(on(value, 10), Ranges::Unsatisfiable, "{value}");
    }
    assert_eq!(on("bytes=10-,0-1", 10), Ranges::One(0..2));
}

#[test]
fn files_of_no_bytes() {
    assert_eq!(on("bytes=0-", 0), Ranges::Unsatisfiable);
    assert_eq!(on("bytes=-5", 0), Ranges::Whole);
    assert_eq!(on("bytes=-0", 0), Ranges::Unsatisfiable);
}

#[test]
fn rfc9110_15_3_7_2_ranges_that_touch_become_one_in_the_first_ones_place() {
    assert_eq!(on("bytes=0-4,5-9", 10), Ranges::One(0..10));
    assert_eq!(on("bytes=8-9,0-1,4-5,2-3", 10), many([8..10, 0..6]));
    assert_eq!(on("bytes=0-1,8-9,4-5,1-6", 10), many([0..7, 8..10]));
    assert_eq!(on("bytes=0-,0-,0-", 10), Ranges::One(0..10));
}

#[test]
fn rfc9110_17_15_too_many() {
    let spaced = |count: u64| {
        let specs: Vec<String> = (0..count).map(|at| format!("{}-{}", at * 3, at * 3)).collect();
        on(&format!("bytes={}", specs.join(",")), 1000)
    };
    assert!(matches!(spaced(256), Ranges::Many(parts) if parts.len() == 256));
    assert_eq!(spaced(257), Ranges::Whole);
    assert_eq!(on(&format!("bytes=0-0{}", ",0-0".repeat(255)), 10), Ranges::One(0..1));
    assert_eq!(on(&format!("bytes=0-0{}", ",0-0".repeat(256)), 10), Ranges::Whole);
    assert_eq!(on(&format!("bytes=0-0{}", ",".repeat(256)), 10), Ranges::Whole);
}

#[test]
fn rfc9110_14_4_content_range() {
    let mut text = Vec::new();
    write_content_range(&(0..5), 10, &mut text);
    text.push(b' ');
    write_unsatisfied(10, &mut text);
    assert_eq!(text, b"bytes 0-4/10 bytes */10");
}

#[test]
fn rfc9110_14_6_a_body_of_two_parts() {
    let multipart = Multipart { content_type: "text/plain", size: 10, boundary: "XYZ" };
    let content = b"0123456789";
    let ranges = [8..10u64, 0..1];
    let body = whole(&multipart, &ranges, content);
    let expected = "--XYZ\r\nContent-Type: text/plain\r\nContent-Range: bytes 8-9/10\r\n\r\n89\r\n\
        --XYZ\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-0/10\r\n\r\n0\r\n--XYZ--\r\n";
    assert_eq!(String::from_utf8_lossy(&body), expected);
    let mut content_type = Vec::new();
    multipart.write_content_type(&mut content_type);
    assert_eq!(content_type, b"multipart/byteranges; boundary=XYZ");
}

fn whole(multipart: &Multipart<'_>, ranges: &[Range<u64>], content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        multipart.write_part_head(range, index == 0, &mut body);
        body.extend_from_slice(&content[range.start as usize..range.end as usize]);
    }
    multipart.write_end(&mut body);
    body
}

/// A range as people write it, around a representation of a hundred bytes or so.
fn spec() -> impl Strategy<Value = String> {
    prop_oneof![
        (0..120u64, 0..40u64).prop_map(|(first, length)| format!("{first}-{}", first + length)),
        (0..120u64).prop_map(|first| format!("{first}-")),
        (0..120u64).prop_map(|length| format!("-{length}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn parts_hold_the_bytes_asked_for_and_touch_nowhere(
        specs in prop::collection::vec(spec(), 1..8),
        size in 1..120u64,
    ) {
        let parts = match on(&format!("bytes={}", specs.join(",")), size) {
            Ranges::One(part) => vec![part],
            Ranges::Many(parts) => parts,
            Ranges::Unsatisfiable => vec![],
            other => panic!("{other:?}"),
        };
        for byte in 0..size {
            let asked = specs.iter().any(|spec| match on(&format!("bytes={spec}"), size) {
                Ranges::One(part) => part.contains(&byte),
                _ => false,
            });
            prop_assert_eq!(parts.iter().filter(|part| part.contains(&byte)).count(), usize::from(asked));
        }
        for (index, part) in parts.iter().enumerate() {
            prop_assert!(part.start < part.end && part.end <= size);
            prop_assert!(parts[..index].iter().all(|other| other.end < part.start || part.end < other.start));
        }
    }

    #[test]
    fn the_length_promised_is_the_length_written(
        parts in prop::collection::vec((0..1000u64, 1..1000u64), 1..5),
        boundary in "[a-z0-9]{1,70}",
    ) {
        let content = [b'x'; 2000];
        let ranges: Vec<_> = parts.iter().map(|&(start, length)| start..start + length).collect();
        let multipart = Multipart { content_type: "image/svg+xml", size: 2000, boundary: &boundary };
        prop_assert_eq!(multipart.content_length(&ranges), whole(&multipart, &ranges, &content).len() as u64);
    }

    #[test]
    fn any_bytes_may_be_read(mut value in prop::collection::vec(any::<u8>(), 0..60), size in any::<u64>()) {
        select(&value, size);
        value.splice(0..0, *b"bytes=");
        select(&value, size);
    }
}
