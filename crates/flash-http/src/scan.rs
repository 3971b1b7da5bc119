//! Runs of bytes: how far does a token, a target, a field value reach?
//!
//! Most of a head is read here, so it is read eight bytes at a time, with arithmetic on words that any processor
//! has. In a word that a test returns, a byte's high bit says that the byte is a hit. Borrows may make false hits
//! above a true one, never below it, and the lowest is the one we look for.

const DEL: u8 = 0x7f;
const ONES: u64 = u64::MAX / 255;
const HIGH_BITS: u64 = ONES << 7;

/// Length of the token that `bytes` begins with (RFC 9110 §5.6.2); 0 if there is none.
#[inline]
pub fn token_run(bytes: &[u8]) -> usize {
    // Names of fields are letters and hyphens, with so few exceptions that those may take the slow way.
    let at = first_hit(bytes, |word| !letter_or_hyphen(word), |_| true);
    match bytes.get(at) {
        Some(&byte) if is_token(byte) => at + tail_of_token(&bytes[at..]),
        _ => at,
    }
}

#[cold]
fn tail_of_token(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| !is_token(byte)).unwrap_or(bytes.len())
}

/// Length of the leading run of visible ASCII and obs-text: no blank, no control character.
#[inline]
pub fn visible_run(bytes: &[u8]) -> usize {
    first_hit(bytes, |word| under(word, b'!') | equal(word, DEL), |byte| byte < b'!' || byte == DEL)
}

/// Length of the leading run of bytes that a field value may hold (RFC 9110 §5.5): HTAB, SP, visible, obs-text.
#[inline]
pub fn value_run(bytes: &[u8]) -> usize {
    let run = |from: usize| {
        let is_control = |byte| byte < b' ' || byte == DEL;
        from + first_hit(&bytes[from..], |word| under(word, b' ') | equal(word, DEL), is_control)
    };
    let mut at = run(0);
    // A tab is a control character that is allowed, and so rare that it may cost a second start.
    while bytes.get(at) == Some(&b'\t') {
        at = run(at + 1);
    }
    at
}

/// Where the first `a` or `b` is.
#[inline]
pub(crate) fn find_either(a: u8, b: u8, bytes: &[u8]) -> Option<usize> {
    let at = first_hit(bytes, |word| equal(word, a) | equal(word, b), |byte| byte == a || byte == b);
    (at < bytes.len()).then_some(at)
}

/// Index of the first hit, or the length of `bytes`. The same test comes for words and for single bytes, of which
/// the last few are not a word.
#[inline]
fn first_hit(bytes: &[u8], words: impl Fn(u64) -> u64, single: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(word) = bytes[at..].first_chunk::<8>() {
        let hits = words(u64::from_le_bytes(*word)) & HIGH_BITS;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let tail = &bytes[at..];
    at + tail.iter().position(|&byte| single(byte)).unwrap_or(tail.len())
}

/// Hits are bytes below `floor`, which is ASCII.
#[inline]
const fn under(word: u64, floor: u8) -> u64 {
    word.wrapping_sub(ONES * floor as u64) & !word
}

/// Hits are bytes equal to `byte`.
#[inline]
const fn equal(word: u64, byte: u8) -> u64 {
    let zero = word ^ (ONES * byte as u64);
    zero.wrapping_sub(ONES) & !zero
}

/// Hits are ASCII letters and hyphens. These are exact, with none that is false, so that they may be negated: no
/// byte's sum is large enough to reach the next one.
#[inline]
const fn letter_or_hyphen(word: u64) -> u64 {
    let low = word & !HIGH_BITS;
    let lower = low | (ONES * 0x20);
    let from_a = lower + ONES * (0x80 - b'a' as u64);
    let beyond_z = lower + ONES * (0x7f - b'z' as u64);
    let not_hyphen = (low ^ (ONES * b'-' as u64)) + ONES * 0x7f;
    ((from_a & !beyond_z) | !not_hyphen) & !word
}

/// RFC 9110 §5.6.2: `tchar`.
#[inline]
pub(crate) const fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// RFC 9110 §5.5: what a field value may hold.
#[inline]
pub(crate) const fn is_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != DEL)
}

const TOKEN: [bool; 256] = table(b"!#$%&'*+-.^_`|~");

/// True for ASCII letters, digits, and the bytes in `others`.
pub(crate) const fn table(others: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
}

/// `bytes` without blanks (SP, HTAB) at either end: what RFC 9110 §5.6.3 calls OWS.
#[inline]
pub fn trim(bytes: &[u8]) -> &[u8] {
    let mut bytes = bytes;
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// A run of at least one decimal digit as a number; `None` for anything else, or more than 64 bits.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        if !byte.is_ascii_digit() {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte_is_classed_at_every_offset() {
        for byte in 0..=255u8 {
            for offset in 0..24 {
                let mut bytes = [b'a'; 32];
                bytes[offset] = byte;
                let stops = |allowed: bool| if allowed { 32 } else { offset };
                assert_eq!(visible_run(&bytes), stops(byte > b' ' && byte != DEL), "{byte} at {offset}");
                let in_value = byte == b'\t' || (byte >= b' ' && byte != DEL);
                assert_eq!(value_run(&bytes), stops(in_value), "{byte} at {offset}");
                let in_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
                assert_eq!(token_run(&bytes), stops(in_token), "{byte} at {offset}");
            }
        }
    }

    /// Bytes that are hits, or differ from one by a bit, beside any others.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte =
            prop_oneof![prop::sample::select(b"-,az{`AZ[@ !\t\x1f\x7f~:?#\xad\xe1".to_vec()), any::<u8>()];
        prop::collection::vec(byte, 0..40)
    }

    proptest! {
        #[test]
        fn words_find_what_single_bytes_find(bytes in bytes()) {
            let run = |of: fn(u8) -> bool| bytes.iter().position(|&byte| !of(byte)).unwrap_or(bytes.len());
            prop_assert_eq!(value_run(&bytes), run(is_value));
            prop_assert_eq!(token_run(&bytes), run(is_token));
            prop_assert_eq!(visible_run(&bytes), run(|byte| byte > b' ' && byte != DEL));
            let either = bytes.iter().position(|byte| b"?#".contains(byte));
            prop_assert_eq!(find_either(b'?', b'#', &bytes), either);
        }

        #[test]
        fn letters_and_hyphens_are_exact(bytes in prop::array::uniform8(prop::sample::select(b"-,.az{`\xadAZ".to_vec()))) {
            let hits = letter_or_hyphen(u64::from_le_bytes(bytes)) & HIGH_BITS;
            for (index, byte) in bytes.into_iter().enumerate() {
                let hit = hits >> (8 * index) & 0x80 != 0;
                prop_assert_eq!(hit, byte.is_ascii_alphabetic() || byte == b'-');
            }
        }
    }

    #[test]
    fn decimals_are_digits_only() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"18446744073709551616"] {
            assert_eq!(decimal(bad), None);
        }
    }
}
