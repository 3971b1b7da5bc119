//! The header of the PROXY protocol. No bytes may cause a panic, cutting them must not change the verdict, and what follows a
//! header is no part of it.

use flash_core::clients::proxy_header::{Decoded, HEADER_BYTES_MAX, decode};

pub(crate) fn check(input: &[u8]) {
    let whole = decode(input);
    // The first prefix that says anything says the same.
    let first = (0..=input.len().min(512))
        .map(|end| decode(&input[..end]))
        .find(|now| *now != Ok(Decoded::Incomplete));
    if let Some(first) = first {
        assert_eq!(first, whole);
    }
    match whole {
        Ok(Decoded::Complete(_, bytes)) => {
            assert!(bytes <= input.len() && bytes <= HEADER_BYTES_MAX);
            assert_eq!(decode(&input[..bytes]), whole);
        }
        Ok(Decoded::Incomplete) => assert!(input.len() < HEADER_BYTES_MAX),
        Err(_) => {}
    }
}
