//! The Huffman code of RFC 7541 Appendix B.
//!
//! The code is canonical: the lengths of its codes determine it. The tables are computed from the lengths when Flash is
//! compiled.

/// The length of each byte's code in bits, as in the appendix.
const BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
];
const BITS_MAX: usize = 30;
/// Codes up to this length are decoded with one look.
const FAST_BITS: usize = 9;

/// The code of each byte, in its lowest bits.
const CODES: [u32; 256] = codes();
/// For each beginning of a code: the byte and the length of its code, or a length of 0 if the code is longer.
const FAST: [(u8, u8); 1 << FAST_BITS] = fast();
/// For each length: the first code, at the left of 32 bits, how many bytes have such codes, and where they begin in [`ORDER`].
const LENGTHS: [(u32, u16, u16); BITS_MAX + 1] = lengths();
/// The bytes in the order of their codes.
const ORDER: [u8; 256] = order();

const fn codes() -> [u32; 256] {
    let mut codes = [0; 256];
    let (mut code, mut bits) = (0u32, 0);
    while bits <= BITS_MAX {
        code <<= 1;
        let mut byte = 0;
        while byte < 256 {
            if BITS[byte] as usize == bits {
                codes[byte] = code;
                code += 1;
            }
            byte += 1;
        }
        bits += 1;
    }
    codes
}

const fn fast() -> [(u8, u8); 1 << FAST_BITS] {
    let mut fast = [(0, 0); 1 << FAST_BITS];
    let mut byte = 0;
    while byte < 256 {
        let bits = BITS[byte] as usize;
        if bits <= FAST_BITS {
            let first = (CODES[byte] as usize) << (FAST_BITS - bits);
            let mut at = first;
            while at < first + (1 << (FAST_BITS - bits)) {
                fast[at] = (byte as u8, bits as u8);
                at += 1;
            }
        }
        byte += 1;
    }
    fast
}

const fn order() -> [u8; 256] {
    let mut order = [0; 256];
    let (mut at, mut bits) = (0, 0);
    while bits <= BITS_MAX {
        let mut byte = 0;
        while byte < 256 {
            if BITS[byte] as usize == bits {
                order[at] = byte as u8;
                at += 1;
            }
            byte += 1;
        }
        bits += 1;
    }
    order
}

const fn lengths() -> [(u32, u16, u16); BITS_MAX + 1] {
    let mut lengths = [(0, 0, 0); BITS_MAX + 1];
    let (mut code, mut before, mut bits) = (0u32, 0, 0);
    while bits <= BITS_MAX {
        code <<= 1;
        let mut count = 0;
        let mut byte = 0;
        while byte < 256 {
            if BITS[byte] as usize == bits {
                count += 1;
            }
            byte += 1;
        }
        lengths[bits] = (if bits == 0 { 0 } else { code << (32 - bits) }, count, before);
        code += count as u32;
        before += count;
        bits += 1;
    }
    lengths
}

/// The bytes are not the code of anything: a wrong padding, or the code of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Appends the bytes that `code` stands for.
///
/// # Errors
/// RFC 7541 §5.2: a padding of more than 7 bits or of other bits than the end's, and the end itself.
pub fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    // At most 8 bytes for each 5 bits.
    out.reserve(code.len() * 8 / 5 + 1);
    let mut input = code.iter();
    // The next bits are at the left.
    let (mut window, mut count) = (0u64, 0u32);
    loop {
        while count <= 56 {
            let Some(&byte) = input.next() else { break };
            window |= u64::from(byte) << (56 - count);
            count += 8;
        }
        if count == 0 {
            return Ok(());
        }
        let (byte, bits) = match FAST[(window >> (64 - FAST_BITS)) as usize] {
            (_, 0) => match long((window >> 32) as u32) {
                Some(found) => found,
                None => return Err(Malformed),
            },
            found => found,
        };
        if u32::from(bits) > count {
            // The rest is shorter than a code, so it has to be the padding: ones.
            let is_padding = count <= 7 && window >> (64 - count) == (1 << count) - 1;
            return if is_padding { Ok(()) } else { Err(Malformed) };
        }
        out.push(byte);
        window <<= bits;
        count -= u32::from(bits);
    }
}

