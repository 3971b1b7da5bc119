//! The classes of durations in histograms.

/// The upper bounds of the classes of durations. Downloads take minutes.
pub const DURATION_BOUNDS_US: [u64; 22] = [
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    150_000_000,
    300_000_000,
    600_000_000,
];

/// How many classes there are.
pub(super) const DURATIONS: usize = DURATION_BOUNDS_US.len() + 1;

/// The class of a duration.
pub(super) fn class_of(duration_us: u64) -> usize {
    DURATION_BOUNDS_US.iter().position(|bound| duration_us <= *bound).unwrap_or(DURATION_BOUNDS_US.len())
}
