//! `flash why`: what puts a server's loops to sleep, how often, for how long, on which file, and who else waited.
//!
//! A [`Watch`] sees the sleeps of some processes' threads. A loop is a thread that waits for the events of several clients
//! (epoll, poll, select, io_uring), or would if it had the time. Every other sleep of it is a [`Block`], with its system call, file, kernel stack and [cause](flash_sleep::Cause).
//! A [`Summary`] sums blocks up, and becomes text, a page or lines of JSON.
//!
//! There are levels, by the rights of who asks: eBPF, perf events, or samples of `/proc`. It leaves out what a server did while it did not
//! sleep, and everything that would need the server's help.

#![forbid(unsafe_code)]

mod advice;
mod block;
mod call;
mod doing;
#[cfg(target_arch = "x86_64")]
mod ebpf;
mod error;
mod flame;
mod instance;
mod level;
mod live;
mod loops;
mod lost;
mod page;
mod perf;
mod proc;
#[cfg(target_arch = "x86_64")]
mod record;
mod sampler;
mod summary;
mod symbols;
mod target;
mod text;
mod tracepoint;
mod watch;

pub use block::{Block, Frames, Poller, ThreadTotals};
pub use call::{CALLS, Call, Events};
pub use error::Error;
pub use level::Level;
pub use live::Live;
pub use lost::Lost;
pub use page::page;
pub use summary::{Row, Summary};
pub use target::Target;
pub use text::{report, table};
pub use watch::Watch;
