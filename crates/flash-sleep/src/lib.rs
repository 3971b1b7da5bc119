//! What a sleep in the kernel means: its [`Cause`] by the kernel's functions, and its [`Call`] in words.
//!
//! This is the one table of stacks in the project. `flash why`, the proof and the server's own reports of blocks use it, so
//! that they call the same sleep by the same name.
//!
//! It leaves out how stacks are collected: it knows names and numbers only, and makes no system call.

#![forbid(unsafe_code)]

mod call;
mod cause;
mod rules;
mod stack;
mod symbols;
#[cfg(test)]
mod tests;

pub use call::{CALLS, Call, Events};
pub use cause::{Cause, is_remote};
pub use stack::{FAULT_ENTRY, Stack};
pub use symbols::function_names;
