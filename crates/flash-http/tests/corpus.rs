//! Replays the fuzz targets' corpora with an ordinary compiler, so that what was once found stays found.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use flash_http::chunked::Chunked;
use flash_http::range::{self, RANGES_MAX, Ranges};
use flash_http::{Limits, Parsed, head};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let inputs: Vec<_> = entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() >= 5, "{} holds only {} inputs", folder.display(), inputs.len());
    inputs
}

#[test]
fn heads_get_the_same_verdict_however_they_arrive() {
    let limits = Limits::default();
    for input in corpus("head") {
        let whole = head::parse(&input, &limits);
        for end in 0..input.len() {
            match (head::parse(&input[..end], &limits), &whole) {
                (Ok(Parsed::Incomplete), _) => {}
                (Ok(Parsed::Complete { bytes, .. }), Ok(Parsed::Complete { bytes: all, .. })) => {
                    assert_eq!(bytes, *all)
                }
                (Err(early), Err(late)) => assert_eq!(early.status, late.status),
                (early, late) => panic!("{early:?} became {late:?}"),
            }
        }
    }
}

#[test]
fn chunks_are_the_same_in_single_bytes() {
    for input in corpus("chunked") {
        let whole = Chunked::new().decode(&input).map(|progress| (progress.data, progress.complete));
        let mut decoder = Chunked::new();
        let mut pieces = Ok((0, false));
        for byte in &input {
            match decoder.decode(&[*byte]) {
                Ok(progress) => pieces = pieces.map(|(data, _)| (data + progress.data, progress.complete)),
                Err(reject) => pieces = Err(reject),
            }
            if !matches!(pieces, Ok((_, false))) {
                break;
            }
        }
        assert_eq!(pieces.is_ok(), whole.is_ok(), "{}", input.escape_ascii());
        if let (Ok(pieces), Ok(whole)) = (pieces, whole) {
            assert_eq!(pieces, whole, "{}", input.escape_ascii());
        }
    }
}

#[test]
fn ranges_lie_inside_and_apart() {
    for input in corpus("range") {
        let Some((size, value)) = input.split_first_chunk::<8>() else { continue };
        let size = u64::from_le_bytes(*size);
        let parts = match range::select(value, size) {
            Ranges::Whole | Ranges::Unsatisfiable => continue,
            Ranges::One(part) => vec![part],
            Ranges::Many(parts) => parts,
        };
        assert!(
            parts.len() <= RANGES_MAX && parts.iter().all(|part| part.start < part.end && part.end <= size)
        );
    }
}