/// A byte whose code is longer than [`FAST_BITS`], and the length of the code. `None` for the end's code.
fn long(window: u32) -> Option<(u8, u8)> {
    (FAST_BITS + 1..=BITS_MAX).find_map(|bits| {
        let (first, count, at) = LENGTHS[bits];
        let number = window.checked_sub(first)? >> (32 - bits);
        (number < u32::from(count)).then(|| (ORDER[usize::from(at) + number as usize], bits as u8))
    })
}

/// How many bytes the code of `bytes` takes.
pub fn encoded_bytes(bytes: &[u8]) -> usize {
    bytes.iter().map(|&byte| usize::from(BITS[usize::from(byte)])).sum::<usize>().div_ceil(8)
}

/// Appends the code of `bytes`.
pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let (mut window, mut count) = (0u64, 0u32);
    for &byte in bytes {
        let bits = u32::from(BITS[usize::from(byte)]);
        window = window << bits | u64::from(CODES[usize::from(byte)]);
        count += bits;
        while count >= 8 {
            count -= 8;
            out.push((window >> count) as u8);
        }
    }
    if count > 0 {
        // Padded with the first bits of the end's code, which are ones.
        out.push((window << (8 - count)) as u8 | (0xff >> count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(code: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut out = Vec::new();
        decode(code, &mut out).map(|()| out)
    }

    #[test]
    fn rfc7541_b_some_codes_are_those_of_the_appendix() {
        for (byte, code, bits) in [
            (b'0', 0x0, 5),
            (b'a', 0x3, 5),
            (b' ', 0x14, 6),
            (b':', 0x5c, 7),
            (b'&', 0xf8, 8),
            (b'!', 0x3f8, 10),
            (b'{', 0x7ffe, 15),
            (b'\\', 0x7fff0, 19),
            (0, 0x1ff8, 13),
            (1, 0x7fffd8, 23),
            (9, 0xffffea, 24),
            (10, 0x3ffffffc, 30),
            (22, 0x3ffffffe, 30),
            (127, 0xffffffc, 28),
            (255, 0x3ffffee, 26),
            (249, 0xffffffe, 28),
        ] {
            assert_eq!((CODES[usize::from(byte)], BITS[usize::from(byte)]), (code, bits), "{byte}");
        }
        let kraft: u64 = BITS.iter().map(|&bits| 1 << (BITS_MAX - usize::from(bits))).sum();
        assert_eq!(kraft + 1, 1 << BITS_MAX, "with the end's code, the code is complete");
    }

    #[test]
    fn every_pair_of_bytes_comes_back() {
        for first in 0..=255 {
            for second in 0..=255 {
                let mut code = Vec::new();
                encode(&[first, second], &mut code);
                assert_eq!(code.len(), encoded_bytes(&[first, second]));
                assert_eq!(decoded(&code).as_deref(), Ok(&[first, second][..]));
            }
        }
    }

    #[test]
    fn rfc7541_5_2_bad_padding_is_refused() {
        assert_eq!(decoded(&[]).as_deref(), Ok(&[][..]));
        // `a` is 00011, and its padding is 111.
        assert_eq!(decoded(&[0b0001_1111]).as_deref(), Ok(&b"a"[..]));
        assert_eq!(decoded(&[0b0001_1110]), Err(Malformed));
        assert_eq!(decoded(&[0b0001_1111, 0xff]), Err(Malformed), "a padding of more than 7 bits");
        assert_eq!(decoded(&[0xff]), Err(Malformed));
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(Malformed), "the end");
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc, 0x1f]), Err(Malformed), "the end, and `a`");
    }
}
