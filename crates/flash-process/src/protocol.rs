//! The protocol between a server process and its fork helper: requests and events as bytes.
//!
//! Both sides are the same program. A message that cannot be decoded was not written by it, and closes the connection.

use flash_core::upstream::OpenError;

use crate::codec::{Reader, Writer};

/// From the server. Programs have numbers that the server gives, each larger than those before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Start(StartRequest),
    /// End the program, and whatever it has started.
    End {
        number: u64,
    },
    /// Adopt a program that the last fork helper started, before it ended. Its pidfd comes along: a number may be another
    /// process's by now.
    Adopt {
        number: u64,
        is_counted: bool,
    },
}

/// With it come the descriptors that `stdio` speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StartRequest {
    pub(crate) number: u64,
    pub(crate) what: ProgramRef,
    /// The variables' pairs.
    pub(crate) pairs: Vec<u8>,
    /// For each of the program's three, which of those that came along; [`NULL`] for `/dev/null`, [`PIPE`] for a pipe.
    pub(crate) stdio: [u8; 3],
    /// Written to its standard output before it may write there itself.
    pub(crate) head: Vec<u8>,
}

pub(crate) const NULL: u8 = u8::MAX;
/// One that the fork helper makes. So it is the programs' user's, who can open it by its name in `/proc`.
pub(crate) const PIPE: u8 = u8::MAX - 1;
/// The longest request.
pub(crate) const REQUEST_BYTES_MAX: usize = 200 << 10;

/// Which program. [`Setup`](crate::Setup) lists the programs that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramRef {
    /// Below the folder of that number, by the URL's whole path.
    Script { folder: u16, path: Vec<u8> },
    /// The command of that number.
    Command { command: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It runs. The end of its pipe to read from comes along, after its pidfd if it has one. So many bytes of the path are the script's name.
    Started {
        number: u64,
        pid: i32,
        name_bytes: u32,
        has_pidfd: bool,
        /// How long its request waited for others.
        queue_us: u64,
    },
    Rejected {
        number: u64,
        why: OpenError,
        reason: String,
    },
    Exited {
        number: u64,
        how: ExitStatus,
    },
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
    /// No process could wait for it.
    Unknown,
}

impl ProgramRef {
    /// Scripts are limited in number, over all server processes.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self, Self::Script { .. })
    }
}

impl Default for ProgramRef {
    fn default() -> Self {
        Self::Command { command: 0 }
    }
}

const REFUSALS: [OpenError; 5] =
    [OpenError::Busy, OpenError::NotFound, OpenError::Forbidden, OpenError::Broken, OpenError::Late];

impl Request {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Self::Start(start) => {
                to.u8(b'b');
                to.u64(start.number);
                to.array(start.stdio);
                match &start.what {
                    ProgramRef::Script { folder, path } => {
                        to.u8(b's');
                        to.u16(*folder);
                        to.bytes(path);
                    }
                    ProgramRef::Command { command } => {
                        to.u8(b'c');
                        to.u16(*command);
                    }
                }
                to.bytes(&start.pairs);
                to.bytes(&start.head);
            }
            Self::End { number } => {
                to.u8(b'e');
                to.u64(*number);
            }
            Self::Adopt { number, is_counted } => {
                to.u8(b'a');
                to.u64(*number);
                to.bool(*is_counted);
            }
        }
        to.bytes
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let from = &mut Reader(bytes);
        let kind = from.u8()?;
        let number = from.u64()?;
        let request = match kind {
            b'b' => {
                let stdio = from.array()?;
                let what = match from.u8()? {
                    b's' => {
                        let folder = from.u16()?;
                        ProgramRef::Script { folder, path: from.bytes(usize::MAX)?.to_vec() }
                    }
                    b'c' => ProgramRef::Command { command: from.u16()? },
                    _ => return None,
                };
                let (pairs, head) = (from.bytes(usize::MAX)?.to_vec(), from.bytes(usize::MAX)?.to_vec());
                Self::Start(StartRequest { number, what, pairs, stdio, head })
            }
            b'e' => Self::End { number },
            b'a' => Self::Adopt { number, is_counted: from.bool()? },
            _ => return None,
        };
        from.end()?;
        Some(request)
    }
}

