//! Thin safe wrappers for the system calls that `rustix` lacks or leaves unsafe: the only unsafe code of Flash.
//!
//! Each wrapper does one thing and decides nothing. The queue, the channel, the semaphore and the heap, which an event
//! loop can use without blocking, live here too. Every unsafe block says why it is sound.

pub mod activation;
pub mod allocator;
pub mod cachestat;
pub mod channel;
mod clock;
pub mod cpu_clock;
pub mod descriptor;
mod descriptor_range;
pub mod exec;
pub mod file_hints;
pub mod file_stat;
pub mod folder_entries;
pub mod fork;
pub mod memory_file;
pub mod mounts;
pub mod mpsc;
mod operations;
pub mod page;
pub mod pidfd;
pub mod poller;
pub mod preload;
pub mod probe;
pub mod process;
pub mod random;
pub mod read_at;
mod readiness;
pub mod record_lock;
pub mod residency;
pub mod ring;
pub mod sandbox;
pub mod sched;
pub mod semaphore;
pub mod send_file;
pub mod shared_array;
pub mod shared_heap;
pub mod shared_text;
pub mod signals;
mod sleep;
pub mod socket;
mod socket_kind;
pub mod spawn;
pub mod system_calls;
pub mod tcp;
pub mod thread_usage;
pub mod unset_buf;
pub mod user;
pub mod waker;
pub mod walk;

#[cfg(any(not(target_os = "linux"), all(test, feature = "libkqueue")))]
mod bsd;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::namespace;
mod posix;
#[cfg(not(target_os = "linux"))]
use bsd as system;
/// The system that this is built for.
#[cfg(target_os = "linux")]
use linux as system;
pub use system::perf_event;
