//! The architectures.
