//! How many helpers a device has, how many jobs wait for them, and which jobs they get.

/// The limits of each pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperLimits {
    /// Of one device.
    pub helpers_max: usize,
    /// Jobs that wait for a helper of one device; one more is refused.
    pub queue_max: usize,
    /// Do equal jobs once. Off for experiments.
    pub single_flight: bool,
    pub offload: Offload,
}

/// Which jobs go to helpers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Those that would make the loop wait.
    #[default]
    Needed,
    /// All, though many could be done at once. For experiments.
    Always,
    /// All but finding and opening files, for which the loop waits: the flaw of the Flash of 1999. For experiments.
    NotOpening,
}

/// The lowest priority: where processors are short, threads that must not wait come first.
pub(crate) const HELPER_NICE: i32 = 19;
