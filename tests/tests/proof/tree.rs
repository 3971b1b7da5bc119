//! A tree of very many small files, and a few large ones, on a filesystem of its own. So dropping its caches makes only this
//! tree cold.
//!
//! It is an ordinary ext4, with a journal and access times, on a loop device that reads past the page cache. So the disk must
//! read again what the kernel drops.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use flash_slowdisk::Cleanup;
use tempfile::TempDir;

pub(crate) struct Tree {
    pub(crate) files: usize,
    pub(crate) root: TempDir,
    _cleanup: Cleanup,
}

const FILES_PER_FOLDER: usize = 1000;
const FILE_BYTES: usize = 100;
/// The last file of each folder is too large for a copy in the heap. In every tenth folder it is too large for any copy, and is
/// sent in windows.
const LARGE_FILE_BYTES: usize = 512 << 10;
const LARGEST_FILE_BYTES: usize = 5 << 20;
/// A block for each file's bytes, half of that for its inode and its name, and as much for its share of the large ones.
const IMAGE_BYTES_PER_FILE: usize = 8 << 10;
const IMAGE_BYTES_MORE: usize = 256 << 20;

impl Tree {
    pub(crate) fn make(files: usize) -> io::Result<Tree> {
        let root = tempfile::Builder::new().prefix("flash-proof-").tempdir()?;
        let point = root.path().as_os_str();
        let image = tempfile::NamedTempFile::new()?;
        image.as_file().set_len((files * IMAGE_BYTES_PER_FILE + IMAGE_BYTES_MORE) as u64)?;
        let inodes = (files + files / 50 + 1000).to_string();
        let format = ["-q", "-F", "-b", "4096", "-m", "0", "-N", &inodes, "-E", "lazy_itable_init=0"];
        run(Command::new("mke2fs").args(["-t", "ext4"]).args(format).arg(image.path()))?;
        let guard = Cleanup::new("umount -l \"$1\"; rmdir \"$1\"", &[point])?;
        let attach = ["--find", "--show", "--direct-io=on"];
        let device = run(Command::new("losetup").args(attach).arg(image.path()))?;
        let mounted = run(Command::new("mount").args(["-t", "ext4", &device]).arg(point));
        // A device that is detached while it is in use goes with its last user, and the image with the device.
        run(Command::new("losetup").args(["--detach", &device]))?;
        mounted?;
        let tree = Tree { files, root, _cleanup: guard };
        tree.fill()?;
        Ok(tree)
    }

    fn fill(&self) -> io::Result<()> {
        let folders = self.files.div_ceil(FILES_PER_FOLDER);
        let (next, workers) = (AtomicUsize::new(0), thread::available_parallelism()?.get());
        let fill_some = || -> io::Result<()> {
            loop {
                let folder = next.fetch_add(1, Ordering::Relaxed);
                if folder >= folders {
                    return Ok(());
                }
                fs::create_dir_all(self.on_disk(&folder_of(folder)))?;
                for file in (folder * FILES_PER_FOLDER..self.files).take(FILES_PER_FOLDER) {
                    fs::write(self.on_disk(&path(file)), content(file))?;
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..workers).map(|_| scope.spawn(fill_some)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
        })?;
        self.allow_everybody()?;
        rustix::fs::syncfs(fs::File::open(self.root.path())?)?;
        Ok(())
    }

    /// Temporary folders are their owner's alone, and the server may run as somebody else.
    fn allow_everybody(&self) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(self.root.path(), fs::Permissions::from_mode(0o755))
    }

    /// Puts a new file with the same bytes in the place of an old one, durably: a journal at work.
    pub(crate) fn replace(&self, file: usize) -> io::Result<()> {
        let (place, new) = (self.on_disk(&path(file)), self.on_disk("/new"));
        fs::write(&new, content(file))?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(new, place)
    }

    fn on_disk(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(&path[1..])
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg("-l").arg(self.root.path())) {
            eprintln!("{} stays behind: {error}", self.root.path().display());
        }
    }
}

/// The path of a file, below six folders.
pub(crate) fn path(file: usize) -> String {
    format!("{}/page-{file}.html", folder_of(file / FILES_PER_FOLDER))
}

fn folder_of(folder: usize) -> String {
    format!("/site/{}/{}/{folder}/deep/down", folder / 100, folder / 10)
}

/// What a file says: its own name, again and again.
pub(crate) fn content(file: usize) -> Vec<u8> {
    let line = format!("{:<width$}\n", path(file), width = FILE_BYTES - 1);
    let bytes = match file % (10 * FILES_PER_FOLDER) {
        at if at + 1 == 10 * FILES_PER_FOLDER => LARGEST_FILE_BYTES,
        at if at % FILES_PER_FOLDER + 1 == FILES_PER_FOLDER => LARGE_FILE_BYTES,
        _ => FILE_BYTES,
    };
    line.repeat(bytes / FILE_BYTES).into_bytes()
}

/// The large file of the same folder, if it is there.
pub(crate) fn large_beside(file: usize, files: usize) -> usize {
    (file - file % FILES_PER_FOLDER + FILES_PER_FOLDER - 1).min(files - 1)
}

/// Makes everything cold that is not in use. Costs the whole machine its caches, and no more.
pub(crate) fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").expect("the superuser may drop caches");
}

/// Why there can be no such tree here, if there cannot.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("mounting and dropping caches take the superuser".into());
    }
    let control = Path::new("/dev/loop-control");
    let programs = ["mke2fs", "losetup", "mount", "umount"].map(OsStr::new);
    match fs::File::open(control) {
        Err(error) => Some(format!("{}: {error}", control.display())),
        Ok(_) => programs.iter().find_map(|program| {
            let tried = Command::new(program).arg("-V").output();
            tried.err().map(|error| format!("{}: {error}", program.display()))
        }),
    }
}

/// Runs a program, and returns the one line that it prints.
fn run(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if !output.status.success() {
        let (name, said) = (command.get_program().display(), String::from_utf8_lossy(&output.stderr));
        return Err(io::Error::other(format!("{name}: {}", said.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}
