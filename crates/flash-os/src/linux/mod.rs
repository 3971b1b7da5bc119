//! What is Linux's own.

pub(crate) mod descriptor_range;
pub(crate) mod pidfd;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod sandbox;
pub(crate) mod vfork;
