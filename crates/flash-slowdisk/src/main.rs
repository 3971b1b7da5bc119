//! The command `flash-slowdisk`: mounts what its flags say, waits until it is told to end or somebody else unmounts,
//! and unmounts. What the disk does is the library's; what it is told while it runs goes through its control file.

#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;
use flash_slowdisk::{CONTROL, SlowDisk, SlowImage};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Show a folder through a slow and faulty disk
///
/// Mounts a read-only copy of a folder. Rules decide how long an operation takes, and whether it fails or hangs. Unmounts on
/// SIGTERM or SIGINT. Needs root and /dev/fuse.
#[derive(Debug, Parser)]
#[command(name = "flash-slowdisk", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Flags {
    /// The folder to show
    folder: PathBuf,
    /// Where to mount it; may be the folder itself
    mountpoint: PathBuf,
    /// A rule to begin with; repeatable
    #[arg(long = "rule", value_name = "LINE")]
    rules: Vec<String>,
    /// How many operations the disk does at a time
    #[arg(long, value_name = "N")]
    concurrent: Option<usize>,
    /// Copy the folder into an ext4 image of so many MiB on the slow disk, and mount that
    #[arg(long, value_name = "MIB")]
    image: Option<u32>,
}

const AFTER_HELP: &str = "\
Rules:   [KIND] delay fixed:5ms|uniform:1ms-20ms|exp:8ms [PATTERN]
         [KIND] hang | fail EIO | short BYTES [PATTERN]
         concurrent N | ttl TIME | direct-io on|off | remove RULE | clear
KIND:    lookup getattr open read readdir readlink statfs
PATTERN: prefix /a/ | glob /a/*.b | fraction 0.01 [seed N]
While it runs, write such lines to the file .slowdisk at its root, or read them there.";

fn main() -> ExitCode {
    let flags = match Flags::try_parse() {
        Ok(flags) => flags,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            error.exit()
        }
        Err(error) => return fail(2, &first_paragraph(&error.to_string())),
    };
    match run(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => fail(2, &error.to_string()),
        Err(error) => fail(1, &error.to_string()),
    }
}

fn run(flags: &Flags) -> io::Result<()> {
    // Before the mount is there, so that no signal can leave it behind.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let mut rules = flags.rules.join("\n");
    if let Some(number) = flags.concurrent {
        rules += &format!("\nconcurrent {number}");
    }
    let disk = match flags.image {
        None => Disk::Folder(SlowDisk::mount(&flags.folder, &flags.mountpoint, &rules)?),
        Some(mib) => Disk::Image(SlowImage::mount(&flags.folder, &flags.mountpoint, mib, &rules)?),
    };
    let control = disk.below().mountpoint().join(CONTROL);
    let (folder, at) = (flags.folder.display(), disk.mountpoint().display());
    let _ = writeln!(io::stdout(), "flash-slowdisk: {folder} at {at}, control {}", control.display());
    while signals.pending().next().is_none() && disk.is_mounted() {
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

enum Disk {
    Folder(SlowDisk),
    Image(SlowImage),
}

impl Disk {
    fn mountpoint(&self) -> &Path {
        match self {
            Disk::Folder(disk) => disk.mountpoint(),
            Disk::Image(image) => image.mountpoint(),
        }
    }

    fn is_mounted(&self) -> bool {
        match self {
            Disk::Folder(disk) => disk.is_mounted(),
            Disk::Image(image) => image.is_mounted(),
        }
    }

    /// The disk that has the rules.
    fn below(&self) -> &SlowDisk {
        match self {
            Disk::Folder(disk) => disk,
            Disk::Image(image) => image.disk(),
        }
    }
}

/// One line on standard output.
fn fail(code: u8, what: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "flash-slowdisk: {what}");
    ExitCode::from(code)
}

/// Of what clap says in paragraphs: what is wrong, on one line.
fn first_paragraph(text: &str) -> String {
    let words: Vec<&str> = text.split("\n\n").next().unwrap_or_default().split_whitespace().collect();
    words.join(" ").replacen("error: ", "", 1)
}
