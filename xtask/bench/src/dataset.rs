//! The files that are served, made once below the target folder, on a real disk, and used again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flash_rig::interrupt;
use rustix::fs::statfs;

pub(crate) const COLD_FILES: usize = 60_000;
const COLD_FILE_BYTES: usize = 16_384;
const COLD_FOLDERS: usize = 240;
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Makes the cached cases' files in `folder`; each is HTML by its name and letters by its content.
pub(crate) fn cached(folder: &Path, files: &[(&str, usize)]) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (name, bytes) in files {
        let file = folder.join(name);
        if fs::metadata(&file).map(|found| found.len()).ok() != Some(*bytes as u64) {
            fs::write(&file, content(*bytes, 0))?;
        }
    }
    Ok(())
}

/// Makes the cold files and one hot file, and returns the cold paths, shuffled, always the same way.
pub(crate) fn cold(folder: &Path) -> Result<Vec<String>> {
    fs::create_dir_all(folder)?;
    if statfs(folder)?.f_type as i64 == TMPFS_MAGIC {
        bail!("{} lies in memory, not on a disk: set CARGO_TARGET_DIR to a folder on one", folder.display());
    }
    cached(folder, &[("hot.html", 1024)])?;
    let made = folder.join("made");
    if !made.exists() {
        println!("making {COLD_FILES} files of {} KB in {} (once)", COLD_FILE_BYTES / 1024, folder.display());
        for n in 0..COLD_FILES {
            let file = PathBuf::from(format!("{}{}", folder.display(), path(n)));
            if n < COLD_FOLDERS {
                fs::create_dir_all(file.parent().context("a file has a folder")?)?;
                interrupt::check()?;
            }
            fs::write(&file, content(COLD_FILE_BYTES, n))
                .with_context(|| format!("writing {}", file.display()))?;
        }
        fs::File::create(&made)?.write_all(b"complete\n")?;
    }
    let mut paths: Vec<String> = (0..COLD_FILES).map(path).collect();
    shuffle(&mut paths);
    Ok(paths)
}

/// `/a17/b03/c00017.bin`: nested, so that a cold name costs look-ups too.
fn path(n: usize) -> String {
    let folder = n % COLD_FOLDERS;
    format!("/a{:02}/b{:02}/c{n:05}.bin", folder / 16, folder % 16)
}

fn content(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|n| if n % 64 == 63 { b'\n' } else { b'a' + ((n / 64 + seed) % 26) as u8 }).collect()
}

/// Fisher and Yates with a small generator of fixed seed: every server gets the same questions in one order.
fn shuffle(paths: &mut [String]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for n in (1..paths.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        paths.swap(n, (state % (n as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn cold_paths_differ_and_stay_below_their_folders() {
        let mut paths: Vec<String> = (0..COLD_FILES).map(path).collect();
        let folders: HashSet<_> =
            paths.iter().map(|path| path.rsplit_once('/').expect("a folder").0.to_owned()).collect();
        assert_eq!(folders.len(), COLD_FOLDERS);
        shuffle(&mut paths);
        assert_eq!(paths.iter().collect::<HashSet<_>>().len(), COLD_FILES);
        assert_ne!(paths[0], path(0));
    }
}
