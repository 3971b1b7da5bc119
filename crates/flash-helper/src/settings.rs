//! What askers may do. Everything that an asker can make grow has a limit here.

/// Whom the daemon answers, and how much at a time.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The users that may ask, by their numbers.
    pub users: Vec<u32>,
    /// Askers at once. One more is disconnected.
    pub askers_max: usize,
    pub quotas: Quotas,
}

/// The limits of each asker.
#[derive(Clone, Copy, Debug)]
pub struct Quotas {
    /// Questions without an answer. One more is answered with `BUSY`.
    pub questions_max: usize,
    /// Descriptors that have come with questions, or wait with answers.
    pub descriptors_max: usize,
    /// Bytes of memory that wait with answers, or are being read for them.
    pub bytes_max: u64,
}
