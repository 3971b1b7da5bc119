//! What is Linux's own.

pub(crate) mod probe;
pub(crate) mod sandbox;
