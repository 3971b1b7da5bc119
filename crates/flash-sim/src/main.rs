//! provisional
#![forbid(unsafe_code)]
mod workload;
fn main() {}
