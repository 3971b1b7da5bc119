//! Thin safe wrappers for the system calls that `rustix` lacks or leaves unsafe: the only unsafe code of Flash.
//!
//! Each wrapper does one thing and decides nothing. Every unsafe block says why it is sound.

pub mod deferral;
pub mod residency;
pub mod rusage;
pub mod slice;
pub mod user;
pub mod worker;
