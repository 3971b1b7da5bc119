//! What a policy is to those who compare it.

/// A cache of whole files.
pub(super) trait Cache {
    /// A request. Returns whether the file was there, and keeps it from now on if that is worth it.
    fn request(&mut self, file: u32, bytes: u64) -> bool;
}
