//! How far a ClientHello has arrived. rustls reads it, once it is whole: until then it would be in memory twice.

use super::records::RECORD_BYTES;

/// A longer ClientHello is refused. BoringSSL has the same limit.
const HELLO_BYTES_MAX: usize = RECORD_BYTES;
const RECORD_TYPE: u8 = 22;
const MESSAGE_TYPE: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hello {
    Incomplete,
    /// It is whole, or it is no ClientHello, of which rustls says what is wrong.
    Whole,
    TooLong,
}

impl Hello {
    /// Looks at the records that have arrived (RFC 8446 §4 and §5.1).
    pub(super) fn in_records(mut bytes: &[u8]) -> Self {
        let (mut header, mut message_bytes) = ([0; 4], 0);
        while let [RECORD_TYPE, 3, _, high, low, rest @ ..] = bytes {
            let record_bytes = usize::from(u16::from_be_bytes([*high, *low]));
            let (piece, behind) = rest.split_at(rest.len().min(record_bytes));
            for (at, byte) in (message_bytes..header.len()).zip(piece) {
                header[at] = *byte;
            }
            message_bytes += piece.len();
            if !(1..=RECORD_BYTES).contains(&record_bytes) || message_bytes > 0 && header[0] != MESSAGE_TYPE {
                return Self::Whole;
            }
            let length = header.len() + u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
            match message_bytes >= header.len() {
                true if length > HELLO_BYTES_MAX => return Self::TooLong,
                true if message_bytes >= length => return Self::Whole,
                _ => bytes = behind,
            }
        }
        match bytes {
            [] | [RECORD_TYPE] | [RECORD_TYPE, 3, ..] => Self::Incomplete,
            _ => Self::Whole,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello of so many bytes behind its header, in records of so many.
    fn records(length: usize, record_bytes: usize) -> Vec<u8> {
        let mut message = vec![MESSAGE_TYPE];
        message.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
        message.resize(message.len() + length, 7);
        let record = |piece: &[u8]| {
            let length = (piece.len() as u16).to_be_bytes();
            [&[RECORD_TYPE, 3, 1, length[0], length[1]], piece].concat()
        };
        message.chunks(record_bytes).flat_map(record).collect()
    }

    #[test]
    fn it_is_whole_with_its_last_byte_whatever_its_records() {
        for record_bytes in [1, 2, 3, 4, 5, 100, 1000] {
            let records = records(300, record_bytes);
            for end in 0..records.len() {
                assert_eq!(Hello::in_records(&records[..end]), Hello::Incomplete, "{end} of {record_bytes}");
            }
            assert_eq!(Hello::in_records(&records), Hello::Whole);
            assert_eq!(Hello::in_records(&[&records[..], &[23, 3, 3]].concat()), Hello::Whole);
        }
    }

    #[test]
    fn one_that_would_be_too_long_is_known_by_its_header() {
        assert_eq!(Hello::in_records(&records(HELLO_BYTES_MAX - 4, RECORD_BYTES)), Hello::Whole);
        let long = records(HELLO_BYTES_MAX - 3, 1000);
        assert_eq!(Hello::in_records(&long[..9]), Hello::TooLong);
    }

    #[test]
    fn what_is_no_client_hello_is_for_rustls_to_judge() {
        let begun = records(300, 100);
        for bytes in [
            &[0][..],
            &[21, 3, 3, 0, 2, 1, 0],
            &[22, 2],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0xff, 0xff, 1],
            &[22, 3, 3, 0, 1, 2],
            &[&begun[..105], &[23]].concat(),
        ] {
            assert_eq!(Hello::in_records(bytes), Hello::Whole, "{bytes:?}");
        }
    }
}
