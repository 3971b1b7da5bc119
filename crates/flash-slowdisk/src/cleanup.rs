//! A last will: a shell that does nothing until this process is gone, and cleans up then if the process could not.
//! A mount whose server was killed would else stay behind and refuse everything.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The end of a pipe is all that the shell waits for; a word before it means that nothing is left to do.
const WAIT: &str = "trap '' INT TERM HUP; read -r word && exit 0; ";

/// Waits for this process's end, unless it is dropped before.
pub struct Cleanup {
    shell: Child,
}

impl Cleanup {
    /// What shall be run should this process be killed; the script finds its words as `$1`, `$2` and so on.
    ///
    /// # Errors
    /// When no shell can be started.
    pub fn new(script: &str, words: &[&std::ffi::OsStr]) -> io::Result<Cleanup> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("{WAIT}{script}")).arg("flash-slowdisk-guard").args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A group of its own: what ends a terminal's or a test's processes all at once must not end it too.
        Ok(Cleanup { shell: command.process_group(0).spawn()? })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            // A shell that is gone already needs no word.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.shell.wait();
    }
}
