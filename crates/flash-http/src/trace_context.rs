//! The field `traceparent`: which trace a request belongs to (W3C Trace Context, level 2, §3.2).
//!
//! It is read and written here. Whether a new span begins is not decided here, and `tracestate` is passed on unread.

/// Where a request stands in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace_id: [u8; 16],
    /// The span that has sent the request.
    pub parent_id: [u8; 8],
    /// [`SAMPLED`](Self::SAMPLED), [`RANDOM`](Self::RANDOM), and bits that have no meaning as yet.
    pub flags: u8,
}

impl TraceParent {
    /// The sender may have recorded its span.
    pub const SAMPLED: u8 = 1;
    /// The last seven bytes of the trace's id are random.
    pub const RANDOM: u8 = 2;
    /// The length of a value of version 00.
    pub const VALUE_BYTES: usize = 55;

    /// The only `traceparent` of a request. `None` for one that is invalid: the request then belongs to no trace.
    pub fn parse(value: &[u8]) -> Option<TraceParent> {
        let (known, rest) = value.split_at_checked(Self::VALUE_BYTES)?;
        let parts: [&[u8]; 4] = [&known[..2], &known[3..35], &known[36..52], &known[53..]];
        if [2, 35, 52].iter().any(|&at| known[at] != b'-') {
            return None;
        }
        let [version] = hex(parts[0])?;
        // §3.2.4: a later version may go on behind a dash. Version ff is forbidden.
        let is_whole = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => matches!(rest, [] | [b'-', ..]),
        };
        let (trace_id, parent_id) = (hex(parts[1])?, hex(parts[2])?);
        let [flags] = hex(parts[3])?;
        let is_valid = is_whole && trace_id != [0; 16] && parent_id != [0; 8];
        is_valid.then_some(TraceParent { trace_id, parent_id, flags })
    }

    /// The value in version 00. §3.2.3.2: bits without a meaning are cleared.
    pub fn to_value(self) -> String {
        let flags = self.flags & (Self::SAMPLED | Self::RANDOM);
        let (trace, parent) = (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.parent_id));
        format!("00-{trace:032x}-{parent:016x}-{flags:02x}")
    }
}

/// Bytes as two digits each, in lower case only.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_value_is_read_and_written() {
        let parent = TraceParent::parse(USUAL.as_bytes()).expect("it is valid");
        assert_eq!((parent.trace_id[0], parent.trace_id[15], parent.parent_id[7]), (0x0a, 0x9c, 0x31));
        assert_eq!(parent.flags, TraceParent::SAMPLED);
        assert_eq!(parent.to_value(), USUAL);
        // Of a later version, what is known is taken, and version 00 is written.
        for later in [USUAL.replacen("00", "cc", 1), USUAL.replacen("00", "01", 1) + "-what-comes"] {
            assert_eq!(TraceParent::parse(later.as_bytes()).expect("it is valid").to_value(), USUAL);
        }
        let unknown = TraceParent { flags: 0xff, ..parent };
        assert!(unknown.to_value().ends_with("-03"));
    }

    #[test]
    fn an_invalid_value_is_none() {
        let zero_trace = USUAL.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32));
        let zero_parent = USUAL.replace("b7ad6b7169203331", &"0".repeat(16));
        for value in [
            "",
            "00",
            &USUAL[..54],
            &zero_trace,
            &zero_parent,
            &USUAL.to_uppercase(),
            &USUAL.replacen("00", "ff", 1),
            &USUAL.replacen("00", "0g", 1),
            &USUAL.replace('-', "_"),
            &format!("{USUAL}-00"),
            &format!("{}-00", USUAL.replacen("00", "ff", 1)),
            &format!("{}x", USUAL.replacen("00", "01", 1)),
            &format!("{USUAL}, {USUAL}"),
        ] {
            assert_eq!(TraceParent::parse(value.as_bytes()), None, "{value}");
        }
    }
}
