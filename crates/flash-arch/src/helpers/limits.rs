//! The limits of helpers: how many there are, and how many jobs wait for them.

/// The limits of each pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperLimits {
    /// The helpers of one device.
    pub helpers_max: usize,
    /// Jobs that wait for a helper of one device. One more is refused.
    pub queue_max: usize,
}
