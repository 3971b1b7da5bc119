//! Where experiments are made.

use std::path::Path;

use flash_rig::Machine;

/// The machine, and folders on it.
#[derive(Clone, Copy)]
pub struct TestBed<'a> {
    pub machine: &'a Machine,
    /// A folder on the disk that is to be measured.
    pub work: &'a Path,
    /// Real logs.
    pub traces: Option<&'a Path>,
    /// The Flash to measure, if it is not the one beside this program.
    pub flash: Option<&'a Path>,
    pub seed: u64,
}
