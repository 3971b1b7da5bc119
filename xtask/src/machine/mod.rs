//! `cargo xtask kernels`: the server on older kernels, those of Debian 11 (5.10) and Debian 12 (6.1), in qemu's emulator.
//! A machine has the kernel and a file system in memory: the server with its libraries, busybox, and what it serves.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use flash_system::{find, folder, install};

use crate::cargo::{self, succeed};
use crate::debian::{self, Release};

pub(crate) const HELP: &str = "\
cargo xtask kernels [--program FILE]  boots older kernels, and has the server do everything there once in each architecture:
                                      two minutes; without FILE with target/release/flash
";

const RELEASES: [&str; 2] = ["bullseye", "bookworm"];
/// Without drivers for real machines.
const KERNEL: &str = "linux-image-cloud-amd64";
/// What one architecture has to get right: seven requests twice, a reload, an upgrade, and that nothing is left.
const RESULTS: usize = 7 * (7 * 2 + 3);
/// Emulation is slow, and a machine may be busy.
const PATIENCE: &str = "300";
const LARGE_BYTES: usize = 6_000_000;

/// What the machines run beside the server.
const PROGRAMS: &[(&str, &str)] =
    &[("cc", "gcc"), ("cpio", "cpio"), ("curl", "curl"), ("qemu-system-x86_64", "qemu-system-x86")];

/// True when no request was missed and no process left.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let program = match args {
        [] => cargo::target_folder(root).join("release/flash"),
        ["--program", program] => PathBuf::from(program),
        _ => bail!("no such option: {}\n{HELP}", args.join(" ")),
    };
    ensure!(program.exists(), "{} is missing: cargo build --release", program.display());
    let missing: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| find(program).is_err()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        install(&missing)?;
    }
    let work = cargo::target_folder(root).join("kernels");
    let files = files(root, &work, &program)?;
    let kernels = RELEASES.iter().map(|name| kernel(root, name)).collect::<Result<Vec<_>>>()?;
    let failed: Result<Vec<usize>> = thread::scope(|scope| {
        let machines: Vec<_> = kernels.iter().map(|kernel| scope.spawn(|| boot(kernel, &files))).collect();
        machines.into_iter().map(|machine| machine.join().expect("it does not panic")).collect()
    });
    Ok(failed?.iter().sum::<usize>() == 0)
}

/// The kernel of a release of Debian.
fn kernel(root: &Path, name: &str) -> Result<PathBuf> {
    let release = Release::open(root, name)?;
    let boot = release.unpacked(&release.meant_by(KERNEL)?)?.join("boot");
    let mut files = fs::read_dir(&boot)?.flatten().map(|entry| entry.path());
    files
        .find(|file| file.to_string_lossy().contains("vmlinuz"))
        .with_context(|| format!("no kernel in {}", boot.display()))
}

/// Makes the file system.
fn files(root: &Path, work: &Path, flash: &Path) -> Result<PathBuf> {
    let tree = work.join("root");
    folder::make_empty(&tree)?;
    for name in ["bin", "dev", "proc", "sys", "tmp", "run", "root", "etc", "srv/real", "programs", "var/tmp"]
    {
        fs::create_dir_all(tree.join(name))?;
    }
    let busybox = Release::open(root, &debian::codename()?)?.unpacked("busybox-static")?;
    fs::copy(busybox.join("bin/busybox"), tree.join("bin/busybox")).context("copying busybox")?;
    succeed(Command::new("strip").arg("-o").arg(tree.join("bin/flash")).arg(flash))?;
    let curl = find("curl")?;
    fs::copy(&curl, tree.join("bin/curl"))?;
    for program in [flash, &curl] {
        // A static program has none.
        let said = Command::new("ldd").arg(program).output().context("starting ldd")?.stdout;
        for library in String::from_utf8_lossy(&said).split_whitespace().filter(|word| word.starts_with('/'))
        {
            let to = tree.join(library.trim_start_matches('/'));
            fs::create_dir_all(to.parent().expect("a file lies in a folder"))?;
            fs::copy(library, to).with_context(|| format!("copying {library}"))?;
        }
    }
    write(&tree.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n", 0o644)?;
    write(&tree.join("etc/group"), "root:x:0:\n", 0o644)?;
    write(&tree.join("srv/small.txt"), "small", 0o644)?;
    write(&tree.join("srv/real/name.txt"), "linked", 0o644)?;
    symlink("real", tree.join("srv/linked"))?;
    let mut random = fastrand::Rng::with_seed(1);
    let large: Vec<u8> = (0..LARGE_BYTES).map(|_| random.u8(..)).collect();
    fs::write(tree.join("srv/large.bin"), large)?;
    write(&tree.join("programs/echo"), include_str!("echo.sh"), 0o755)?;
    let application = root.join("tests/src/application.c");
    succeed(
        Command::new("cc")
            .args(["-static", "-w", "-o"])
            .arg(tree.join("programs/application"))
            .arg(application),
    )?;
    write(&tree.join("init"), include_str!("init.sh"), 0o755)?;
    let archive = work.join("files.cpio");
    let pack = "find . | cpio --quiet -o -H newc";
    let packed =
        Command::new("sh").args(["-c", pack]).current_dir(&tree).stdout(File::create(&archive)?).status();
    ensure!(packed.context("starting cpio")?.success(), "cpio failed");
    Ok(archive)
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// Boots a kernel, prints what failed there, and gives the number of these.
fn boot(kernel: &Path, files: &Path) -> Result<usize> {
    let began = Instant::now();
    let mut machine = Command::new("timeout");
    machine.args([PATIENCE, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-smp", "2"]);
    machine.args([
        "-nographic",
        "-no-reboot",
        "-append",
        "console=ttyS0 quiet panic=1 rdinit=/init",
        "-kernel",
    ]);
    let output = machine.arg(kernel).arg("-initrd").arg(files).stdin(Stdio::null()).output();
    let output = output.context("starting qemu")?.stdout;
    let said = String::from_utf8_lossy(&output).into_owned();
    let results =
        || said.lines().filter_map(|line| line.trim().split_once("RESULT ")).map(|(_, result)| result);
    let right = results().filter(|result| result.ends_with(" ok")).count();
    let name = kernel.file_name().unwrap_or_default().to_string_lossy().replace("vmlinuz-", "Linux ");
    for result in results().filter(|result| !result.ends_with(" ok") && *result != "the end") {
        println!("{name}: {result}");
    }
    if !results().any(|result| result == "the end") {
        println!("{name}: it did not come to its end: {}", said.lines().last().unwrap_or_default());
    }
    println!("{name}: {right} of {RESULTS} right, {:.0} s", began.elapsed().as_secs_f64());
    Ok(RESULTS.saturating_sub(right))
}
