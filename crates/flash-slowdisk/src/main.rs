//! The program `flash-slowdisk`, which `flash slowdisk` runs: mounts what its flags say, waits until it is told to end or somebody else unmounts,
//! and unmounts. What the disk does is the library's; what it is told while it runs goes through its control file.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;
use flash_cli::Failure;
use flash_slowdisk::{CONTROL, SlowDisk, SlowImage};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Show a folder through a slow and faulty disk
///
/// Mounts a read-only copy of a folder. Rules decide how long an operation takes, and whether it fails or hangs. Unmounts on
/// SIGTERM or SIGINT. Needs root and /dev/fuse.
#[derive(Debug, Parser)]
#[command(name = "flash slowdisk", bin_name = "flash slowdisk", version, after_help = AFTER_HELP)]
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
Rules:
  [KIND] delay fixed:5ms|uniform:1ms-20ms|exp:8ms [PATTERN]
  [KIND] hang | fail EIO | short BYTES [PATTERN]
  arm hp97560|deskstar [fifo|c-look|shortest [DEPTH]] | arm off   (with --image)
  concurrent N | ttl TIME | direct-io on|off | remove RULE | clear
  KIND:    lookup getattr open read readdir readlink statfs
  PATTERN: prefix /a/ | glob /a/*.b | fraction 0.01 [seed N]

While it runs, write such lines to the file .slowdisk at its root, or read them there.";

fn main() -> ExitCode {
    let done = flash_cli::read(std::env::args_os()).and_then(|flags| {
        run(&flags).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => Failure::Usage(error.to_string()),
            _ => Failure::Run(error.to_string()),
        })
    });
    flash_cli::finish("flash slowdisk", done)
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
    let line = format!("flash slowdisk: {folder} at {at}, control {}\n", control.display());
    flash_cli::print(line).map_err(io::Error::other)?;
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
