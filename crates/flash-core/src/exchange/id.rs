//! An exchange's number on its connection. Each job and each upstream carries it, and so does each result.

/// An exchange's number on its connection. Flash drops a result whose exchange is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExchangeId(u32);

impl ExchangeId {
    /// No exchange's: what the connection itself has to do for bytes whose exchange may be over.
    pub(crate) const CONNECTION: Self = Self(0);

    /// The exchange on a stream of HTTP/2.
    pub(crate) fn of_stream(stream: u32) -> Self {
        Self(stream)
    }

    pub(crate) fn stream(self) -> u32 {
        self.0
    }

    /// The next one's number.
    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}
