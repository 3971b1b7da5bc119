//! Priorities of responses (RFC 9218): an urgency, and whether the response is of use in pieces.

/// A request's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads the value of a `Priority` field or of a PRIORITY_UPDATE frame, a dictionary of RFC 8941. Members that are
    /// unknown or malformed count as absent (RFC 9218 §4), and what a response needs least is never lost by that.
    pub fn of(value: &[u8]) -> Self {
        let mut priority = Self::default();
        for member in value.split(|&byte| byte == b',') {
            // Parameters of a member have no meaning here.
            let member = member.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', urgency @ b'0'..=b'7'] => priority.urgency = urgency - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc9218_4_members_are_read_and_others_are_not() {
        let read = |value: &str| {
            let Priority { urgency, incremental } = Priority::of(value.as_bytes());
            (urgency, incremental)
        };
        assert_eq!(read(""), (3, false));
        assert_eq!(read("u=5, i"), (5, true));
        assert_eq!(read("i,u=0"), (0, true));
        assert_eq!(read("u=1;x=2, i=?0, z"), (1, false));
        for bad in ["u=8", "u=-1", "u=", "u=10", "u", "I", "u=a", ",,,"] {
            assert_eq!(read(bad), (3, false), "{bad}");
        }
        assert_eq!(read("u=2, u=6"), (6, false), "the last one counts");
    }
}
