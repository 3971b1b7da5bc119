//! What the command lines of all programs have in common: how words are read, how errors look, and manual pages.
//!
//! An error is one line on standard error: the program, what failed, and why. Exit code 2 means that the command line is wrong, 1
//! that it cannot be done. What a program's flags are is its own affair.

#![forbid(unsafe_code)]

mod failure;
mod finish;
mod manual;
mod print;
mod read;

pub use failure::Failure;
pub use finish::finish;
pub use manual::page;
pub use print::{Stdout, print, reader_left, say};
pub use read::{command_name, help_width, one_line, read};
