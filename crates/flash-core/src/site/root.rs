//! The root that a site is served from, as the request path knows it: a generation.
//!
//! DIR may lead to another folder later, as after a deploy. Each folder that it leads to is a root of its own, with the next
//! generation. An entry or a listing that is older than the present generation answers no request. The disk side finds out
//! that there is a new root, and opens it.

use std::any::Any;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// The generation of the present root. Every look-up reads it, and only a deploy writes it.
///
/// It has no cache line of its own, because a server may have a hundred thousand of them. What lies beside it was made with it,
/// at the start or at a reload, and is not written either.
#[derive(Debug, Default)]
pub struct Generation(AtomicU64);

/// A root held open, as the disk side made it. The request path passes it on.
pub trait OpenRoot: Any + Debug + Send + Sync {
    fn generation(&self) -> u64;
}

impl Generation {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// From now on what is older answers no request.
    pub fn set(&self, generation: u64) {
        self.0.store(generation, Ordering::Release);
    }
}
