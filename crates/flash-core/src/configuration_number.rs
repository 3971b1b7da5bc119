//! The number of the configuration that a request began with.
//!
//! A reload makes a new configuration. Each site holds the number of its own, and each exchange holds its site. So a
//! configuration is in use as long as its number is held. What a configuration consists of is not known here.

/// Counts from 1, which is the configuration of the start.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigurationNumber(pub u64);

impl Default for ConfigurationNumber {
    fn default() -> Self {
        Self(1)
    }
}
