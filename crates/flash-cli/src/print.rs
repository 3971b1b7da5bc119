//! Standard output.

use std::io::{self, ErrorKind, Write};

use crate::Failure;

/// Writes to standard output. A reader that has seen enough (`flash man | head`) is no failure.
pub fn print(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
