//! What is asked of a new [socket](crate::socket), and what is told of its peer.

/// Whether calls on it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    Yes,
    /// They say when they would have to.
    No,
}

/// The process at the other end of a Unix socket, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub user: u32,
    /// Not every system tells.
    pub process: Option<i32>,
}
