//! The limits of helpers: how many there are, how many jobs wait for them, and which jobs they get.

/// The limits of each pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperLimits {
    /// The helpers of one device.
    pub helpers_max: usize,
    /// Jobs that wait for a helper of one device. One more is refused.
    pub queue_max: usize,
    /// Do equal jobs once. Off for experiments.
    pub single_flight: bool,
    pub offload: Offload,
}

/// Which jobs go to helpers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// Jobs that would make the loop wait.
    #[default]
    Needed,
    /// All jobs, though many could be done at once. For experiments.
    Always,
    /// All jobs but finding and opening files. The loop waits for these, as in the Flash of 1999. For experiments.
    NotOpening,
}

/// The lowest priority. If processors are short, threads that must not wait run first.
pub(crate) const HELPER_NICE: i32 = 19;
