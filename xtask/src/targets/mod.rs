//! Other systems, C libraries and processors than this machine's: what compiles for them, and what runs.
//!
//! Rust's standard library is built for each from its source, which Debian has. It must be of the same version as a compiler here
//! that takes unstable flags (rustup's nightly): where there is none, nothing can be tried, and that is said.

mod musl;
mod processors;
mod systems;
mod toolchain;

pub(crate) use self::musl::run as musl;
pub(crate) use self::processors::run as processors;
pub(crate) use self::systems::run as systems;

pub(crate) const HELP: &str = "\
cargo xtask systems            checks that the server compiles for FreeBSD and macOS: five minutes
cargo xtask musl [--release]   builds the server as one static file, optimised as packages are, or quickly
cargo xtask processors         boots a machine for aarch64 in qemu's emulator, for the server and unit tests
";
