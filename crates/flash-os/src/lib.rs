//! Thin safe wrappers for the system calls that `rustix` lacks or leaves unsafe: the only unsafe code of Flash.
//!
//! Each wrapper does one thing and decides nothing; the list, the semaphore and the memory that a loop can use without
//! ever waiting live here too. Every unsafe block says why it is sound.

pub mod block;
pub mod cachestat;
pub mod cpu_clock;
pub mod deferral;
pub mod letterbox;
pub mod mailbox;
pub mod namespace;
pub mod pin;
pub mod residency;
pub mod ring;
pub mod rusage;
pub mod semaphore;
pub mod slice;
pub mod spawn;
pub mod user;
pub mod worker;
pub mod written;
