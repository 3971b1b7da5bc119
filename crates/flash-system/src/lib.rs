//! What experiments and checks need of the machine below them: programs, which are found or installed, and folders for what
//! they make. Servers, limits and disks belong to flash-rig.

#![forbid(unsafe_code)]

pub mod folder;
mod programs;

pub use programs::{Missing, apt_get, find, find_module, find_newest, find_own, install};
