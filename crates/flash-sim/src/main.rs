//! provisional
#![forbid(unsafe_code)]
mod failure;
mod scenario;
mod workload;
fn main() {}
