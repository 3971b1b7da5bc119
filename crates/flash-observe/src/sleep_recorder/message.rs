//! What the server asks the recorder, and what it answers, as bytes.

use flash_process::codec::{Reader, Writer};
use flash_sleep::Cause;

use super::explanation::{Explanation, Total};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Record a thread of the server from now on.
    Record { thread: u32 },
    /// Explain the longest sleep of a thread between two times, by CLOCK_MONOTONIC.
    Explain { thread: u32, since_ns: u64, until_ns: u64 },
    /// The sleeps of all threads.
    Totals,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Recorded {
        is_new: bool,
    },
    /// The kernel does not allow it.
    Refused(String),
    Explained(Option<Explanation>),
    Totals(Vec<Total>),
}

/// Explanations in a reply: those that took longest.
pub(super) const TOTALS_MAX: usize = 1000;
const TEXT_BYTES_MAX: usize = 1024;

impl Request {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match *self {
            Self::Record { thread } => {
                writer.u8(b'r');
                writer.u32(thread);
            }
            Self::Explain { thread, since_ns, until_ns } => {
                writer.u8(b'e');
                writer.u32(thread);
                writer.u64(since_ns);
                writer.u64(until_ns);
            }
            Self::Totals => writer.u8(b't'),
        }
        writer.bytes
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let request = match reader.u8()? {
            b'r' => Self::Record { thread: reader.u32()? },
            b'e' => Self::Explain { thread: reader.u32()?, since_ns: reader.u64()?, until_ns: reader.u64()? },
            b't' => Self::Totals,
            _ => return None,
        };
        reader.end().map(|()| request)
    }
}

impl Reply {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Recorded { is_new } => {
                writer.u8(b'r');
                writer.bool(*is_new);
            }
            Self::Refused(why) => {
                writer.u8(b'n');
                text(&mut writer, why);
            }
            Self::Explained(explanation) => {
                writer.u8(b'e');
                writer.bool(explanation.is_some());
                explanation.iter().for_each(|explanation| write(&mut writer, explanation));
            }
            Self::Totals(totals) => {
                writer.u8(b't');
                writer.u32(totals.len() as u32);
                for total in totals {
                    write(&mut writer, &total.explanation);
                    writer.u64(total.sleeps);
                    writer.u64(total.ns);
                }
            }
        }
        writer.bytes
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let reply = match reader.u8()? {
            b'r' => Self::Recorded { is_new: reader.bool()? },
            b'n' => Self::Refused(read_text(&mut reader)?),
            b'e' => Self::Explained(match reader.bool()? {
                true => Some(read(&mut reader)?),
                false => None,
            }),
            b't' => Self::Totals(reader.many(TOTALS_MAX, |reader| {
                Some(Total { explanation: read(reader)?, sleeps: reader.u64()?, ns: reader.u64()? })
            })?),
            _ => return None,
        };
        reader.end().map(|()| reply)
    }
}

fn write(writer: &mut Writer, explanation: &Explanation) {
    let cause = Cause::ALL.iter().position(|cause| *cause == explanation.cause);
    writer.u8(cause.expect("every cause is among all") as u8);
    text(writer, &explanation.functions);
}

fn read(reader: &mut Reader<'_>) -> Option<Explanation> {
    let cause = *Cause::ALL.get(usize::from(reader.u8()?))?;
    Some(Explanation { cause, functions: read_text(reader)? })
}

fn text(writer: &mut Writer, text: &str) {
    writer.bytes(&text.as_bytes()[..text.len().min(TEXT_BYTES_MAX)]);
}

fn read_text(reader: &mut Reader<'_>) -> Option<String> {
    Some(String::from_utf8_lossy(reader.bytes(TEXT_BYTES_MAX)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_understood_as_they_were_meant() {
        for request in [
            Request::Record { thread: 7 },
            Request::Explain { thread: 7, since_ns: 1, until_ns: u64::MAX },
            Request::Totals,
        ] {
            let bytes = request.to_bytes();
            assert_eq!(Request::of_bytes(&bytes[..bytes.len() - 1]), None, "{request:?}, cut");
            assert_eq!(Request::of_bytes(&bytes), Some(request));
        }
        let explanation = Explanation { cause: Cause::Unknown, functions: "a < b".into() };
        for reply in [
            Reply::Recorded { is_new: true },
            Reply::Refused("no".into()),
            Reply::Explained(None),
            Reply::Explained(Some(explanation.clone())),
            Reply::Totals(Vec::new()),
            Reply::Totals(vec![Total { explanation, sleeps: 3, ns: 1 << 40 }]),
        ] {
            let bytes = reply.to_bytes();
            assert_eq!(Reply::of_bytes(&bytes[..bytes.len() - 1]), None, "{reply:?}, cut");
            assert_eq!(Reply::of_bytes(&bytes), Some(reply));
        }
        for nonsense in [&b""[..], b"x", b"t1", b"r", b"e\x02", b"e\x01\xff\0\0\0\0", b"t\xff\xff\xff\xff"] {
            assert_eq!(
                (Request::of_bytes(nonsense), Reply::of_bytes(nonsense)),
                (None, None),
                "{nonsense:?}"
            );
        }
    }
}
