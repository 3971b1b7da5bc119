//! Name-value pairs as FastCGI has them (FastCGI §3.4): a length is one byte, or four with the highest bit set.

/// Lengths below this are one byte.
const SHORT: usize = 128;
/// The largest length that four bytes hold.
const LENGTH_MAX: usize = 0x7fff_ffff;
/// Both lengths of a pair.
const LENGTHS_BYTES_MAX: usize = 8;

/// Names and values, in order; ends before the first pair that is not whole.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'v> {
    rest: &'v [u8],
}

impl<'v> Pairs<'v> {
    pub(super) const fn of(bytes: &'v [u8]) -> Pairs<'v> {
        Pairs { rest: bytes }
    }

    /// What has not been read: behind the last pair, nothing.
    pub(super) const fn rest(&self) -> &'v [u8] {
        self.rest
    }
}

impl<'v> Iterator for Pairs<'v> {
    type Item = (&'v [u8], &'v [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (name, after) = length(self.rest)?;
        let (value, after) = length(after)?;
        let (name, after) = after.split_at_checked(name)?;
        let (value, after) = after.split_at_checked(value)?;
        self.rest = after;
        Some((name, value))
    }
}

#[inline]
fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [short @ 0..=0x7f, rest @ ..] => Some((usize::from(*short), rest)),
        [a, b, c, d, rest @ ..] => Some((u32::from_be_bytes([a & 0x7f, *b, *c, *d]) as usize, rest)),
        _ => None,
    }
}

#[inline]
fn push_length(pairs: &mut Vec<u8>, length: usize) {
    if length < SHORT {
        pairs.push(length as u8);
    } else {
        // What is longer than the whole of a head cannot come, and two gigabytes even less.
        assert!(length <= LENGTH_MAX, "a variable of {length} bytes");
        pairs.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes());
    }
}

/// Appends a pair.
#[inline]
pub(super) fn push(pairs: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    push_joined(pairs, name, [value]);
}

/// Appends a pair whose value is in parts.
#[inline]
pub(super) fn push_joined<const N: usize>(pairs: &mut Vec<u8>, name: &[u8], parts: [&[u8]; N]) {
    let length = parts.iter().map(|part| part.len()).sum();
    pairs.reserve(LENGTHS_BYTES_MAX + name.len() + length);
    push_length(pairs, name.len());
    push_length(pairs, length);
    pairs.extend_from_slice(name);
    for part in parts {
        pairs.extend_from_slice(part);
    }
}

/// Appends a pair whose name is `prefix` and then `name`, byte by byte as `spell` has it.
#[inline]
pub(super) fn push_spelt(
    pairs: &mut Vec<u8>,
    prefix: &[u8],
    name: &[u8],
    spell: impl Fn(u8) -> u8,
    value: &[u8],
) {
    let length = prefix.len() + name.len();
    pairs.reserve(LENGTHS_BYTES_MAX + length + value.len());
    push_length(pairs, length);
    push_length(pairs, value.len());
    pairs.extend_from_slice(prefix);
    pairs.extend(name.iter().map(|&byte| spell(byte)));
    pairs.extend_from_slice(value);
}
