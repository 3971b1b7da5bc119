//! `getdents64`.

pub use rustix::fs::RawDir as Entries;
