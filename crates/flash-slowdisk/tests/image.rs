//! The slow local disk: an ext4 whose names, inodes and pages come from a slow disk when they are cold.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{IoSliceMut, Read};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flash_slowdisk::{Kind, SlowDisk, SlowImage};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tempfile::TempDir;

/// As ext4 calls itself in `statfs`.
const EXT4_MAGIC: u64 = 0xEF53;
const READ: Duration = Duration::from_millis(40);

/// A folder and a place to mount its image; none, and a line about it, where nothing can be mounted.
fn place() -> Option<(TempDir, TempDir)> {
    let mut missing = flash_slowdisk::missing();
    for program in ["mke2fs", "losetup"] {
        let found =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        missing = missing.or(found.err().map(|error| format!("{program}: {error}")));
    }
    missing = missing.or((!Path::new("/dev/loop-control").exists()).then(|| "no loop devices".into()));
    if let Some(missing) = missing {
        eprintln!("NOT TESTED, no slow image can be mounted: {missing}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    for n in 0..200 {
        let below = folder.path().join(format!("d{}/e{}", n % 7, n % 11));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join(format!("{n}.txt")), format!("file {n}\n").repeat(3000)).unwrap();
    }
    Some((folder, tempfile::tempdir().unwrap()))
}

fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
}

/// Opens what the kernel has at hand, or `AGAIN`.
fn open_cached(path: &Path) -> Result<OwnedFd, Errno> {
    openat2(CWD, path, OFlags::RDONLY, Mode::empty(), ResolveFlags::CACHED)
}

fn read_cached(file: &OwnedFd) -> Result<usize, Errno> {
    preadv2(file, &mut [IoSliceMut::new(&mut [0; 100])], 0, ReadWriteFlags::NOWAIT)
}

/// Mounts and loop devices that point into this folder.
fn traces(folder: &Path, of: &str) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let loops = Command::new("losetup").arg("--list").output().unwrap();
    let text = mounts + &String::from_utf8_lossy(&loops.stdout);
    let ours = |line: &&str| line.contains(folder.to_str().unwrap()) || line.contains(of);
    text.lines().filter(ours).map(Into::into).collect()
}

