//! Input that is not a valid response.

/// Why bytes are no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bad;
