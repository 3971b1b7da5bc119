//! What the server asks of its fork helper, and what it is told, as bytes.
//!
//! Both sides are the same program. What cannot be understood was not written by it, and ends the conversation.

use flash_core::program::Refusal;

/// From the server. Programs have numbers that the server gives, each larger than those before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Begin(Begin),
    /// End it, and whatever it has started.
    End {
        number: u64,
    },
    /// A program that the last fork helper began, before it ended. Its pidfd comes along.
    Adopt {
        number: u64,
        pid: i32,
        is_counted: bool,
    },
}

/// With it come the descriptors that `stdio` speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) number: u64,
    pub(crate) what: What,
    /// The variables' pairs.
    pub(crate) pairs: Vec<u8>,
    /// For each of the program's three, which of those that came along; [`NULL`] for `/dev/null`.
    pub(crate) stdio: [u8; 3],
    /// Written to its standard output before it may write there itself.
    pub(crate) head: Vec<u8>,
}

pub(crate) const NULL: u8 = u8::MAX;

/// Which program. What there is was decided by [`Setup`](crate::Setup).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Below the folder of that number, by the URL's whole path.
    Script { folder: u16, path: Vec<u8> },
    /// The command of that number.
    Command { command: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    /// It runs; its pidfd comes along. So many bytes of the path are the script's name.
    Begun {
        number: u64,
        pid: i32,
        name_bytes: u32,
    },
    Refused {
        number: u64,
        why: Refusal,
        reason: String,
    },
    Ended {
        number: u64,
        how: Ended,
    },
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Code(i32),
    Signal(i32),
    /// Nobody was there to see it.
    Unknown,
}

impl What {
    /// Scripts are limited in number, over all server processes.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self, Self::Script { .. })
    }
}

impl Default for What {
    fn default() -> Self {
        Self::Command { command: 0 }
    }
}

const REFUSALS: [Refusal; 5] =
    [Refusal::Busy, Refusal::NotFound, Refusal::Forbidden, Refusal::Broken, Refusal::Late];

impl Ask {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Begin(begin) => {
                bytes.push(b'b');
                put(&mut bytes, &begin.number.to_ne_bytes());
                put(&mut bytes, &begin.stdio);
                match &begin.what {
                    What::Script { folder, path } => {
                        bytes.push(b's');
                        put(&mut bytes, &folder.to_ne_bytes());
                        put_long(&mut bytes, path);
                    }
                    What::Command { command } => {
                        bytes.push(b'c');
                        put(&mut bytes, &command.to_ne_bytes());
                    }
                }
                put_long(&mut bytes, &begin.pairs);
                put_long(&mut bytes, &begin.head);
            }
            Self::End { number } => {
                bytes.push(b'e');
                put(&mut bytes, &number.to_ne_bytes());
            }
            Self::Adopt { number, pid, is_counted } => {
                bytes.push(b'a');
                put(&mut bytes, &number.to_ne_bytes());
                put(&mut bytes, &pid.to_ne_bytes());
                bytes.push((*is_counted).into());
            }
        }
        bytes
    }

    pub(crate) fn of_bytes(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        let kind = byte(rest)?;
        let number = u64::from_ne_bytes(take(rest)?);
        let ask = match kind {
            b'b' => {
                let stdio = take(rest)?;
                let what = match byte(rest)? {
                    b's' => {
                        let folder = u16::from_ne_bytes(take(rest)?);
                        What::Script { folder, path: take_long(rest)?.to_vec() }
                    }
                    b'c' => What::Command { command: u16::from_ne_bytes(take(rest)?) },
                    _ => return None,
                };
                let (pairs, head) = (take_long(rest)?.to_vec(), take_long(rest)?.to_vec());
                Self::Begin(Begin { number, what, pairs, stdio, head })
            }
            b'e' => Self::End { number },
            b'a' => {
                let pid = i32::from_ne_bytes(take(rest)?);
                Self::Adopt { number, pid, is_counted: byte(rest)? != 0 }
            }
            _ => return None,
        };
        rest.is_empty().then_some(ask)
    }
}

