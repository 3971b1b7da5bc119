//! What distinguishes one version of a file from another.

/// What distinguishes one version of a file from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Nanoseconds since the Unix epoch, as in the next field.
    pub modified_ns: i64,
    pub changed_ns: i64,
}

impl Stamp {
    pub fn modified_seconds(&self) -> i64 {
        self.modified_ns.div_euclid(1_000_000_000)
    }

    /// Whether the content is still that of `self`. The change time does not count: a rename changes it, and a replaced
    /// file is still worth sending to its end.
    pub fn same_content(&self, later: &Stamp) -> bool {
        (self.inode, self.size, self.modified_ns) == (later.inode, later.size, later.modified_ns)
    }
}
