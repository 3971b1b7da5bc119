//! The names in a folder, as many at a time as one call finds room for. Between calls the open folder keeps the position.

pub use crate::system::folder_entries::Entries;
