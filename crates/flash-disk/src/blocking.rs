//! Whether a call may wait. How a call keeps to it is each module's own matter.

/// Whether a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// Only what the dentry and page caches hold.
    Never,
    /// For as long as it takes, but for no other device than the one that the name is on.
    ThisDevice,
    Anywhere,
}

impl Blocking {
    pub(crate) fn waits(self) -> bool {
        self != Self::Never
    }
}
