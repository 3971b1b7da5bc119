//! The site that is served. Files that never change are made once below the target folder, on a real disk, and used again.
//! Files that change, and programs, are made again for each architecture.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use flash_rig::{Disk, interrupt};
use flash_system::folder;
use flash_traffic::content::Content;

use super::live::Live;

/// More than the pathname cache holds, and with their 20 KB on average more than the file cache does.
pub(crate) const COLD_FILES: usize = 8_000;
pub(crate) const COLD_FOLDERS: usize = 64;
/// Of the folder that is listed.
pub(crate) const NAMES: usize = 20_000;
/// Around each size at which Flash sends a body in another way. The ways are: in its head's buffer (4 KiB), from a copy in the
/// heap (256 KiB), from a snapshot (4 MiB), and in windows.
const SIZES: [u64; 17] = [
    0,
    1,
    1_000,
    4_095,
    4_096,
    4_097,
    65_536,
    262_143,
    262_144,
    262_145,
    1 << 20,
    (4 << 20) - 1,
    4 << 20,
    (4 << 20) + 1,
    9_000_001,
    20_000_000,
    60 << 20,
];
/// Changes with what is made, so that an older tree is made anew.
const MADE: &str = "made-1";
const PIECE_BYTES: usize = 1 << 20;

/// A file that stays as it is.
#[derive(Clone, Debug)]
pub(crate) struct Still {
    pub(crate) target: String,
    pub(crate) bytes: u64,
}

/// Where everything is.
pub(crate) struct Site {
    pub(crate) root: PathBuf,
    pub(crate) programs: PathBuf,
    /// By size.
    pub(crate) sized: Vec<Still>,
    pub(crate) live: Vec<Live>,
}

impl Site {
    /// Makes what is not there yet, and everything that changes anew.
    pub(crate) fn make(soak: &Path) -> Result<Site> {
        let root = soak.join("site");
        fs::create_dir_all(&root)?;
        Disk::below(&root).context("files must be cold: set CARGO_TARGET_DIR to a folder on a disk")?;
        let sized: Vec<Still> = SIZES.iter().map(|&bytes| sized(bytes)).collect();
        if !soak.join(MADE).exists() {
            println!("making {} files in {} (once)", COLD_FILES + NAMES + SIZES.len(), root.display());
            for still in sized.iter().chain(&(0..COLD_FILES).map(cold).collect::<Vec<_>>()) {
                interrupt::check()?;
                write(&root, still)?;
            }
            fs::create_dir_all(root.join("names"))?;
            for number in 0..NAMES {
                fs::write(root.join("names").join(name(number)), "")?;
            }
            fs::write(soak.join(MADE), "complete\n")?;
        }
        let live = root.join("live");
        folder::make_empty(&live)?;
        let programs = soak.join("programs");
        make_programs(&programs, &root)?;
        Ok(Site { live: Live::make_all(&live)?, root, programs, sized })
    }
}

fn sized(bytes: u64) -> Still {
    Still { target: format!("/sized/{bytes}.bin"), bytes }
}

/// 200 bytes to 40 KB.
pub(crate) fn cold(number: usize) -> Still {
    let bytes = 200 + (number as u64 * 7_919) % 39_800;
    Still { target: format!("{}c{number:05}.bin", cold_folder(number % COLD_FOLDERS)), bytes }
}

pub(crate) fn cold_folder(number: usize) -> String {
    format!("/cold/a{number:02}/")
}

pub(crate) fn name(number: usize) -> String {
    format!("a-name-among-many-{number:05}.txt")
}

fn write(root: &Path, still: &Still) -> Result<()> {
    let path = root.join(&still.target[1..]);
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    let bytes = usize::try_from(still.bytes)?;
    let mut content = Vec::with_capacity(bytes);
    while content.len() < bytes {
        let mut piece = vec![0; PIECE_BYTES.min(bytes - content.len())];
        Content::new(0, &still.target).fill(content.len() as u64, &mut piece);
        content.extend(piece);
    }
    fs::write(&path, content).with_context(|| format!("writing {}", path.display()))
}

/// A program that says back what it is told, one that sends a file, and one that takes its time.
fn make_programs(folder: &Path, root: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let file = root.join(&sized(1 << 20).target[1..]);
    let head = "#!/bin/sh\nprintf 'Content-Type: application/octet-stream\\r\\n\\r\\n'\n";
    for (name, body) in [
        ("echo", "exec cat".to_owned()),
        ("file", format!("exec cat '{}'", file.display())),
        ("late", "sleep 2; echo late".to_owned()),
    ] {
        let path = folder.join(name);
        fs::write(&path, format!("{head}{body}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// What the program that sends a file sends.
pub(crate) fn program_file() -> Still {
    sized(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_surround_the_thresholds_and_exceed_the_caches() {
        for threshold in [4 << 10, 256 << 10, 4 << 20] {
            assert!([threshold - 1, threshold, threshold + 1].iter().all(|size| SIZES.contains(size)));
        }
        let bytes: u64 = (0..COLD_FILES).map(|number| cold(number).bytes).sum();
        assert!(bytes > 128 << 20 && COLD_FILES > 6_000, "{bytes}");
        assert_eq!(cold(65).target, "/cold/a01/c00065.bin");
    }
}
