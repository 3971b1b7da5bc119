//! What a session tells its user.

use crate::priority::Priority;
use crate::streams::Stream;

/// What a client's bytes mean for the session's user.
#[derive(Debug)]
pub enum Event<'i, T> {
    /// A request. Its head is in the scratch.
    Request { stream: u32, priority: Priority, ends_stream: bool },
    /// A request whose head is beyond the limits.
    TooLarge { stream: u32, ends_stream: bool },
    /// A piece of a request's body, which may be empty. The user says when it is done with the bytes.
    Data { stream: u32, bytes: &'i [u8], ends_stream: bool },
    /// The body has ended with trailer fields, whose lines are in the scratch.
    End { stream: u32 },
    /// A stream is over, because the client has reset it, or has broken a rule.
    Reset(Box<Stream<T>>),
    /// A window may have grown.
    Window,
    /// The client has answered a ping.
    Pong,
}
