//! What is read instead of a response.

/// Why bytes are no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad;
