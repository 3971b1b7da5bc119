//! Operations shared with the kernel in a ring, for one thread that serves many sockets: Linux's io_uring. Elsewhere there is none.

pub use crate::operations::{BROKEN, Completion, EXCLUSIVE, Outcome, READABLE, TAG_MAX, WRITABLE};
pub use crate::system::ring::Ring;
