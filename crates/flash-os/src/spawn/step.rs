//! What a child does between its method and its program, and the limits that it sets itself.

/// A limit of the kernel's, for the program and whatever it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub resource: Resource,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Of memory, all that is mapped.
    MemoryBytes,
    /// Of processor time. The soft limit is a signal that can be caught, the hard one is not.
    CpuSeconds,
    Descriptors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A process more.
    Clone,
    /// A process group, and signals.
    Group,
    Descriptors,
    Limits,
    Folder,
    /// To become the program.
    Exec,
}
