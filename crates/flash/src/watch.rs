//! `flash reload --watch`: asks a server for a reload whenever its configuration file has changed.
//!
//! It looks at the file again and again, and asks the kernel for no events. A Kubernetes ConfigMap is a link to a folder,
//! whose replacement is no event of the file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::administer;
use crate::failure::Failure;
use crate::flags::Administered;

const LOOK: Duration = Duration::from_secs(2);

/// Which file it is, and which version of it.
#[derive(PartialEq, Eq)]
struct Version {
    path: PathBuf,
    inode: u64,
    changed: (i64, i64),
}

/// Runs until SIGTERM or SIGINT. The first reload comes at once: the file may have changed since the server read it.
pub(crate) fn run(to: &Administered) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|error| Failure::Run(format!("cannot handle signals: {error}")))?;
    thread::spawn(move || {
        signals.forever().next();
        std::process::exit(0);
    });
    let (mut known, mut said) = (None, String::new());
    loop {
        let now = version(&to.config);
        if now.is_some() && now != known {
            // A server that cannot be reached may not have started yet. One that refuses the file gets no second request.
            let asked = administer::post(to, "/reload");
            if asked.is_ok() {
                known = now;
            }
            if let Err(failure) = asked.and_then(|answer| answer.print()) {
                say(&mut said, failure.to_string());
            } else {
                said.clear();
            }
        }
        thread::sleep(LOOK);
    }
}

/// `None` while there is no such file.
fn version(file: &Path) -> Option<Version> {
    let path = file.canonicalize().ok()?;
    let metadata = fs::metadata(&path).ok()?;
    Some(Version { path, inode: metadata.ino(), changed: (metadata.ctime(), metadata.ctime_nsec()) })
}

/// Prints a failure, but not the same one twice in a row.
fn say(said: &mut String, failure: String) {
    if *said != failure {
        flash_cli::say(format_args!("flash: {failure}"));
        *said = failure;
    }
}
