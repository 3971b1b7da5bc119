//! A root, as the daemon knows it: its name for askers, and which generation of it they know.

use std::sync::Arc;

use flash_core::site::root::Generation;

/// A root that askers may name.
#[derive(Debug)]
pub struct Root {
    pub(crate) path: Vec<u8>,
    pub(crate) generation: Arc<Generation>,
    /// The generation that askers know.
    pub(crate) told: u64,
}

impl Root {
    /// The path is what askers compare with their own, absolute and without a slash at its end.
    pub fn new(path: Vec<u8>, generation: Arc<Generation>) -> Self {
        let told = generation.get();
        Self { path, generation, told }
    }
}
