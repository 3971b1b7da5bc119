//! Random bytes of the system.

use std::io;

use crate::system;

/// Fills at most 256 bytes, which come at once.
///
/// # Errors
/// If the system has none.
pub fn fill(bytes: &mut [u8]) -> io::Result<()> {
    system::random::fill(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let fresh = || {
            let mut bytes = [0; 32];
            fill(&mut bytes).unwrap();
            bytes
        };
        let (one, other) = (fresh(), fresh());
        assert!(one != other && one != [0; 32]);
    }
}
