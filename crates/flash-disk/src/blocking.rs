//! Whether a call may wait. Each module decides how it keeps to that.

/// Whether a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// The call uses only what the dentry and page caches hold.
    Never,
    /// The call may wait for the device that the name is on, and for no other.
    ThisDevice,
    Anywhere,
}

impl Blocking {
    pub(crate) fn waits(self) -> bool {
        self != Self::Never
    }
}
