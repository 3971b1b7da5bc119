//! Integers with a prefix (RFC 7541 §5.1).

/// Values beyond this are an error: nothing here is ever that long.
const VALUE_MAX: usize = 1 << 24;

/// Reads an integer whose first byte has `prefix` bits of it. Takes it off the front of `bytes`.
#[inline]
pub(crate) fn read(bytes: &mut &[u8], prefix: u32) -> Option<usize> {
    let (&first, mut rest) = bytes.split_first()?;
    let most = (1usize << prefix) - 1;
    let mut value = usize::from(first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            value += (usize::from(byte) & 0x7f) << shift;
            if value > VALUE_MAX {
                return None;
            }
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            // Leading zeros would make an integer of any length.
            if shift > 21 {
                return None;
            }
        }
    }
    *bytes = rest;
    Some(value)
}

/// Writes an integer behind the bits of `first` above its prefix.
#[inline]
pub(crate) fn write(out: &mut Vec<u8>, first: u8, prefix: u32, value: usize) {
    let most = (1usize << prefix) - 1;
    if value < most {
        return out.push(first | value as u8);
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc7541_c_1_examples() {
        for (value, prefix, bytes) in [
            (10, 5, &[0b01010][..]),
            (1337, 5, &[0b11111, 0b1001_1010, 0b0000_1010]),
            (42, 8, &[0b0010_1010]),
        ] {
            let mut out = Vec::new();
            write(&mut out, 0, prefix, value);
            assert_eq!(out, bytes);
            assert_eq!(read(&mut &bytes[..], prefix), Some(value));
        }
    }

    #[test]
    fn long_and_cut_integers_are_refused() {
        assert_eq!(read(&mut &[0x1f, 0x9a][..], 5), None);
        assert_eq!(read(&mut &[][..], 5), None);
        assert_eq!(read(&mut &[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00][..], 7), None, "zeros without end");
        assert_eq!(read(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0x0f][..], 7), None, "too large");
    }
}
