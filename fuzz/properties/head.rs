//! Heads. No input may cause a panic, and cutting the input must not change the verdict. Conditions, ranges and negotiation
//! must accept the parsed fields.

use flash_http::condition::{self, Validators};
use flash_http::negotiate::{Accepts, Coding, CodingSet};
use flash_http::{Limits, Parsed, Reject, Version, head, range};

/// Unix seconds.
const MODIFIED: i64 = 784_111_777;
/// Small, so that inputs run into them.
const LIMITS: Limits = Limits { target_bytes_max: 64, head_bytes_max: 512, fields_max: 12 };

pub(crate) fn check(input: &[u8]) {
    let whole = verdict(input);
    // Every cut of a long input would take long and teach little.
    if input.len() <= 1024 {
        let mut seen = 0;
        let first = (0..=input.len()).find_map(|end| {
            let now = verdict(&input[..end]);
            // A refusal may wait for its line's end, but nobody may be left waiting whose head is complete.
            let reason = head::may_progress(&input[..end], seen, &LIMITS);
            assert!(reason || !matches!(now, Some(Ok(_))));
            seen = end;
            now
        });
        assert_eq!(first, whole);
    }
    if let Ok(Parsed::Complete { head, bytes }) = head::parse(input, &LIMITS) {
        assert!(bytes <= LIMITS.head_bytes_max && input[..bytes].ends_with(b"\r\n\r\n"));
        assert!(head.host.is_some() || head.framing.version == Version::Http10);
        read_on(&head);
    }
}

/// The length of a complete head, or why it was refused.
fn verdict(input: &[u8]) -> Option<Result<usize, Reject>> {
    match head::parse(input, &LIMITS) {
        Ok(Parsed::Incomplete) => None,
        Ok(Parsed::Complete { bytes, .. }) => Some(Ok(bytes)),
        Err(reject) => Some(Err(reject)),
    }
}

fn read_on(head: &flash_http::Head<'_>) {
    let validators = Validators { etag: Some(b"\"5-a\""), modified: Some(MODIFIED) };
    condition::evaluate(head, &validators);
    condition::evaluate(head, &Validators::default());
    if let Some(value) = head.if_range {
        condition::if_range_holds(value, &validators, MODIFIED + 1);
    }
    if let Some(value) = head.range {
        range::select(value, 1000);
    }
    let available = CodingSet::EMPTY.with(Coding::Gzip).with(Coding::Br);
    assert_ne!(Accepts::of(head.accept_encoding).choose(available), Some(Coding::Zstd));
}
