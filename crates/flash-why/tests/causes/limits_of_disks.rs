//! A cgroup that may do few reads of a disk, and a disk that may have few dirty pages.

use std::os::unix::fs::MetadataExt;

use flash_slowdisk::Cleanup;

use super::*;

/// Reads a second.
const READS: u32 = 100;

/// A cgroup that may do so many reads of a disk: of version 1, or of version 2 where the controller is there.
fn few_reads(device: &str) -> Result<Group, String> {
    let (one, two) = (Path::new("/sys/fs/cgroup/blkio"), Path::new("/sys/fs/cgroup"));
    if one.join("blkio.throttle.read_iops_device").exists() {
        return Ok(Group::make(one, &[("blkio.throttle.read_iops_device", &format!("{device} {READS}"))]));
    }
    let controllers = fs::read_to_string(two.join("cgroup.controllers")).unwrap_or_default();
    if !controllers.split_whitespace().any(|controller| controller == "io") {
        return Err("no controller of reads, of cgroups of version 1 or 2".into());
    }
    let enabled = fs::write(two.join("cgroup.subtree_control"), "+io");
    enabled.map_err(|error| format!("/sys/fs/cgroup/cgroup.subtree_control: {error}"))?;
    Ok(Group::make(two, &[("io.max", &format!("{device} riops={READS}"))]))
}

/// `7:0`.
fn device_of(mounted: &Path) -> String {
    let device = fs::metadata(mounted).expect("it is mounted").dev();
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

#[test]
fn few_reads_of_a_disk() {
    let _alone = alone();
    if let Some(missing) = missing().or_else(flash_slowdisk::missing) {
        return eprintln!("NOT TESTED, a limit of reads: {missing}");
    }
    let (site, point) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    for file in 0..20 {
        fs::write(site.path().join(format!("hot-{file}")), [7; 4096]).expect("a file");
    }
    fs::write(site.path().join("cold"), vec![7; 8 << 20]).expect("a file");
    let image = SlowImage::mount(site.path(), point.path(), 16, "").expect("an image");
    let group = match few_reads(&device_of(image.mountpoint())) {
        Ok(group) => group,
        Err(missing) => return eprintln!("NOT TESTED, a limit of reads: {missing}"),
    };
    let cold = image.mountpoint().join("cold");
    let seen = watch_while("cold-read", image.mountpoint(), Some(&group), LONGEST, || ());
    judge("reads", &seen, &["page-cache read"], Some(&cold));
    // It was the limit that they waited for: a few at once, and then a long one.
    let blocks = seen.of_loop();
    let (us, each) = (blocks.iter().map(|block| block.us).sum::<u64>(), u64::from(1_000_000 / READS));
    let mean = us / blocks.len() as u64;
    assert!(mean > each / 2, "{mean} us each, with {READS} reads a second");
}

#[test]
fn few_dirty_pages_of_a_disk() {
    let _alone = alone();
    if let Some(missing) = missing().or_else(flash_slowdisk::missing) {
        return eprintln!("NOT TESTED, a limit of dirty pages: {missing}");
    }
    let disk = Writable::mount();
    let limits = PathBuf::from(format!("/sys/class/bdi/{}", device_of(disk.point.path())));
    if !limits.join("max_bytes").exists() {
        return eprintln!("NOT TESTED, a limit of dirty pages: it came with Linux 6.2");
    }
    fs::write(limits.join("strict_limit"), "1").expect("root may");
    fs::write(limits.join("max_bytes"), (1 << 20).to_string()).expect("root may");
    let seen = watch_while("dirty", disk.point.path(), None, LONGEST, || ());
    // The kernel's threads that write the dirty pages hold the file's map of blocks now and then.
    let right = ["writeback or dirty throttling", "inode or directory lock"];
    judge("dirty", &seen, &right, None);
    let blocks = seen.of_loop();
    let throttled = blocks.iter().filter(|block| block.cause.name() == right[0]).count();
    assert!(throttled * 4 > blocks.len() * 3, "dirty: {throttled} of {} are throttled", blocks.len());
}

/// A small ext4 of its own.
struct Writable {
    point: TempDir,
    _cleanup: Cleanup,
}

impl Writable {
    fn mount() -> Writable {
        let image = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
        image.as_file().set_len(48 << 20).expect("there is room");
        let point = TempDir::new().expect("a folder");
        run(Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(image.path()));
        let cleanup = Cleanup::new("umount -l \"$1\"; rmdir \"$1\"", &[point.path().as_os_str()]);
        let device =
            run(Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(image.path()));
        run(Command::new("mount").args(["-t", "ext4", &device]).arg(point.path()));
        // A device that is detached while it is in use goes with its last user, and the image with the device.
        run(Command::new("losetup").args(["--detach", &device]));
        Writable { point, _cleanup: cleanup.expect("a shell") }
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(self.point.path()));
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program is there");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().into()
}