impl Tell {
    /// Appends it to a message, which may hold several.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        let (kind, number) = match self {
            Self::Begun { number, .. } => (b'b', number),
            Self::Refused { number, .. } => (b'r', number),
            Self::Ended { number, .. } => (b'e', number),
        };
        bytes.push(kind);
        put(bytes, &number.to_ne_bytes());
        match self {
            Self::Begun { pid, name_bytes, .. } => {
                put(bytes, &pid.to_ne_bytes());
                put(bytes, &name_bytes.to_ne_bytes());
            }
            Self::Refused { why, reason, .. } => {
                bytes.push(REFUSALS.iter().position(|refusal| refusal == why).unwrap_or_default() as u8);
                put_long(bytes, reason.as_bytes());
            }
            Self::Ended { how, .. } => {
                let (kind, value) = match *how {
                    Ended::Code(code) => (b'c', code),
                    Ended::Signal(signal) => (b's', signal),
                    Ended::Unknown => (b'u', 0),
                };
                bytes.push(kind);
                put(bytes, &value.to_ne_bytes());
            }
        }
    }

    /// Takes the next of a message.
    pub(crate) fn take(rest: &mut &[u8]) -> Option<Self> {
        let kind = byte(rest)?;
        let number = u64::from_ne_bytes(take(rest)?);
        Some(match kind {
            b'b' => {
                let pid = i32::from_ne_bytes(take(rest)?);
                Self::Begun { number, pid, name_bytes: u32::from_ne_bytes(take(rest)?) }
            }
            b'r' => {
                let why = *REFUSALS.get(usize::from(byte(rest)?))?;
                let reason = String::from_utf8(take_long(rest)?.to_vec()).ok()?;
                Self::Refused { number, why, reason }
            }
            b'e' => {
                let kind = byte(rest)?;
                let value = i32::from_ne_bytes(take(rest)?);
                let how = match kind {
                    b'c' => Ended::Code(value),
                    b's' => Ended::Signal(value),
                    b'u' => Ended::Unknown,
                    _ => return None,
                };
                Self::Ended { number, how }
            }
            _ => return None,
        })
    }
}

fn put(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend_from_slice(value);
}

fn put_long(bytes: &mut Vec<u8>, value: &[u8]) {
    // Longer messages than 4 GiB cannot be sent.
    put(bytes, &(value.len() as u32).to_ne_bytes());
    put(bytes, value);
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    take(rest).map(|[byte]| byte)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, more) = rest.split_first_chunk()?;
    *rest = more;
    Some(*first)
}

fn take_long<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32::from_ne_bytes(take(rest)?);
    let (value, more) = rest.split_at_checked(length as usize)?;
    *rest = more;
    Some(value)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn any_ask() -> impl Strategy<Value = Ask> {
        let what = prop_oneof![
            (any::<u16>(), vec(any::<u8>(), 0..50)).prop_map(|(folder, path)| What::Script { folder, path }),
            any::<u16>().prop_map(|command| What::Command { command }),
        ];
        let bytes = || vec(any::<u8>(), 0..300);
        prop_oneof![
            (any::<u64>(), what, bytes(), any::<[u8; 3]>(), bytes()).prop_map(
                |(number, what, pairs, stdio, head)| {
                    Ask::Begin(Begin { number, what, pairs, stdio, head })
                }
            ),
            any::<u64>().prop_map(|number| Ask::End { number }),
            any::<(u64, i32, bool)>().prop_map(|(number, pid, is_counted)| Ask::Adopt {
                number,
                pid,
                is_counted
            }),
        ]
    }

    fn any_tell() -> impl Strategy<Value = Tell> {
        let why = (0..REFUSALS.len()).prop_map(|at| REFUSALS[at]);
        let how = prop_oneof![
            any::<i32>().prop_map(Ended::Code),
            any::<i32>().prop_map(Ended::Signal),
            Just(Ended::Unknown),
        ];
        prop_oneof![
            any::<(u64, i32, u32)>().prop_map(|(number, pid, name_bytes)| Tell::Begun {
                number,
                pid,
                name_bytes
            }),
            (any::<u64>(), why, ".{0,40}").prop_map(|(number, why, reason)| Tell::Refused {
                number,
                why,
                reason
            }),
            (any::<u64>(), how).prop_map(|(number, how)| Tell::Ended { number, how }),
        ]
    }

    proptest! {
        #[test]
        fn asks_arrive_as_they_were_sent(ask in any_ask(), more in any::<u8>()) {
            let mut bytes = ask.to_bytes();
            prop_assert_eq!(Ask::of_bytes(&bytes), Some(ask));
            for length in 0..bytes.len() {
                prop_assert_eq!(Ask::of_bytes(&bytes[..length]), None);
            }
            bytes.push(more);
            prop_assert_eq!(Ask::of_bytes(&bytes), None);
        }

        #[test]
        fn tells_arrive_as_they_were_sent(tells in vec(any_tell(), 0..8)) {
            let mut bytes = Vec::new();
            tells.iter().for_each(|tell| tell.put(&mut bytes));
            let mut rest = &*bytes;
            let told: Vec<Tell> = std::iter::from_fn(|| Tell::take(&mut rest)).collect();
            prop_assert_eq!((told, rest.len()), (tells, 0));
        }

        #[test]
        fn nonsense_is_no_message(bytes in vec(any::<u8>(), 0..100)) {
            let _ = Ask::of_bytes(&bytes);
            let mut rest = &*bytes;
            while Tell::take(&mut rest).is_some() {}
        }
    }
}
