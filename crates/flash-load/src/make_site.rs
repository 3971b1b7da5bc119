//! `flash load make-site`: the files of a workload, written by [`flash_traffic::tree`], with progress.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use flash_cli::Failure;
use flash_traffic::tree::{Progress, make_site};

use crate::flags::MakeSite;

const LINE_EVERY: Duration = Duration::from_secs(1);

/// Makes the site, and says what was done.
pub(crate) fn make(flags: &MakeSite) -> Result<(), Failure> {
    let workload = flags.workload()?;
    let catalogue = workload.catalogue();
    let files = catalogue.files.len() as u64;
    let progress = Progress::default();
    let done = AtomicBool::new(false);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let made = thread::scope(|scope| {
        let reporter = scope.spawn(|| {
            loop {
                thread::park_timeout(LINE_EVERY);
                if done.load(Ordering::Relaxed) {
                    return;
                }
                if !flags.quiet {
                    let so_far =
                        progress.written.load(Ordering::Relaxed) + progress.kept.load(Ordering::Relaxed);
                    let mb = progress.bytes.load(Ordering::Relaxed) / 1_000_000;
                    flash_cli::say(format_args!("{so_far} of {files} files, {mb} MB"));
                }
            }
        });
        let made = make_site(&flags.folder, catalogue, flags.seed, &words.join(" "), &progress);
        done.store(true, Ordering::Relaxed);
        reporter.thread().unpark();
        made
    });
    let made = made.map_err(|error| Failure::Run(error.to_string()))?;
    if !flags.quiet {
        let folder = flags.folder.display();
        let (written, kept, mb) = (made.written, made.kept, made.bytes as f64 / 1e6);
        flash_cli::print(format!("{folder}: {written} files written, {kept} kept, {mb:.1} MB in all\n"))?;
    }
    Ok(())
}
