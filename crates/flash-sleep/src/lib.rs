//! What a sleep in the kernel means: its [`Cause`] by the kernel's functions.
//!
//! This is the one table of stacks in the project. `flash why`, the proof and the server's own reports of blocks use it, so
//! that they call the same sleep by the same name.
//!
//! It leaves out how stacks are collected: it knows names only, and makes no system call.

#![forbid(unsafe_code)]

mod cause;
mod entry;
mod rules;
mod stack;
mod symbols;
#[cfg(test)]
mod tests;

pub use cause::{Cause, is_remote};
pub use entry::entered_call;
pub use stack::{FAULT_ENTRY, Stack};
pub use symbols::function_names;