fn wait_until_no_trace(folder: &Path, of: &str) {
    let given_up = Instant::now() + Duration::from_secs(20);
    while let left @ [_, ..] = &traces(folder, of)[..] {
        assert!(Instant::now() < given_up, "{left:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_cold_open_is_slow_and_a_warm_one_is_not() {
    let Some((folder, mountpoint)) = place() else { return };
    let image = SlowImage::mount(folder.path(), mountpoint.path(), 16, "").unwrap();
    assert_eq!(rustix::fs::statfs(image.mountpoint()).unwrap().f_type as u64, EXT4_MAGIC);
    let path = image.mountpoint().join("d5/e1/12.txt");
    assert_eq!(fs::read_to_string(&path).unwrap(), "file 12\n".repeat(3000));
    image.disk().rule(&format!("read delay fixed:{}us", READ.as_micros())).unwrap();

    drop_caches();
    let reads = image.disk().counters().answered(Kind::Read);
    assert_eq!(open_cached(&path).unwrap_err(), Errno::AGAIN, "cold: the kernel would have to wait");
    let begun = Instant::now();
    let mut file = File::open(&path).unwrap();
    let took = begun.elapsed();
    let waited = image.disk().counters().answered(Kind::Read) - reads;
    assert!(waited >= 2 && took >= 2 * READ, "blocks of folders and inodes: {waited} reads, {took:?}");

    let cold = OwnedFd::from(File::open(&path).unwrap());
    // From here: even a read that does not wait has the kernel begin to read.
    let begun = Instant::now();
    assert_eq!(read_cached(&cold), Err(Errno::AGAIN), "names are warm, pages are not");
    file.read_exact(&mut [0; 100]).unwrap();
    assert!(begun.elapsed() >= READ);

    // Another test may drop the caches between two looks.
    let warm = (0..20).any(|_| {
        File::open(&path).unwrap().read_exact(&mut [0; 100]).unwrap();
        open_cached(&path).is_ok_and(|file| read_cached(&file) == Ok(100))
    });
    assert!(warm, "warm: nothing to wait for");
    let below = image.disk().mountpoint().to_owned();
    drop(image);
    assert_eq!(traces(mountpoint.path(), below.to_str().unwrap()), [""; 0]);
    assert!(!below.exists(), "the image is gone");
}

#[test]
fn the_disk_below_does_many_reads_at_a_time() {
    let Some((folder, mountpoint)) = place() else { return };
    let image = SlowImage::mount(folder.path(), mountpoint.path(), 16, "").unwrap();
    let paths: Vec<_> =
        (0..16).map(|n| image.mountpoint().join(format!("d{}/e{}/{n}.txt", n % 7, n % 11))).collect();
    // Files that are open but not read yet want a read each, one behind the other or side by side.
    let read_all = |concurrent: usize| {
        drop_caches();
        let files: Vec<_> = paths.iter().map(|path| File::open(path).unwrap()).collect();
        image.disk().rule(&format!("concurrent {concurrent}\nread delay fixed:50ms")).unwrap();
        let begun = Instant::now();
        thread::scope(|scope| {
            for mut file in files {
                scope.spawn(move || file.read_exact(&mut [0; 100]).unwrap());
            }
        });
        image.disk().clear();
        begun.elapsed()
    };
    let (one, sixteen) = (read_all(1), read_all(16));
    assert!(one >= 16 * Duration::from_millis(50), "{one:?}");
    assert!(sixteen < one / 3, "{sixteen:?} for sixteen, {one:?} for one");
}

#[test]
fn an_arm_reads_in_order_as_fast_as_the_platter_turns_and_seeks_for_what_is_scattered() {
    const LARGE_BYTES: u64 = 16 << 20;
    let Some((folder, mountpoint)) = place() else { return };
    fs::write(folder.path().join("large"), vec![1; LARGE_BYTES as usize]).unwrap();
    let image = SlowImage::mount(folder.path(), mountpoint.path(), 128, "arm deskstar").unwrap();
    let read = |name: &str| fs::read(mountpoint.path().join(name)).unwrap().len();
    let began = Instant::now();
    assert_eq!(read("large") as u64, LARGE_BYTES);
    let in_order = began.elapsed();
    // 528 sectors in a rotation of 8.33 ms.
    let platter = Duration::from_secs_f64(LARGE_BYTES as f64 / (528.0 * 512.0) / 120.0);
    assert!(in_order >= platter, "{in_order:?}, and the platter takes {platter:?}");
    let reads_before = image.disk().counters().answered(Kind::Read);
    drop_caches();
    let began = Instant::now();
    let bytes: usize = (0..100).map(|n| read(&format!("d{}/e{}/{n}.txt", n % 7, n % 11))).sum();
    let scattered = began.elapsed();
    let reads = image.disk().counters().answered(Kind::Read) - reads_before;
    assert!(reads >= 100, "{reads}");
    let per_byte = |time: Duration, bytes: u64| time.as_secs_f64() / bytes as f64;
    let (fast, slow) = (per_byte(in_order, LARGE_BYTES), per_byte(scattered, bytes as u64));
    assert!(slow > 2.0 * fast, "{scattered:?} for {bytes} bytes, {in_order:?} for {LARGE_BYTES}");
    drop(image);

    for (mib, rule, why) in [
        (2048, "arm hp97560", "the image has 2048 MiB, and a drive with this arm 1310"),
        (128, "arm floppy", "the drives are hp97560 and deskstar"),
    ] {
        let refused = SlowImage::mount(folder.path(), mountpoint.path(), mib, rule).err().expect(rule);
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let refused = SlowDisk::mount(folder.path(), mountpoint.path(), "arm deskstar").err().expect("no image");
    assert!(refused.to_string().contains("an arm needs an image"), "{refused}");
}

#[test]
fn it_unmounts_while_the_disk_hangs() {
    let Some((folder, mountpoint)) = place() else { return };
    let image = SlowImage::mount(folder.path(), mountpoint.path(), 16, "").unwrap();
    drop_caches();
    image.disk().rule("read hang").unwrap();
    let path = image.mountpoint().join("d0/e0/0.txt");
    let reader = thread::spawn(move || fs::read(path).map(|text| text.len()));
    let given_up = Instant::now() + Duration::from_secs(20);
    while image.disk().counters().hung == 0 {
        assert!(Instant::now() < given_up, "it never hangs");
        thread::sleep(Duration::from_millis(5));
    }
    let below = image.disk().mountpoint().to_owned();
    let begun = Instant::now();
    drop(image);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // It got what it asked for, or an error; it does not hang.
    let _ = reader.join().unwrap();
    wait_until_no_trace(mountpoint.path(), below.to_str().unwrap());
}

#[test]
fn nothing_is_left_of_it_when_the_program_is_killed_or_somebody_unmounts() {
    let Some((folder, mountpoint)) = place() else { return };
    for killed in [true, false] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flash-slowdisk"));
        command.arg(folder.path()).arg(mountpoint.path()).args([
            "--image",
            "16",
            "--rule",
            "read delay fixed:1ms",
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 512];
        let length = child.stdout.as_mut().unwrap().read(&mut line).unwrap();
        let line = String::from_utf8_lossy(&line[..length]);
        let below = line
            .trim()
            .rsplit(' ')
            .next()
            .and_then(|control| control.strip_suffix("/.slowdisk"))
            .expect(&line);
        assert!(mountpoint.path().join("d0/e0/0.txt").exists());
        assert_eq!(traces(mountpoint.path(), below).len(), 3, "two mounts and a loop device");
        if killed {
            child.kill().unwrap();
        } else {
            assert!(Command::new("umount").arg(mountpoint.path()).status().unwrap().success());
        }
        assert_eq!(child.wait().unwrap().success(), !killed);
        wait_until_no_trace(mountpoint.path(), below);
    }
}
