//! An exchange's number on its connection. Each job and each upstream carries it, and so does each result.

/// An exchange's number on its connection. Flash drops a result whose exchange is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExchangeId(u32);

impl ExchangeId {
    /// The next one's number.
    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}