impl Event {
    /// Appends the event to a message, which may hold several.
    pub(crate) fn put(&self, to: &mut Writer) {
        let (kind, number) = match self {
            Self::Started { number, .. } => (b'b', number),
            Self::Rejected { number, .. } => (b'r', number),
            Self::Exited { number, .. } => (b'e', number),
        };
        to.u8(kind);
        to.u64(*number);
        match self {
            Self::Started { pid, name_bytes, has_pidfd, queue_us, .. } => {
                to.i32(*pid);
                to.u32(*name_bytes);
                to.bool(*has_pidfd);
                to.u64(*queue_us);
            }
            Self::Rejected { why, reason, .. } => {
                to.u8(REFUSALS.iter().position(|refusal| refusal == why).unwrap_or_default() as u8);
                to.bytes(reason.as_bytes());
            }
            Self::Exited { how, .. } => {
                let (kind, value) = match *how {
                    ExitStatus::Code(code) => (b'c', code),
                    ExitStatus::Signal(signal) => (b's', signal),
                    ExitStatus::Unknown => (b'u', 0),
                };
                to.u8(kind);
                to.i32(value);
            }
        }
    }

    /// Takes the next event of a message.
    pub(crate) fn take(from: &mut Reader<'_>) -> Option<Self> {
        let kind = from.u8()?;
        let number = from.u64()?;
        Some(match kind {
            b'b' => {
                let (pid, name_bytes) = (from.i32()?, from.u32()?);
                let (has_pidfd, queue_us) = (from.bool()?, from.u64()?);
                Self::Started { number, pid, name_bytes, has_pidfd, queue_us }
            }
            b'r' => {
                let why = *REFUSALS.get(usize::from(from.u8()?))?;
                let reason = String::from_utf8(from.bytes(usize::MAX)?.to_vec()).ok()?;
                Self::Rejected { number, why, reason }
            }
            b'e' => {
                let kind = from.u8()?;
                let value = from.i32()?;
                let how = match kind {
                    b'c' => ExitStatus::Code(value),
                    b's' => ExitStatus::Signal(value),
                    b'u' => ExitStatus::Unknown,
                    _ => return None,
                };
                Self::Exited { number, how }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn any_request() -> impl Strategy<Value = Request> {
        let what = prop_oneof![
            (any::<u16>(), vec(any::<u8>(), 0..50))
                .prop_map(|(folder, path)| ProgramRef::Script { folder, path }),
            any::<u16>().prop_map(|command| ProgramRef::Command { command }),
        ];
        let bytes = || vec(any::<u8>(), 0..300);
        prop_oneof![
            (any::<u64>(), what, bytes(), any::<[u8; 3]>(), bytes()).prop_map(
                |(number, what, pairs, stdio, head)| {
                    Request::Start(StartRequest { number, what, pairs, stdio, head })
                }
            ),
            any::<u64>().prop_map(|number| Request::End { number }),
            any::<(u64, bool)>().prop_map(|(number, is_counted)| Request::Adopt { number, is_counted }),
        ]
    }

    fn any_event() -> impl Strategy<Value = Event> {
        let why = (0..REFUSALS.len()).prop_map(|at| REFUSALS[at]);
        let how = prop_oneof![
            any::<i32>().prop_map(ExitStatus::Code),
            any::<i32>().prop_map(ExitStatus::Signal),
            Just(ExitStatus::Unknown),
        ];
        prop_oneof![
            any::<(u64, i32, u32, bool, u64)>().prop_map(|(number, pid, name_bytes, has_pidfd, queue_us)| {
                Event::Started { number, pid, name_bytes, has_pidfd, queue_us }
            }),
            (any::<u64>(), why, ".{0,40}").prop_map(|(number, why, reason)| Event::Rejected {
                number,
                why,
                reason
            }),
            (any::<u64>(), how).prop_map(|(number, how)| Event::Exited { number, how }),
        ]
    }

    proptest! {
        #[test]
        fn requests_arrive_as_they_were_sent(request in any_request(), more in any::<u8>()) {
            let mut bytes = request.to_bytes();
            prop_assert_eq!(Request::of_bytes(&bytes), Some(request));
            for length in 0..bytes.len() {
                prop_assert_eq!(Request::of_bytes(&bytes[..length]), None);
            }
            bytes.push(more);
            prop_assert_eq!(Request::of_bytes(&bytes), None);
        }

        #[test]
        fn events_arrive_as_they_were_sent(events in vec(any_event(), 0..8)) {
            let mut bytes = Writer::default();
            events.iter().for_each(|event| event.put(&mut bytes));
            let mut rest = Reader(&bytes.bytes);
            let received: Vec<Event> = std::iter::from_fn(|| Event::take(&mut rest)).collect();
            prop_assert_eq!((received, rest.0.len()), (events, 0));
        }

        #[test]
        fn nonsense_is_no_message(bytes in vec(any::<u8>(), 0..100)) {
            let _ = Request::of_bytes(&bytes);
            let mut rest = Reader(&bytes);
            while Event::take(&mut rest).is_some() {}
        }
    }
}
