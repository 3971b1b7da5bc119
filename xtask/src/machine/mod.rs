//! Machines in qemu's emulator: a kernel of Debian's, and a file system in memory with the server, its libraries, busybox, curl, and
//! what it serves. The first process has the server do everything once in each architecture, then runs tests.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use flash_system::folder;

use crate::cargo::{self, succeed};
use crate::debian::{self, Release};

/// A kind of processor.
pub(crate) struct Processor {
    /// As Debian names it.
    pub(crate) name: &'static str,
    /// A kernel without drivers for real machines.
    kernel: &'static str,
    emulator: &'static [&'static str],
    console: &'static str,
    /// What the name of its compiler begins with.
    tools: &'static str,
    /// Who has to be there: programs and their packages.
    pub(crate) needs: &'static [(&'static str, &'static str)],
}

pub(crate) const AMD64: Processor = Processor {
    name: "amd64",
    kernel: "linux-image-cloud-amd64",
    emulator: &["qemu-system-x86_64", "-cpu", "max"],
    console: "ttyS0",
    tools: "",
    needs: &[
        ("gcc", "gcc"),
        ("strip", "binutils"),
        ("cpio", "cpio"),
        ("qemu-system-x86_64", "qemu-system-x86"),
    ],
};

pub(crate) const ARM64: Processor = Processor {
    name: "arm64",
    kernel: "linux-image-cloud-arm64",
    // What signs pointers costs an emulator half of its time.
    emulator: &["qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on"],
    console: "ttyAMA0",
    tools: "aarch64-linux-gnu-",
    needs: &[
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        ("cpio", "cpio"),
        ("qemu-system-aarch64", "qemu-system-arm"),
    ],
};

/// What one architecture of the server has to get right: seven requests twice, a reload, an upgrade, and that nothing is left.
const RESULTS: usize = 7 * (7 * 2 + 3);
const LARGE_BYTES: usize = 6_000_000;
/// What their programs need besides themselves: of each package, all that it depends on.
const PACKAGES: [&str; 3] = ["busybox-static", "curl", "libgcc-s1"];

/// What a machine starts with.
pub(crate) struct Machine<'p> {
    processor: &'p Processor,
    files: PathBuf,
    /// How many results are right ones.
    results: usize,
}

impl<'p> Machine<'p> {
    /// Makes the file system, with the server's program and those of tests.
    pub(crate) fn new(
        root: &Path,
        processor: &'p Processor,
        flash: &Path,
        tests: &[PathBuf],
    ) -> Result<Self> {
        let work = cargo::target_folder(root).join("machines").join(processor.name);
        let tree = work.join("root");
        folder::make_empty(&tree)?;
        let folders = [
            "bin", "dev", "proc", "sys", "tmp", "run", "root", "etc", "srv/real", "programs", "var/tmp",
            "tests", "lib", "lib64",
        ];
        folders.iter().try_for_each(|name| fs::create_dir_all(tree.join(name)))?;
        let machine = Self { processor, files: work.join("files.cpio"), results: RESULTS + tests.len() };
        machine.install(root, &tree)?;
        machine.strip(flash, &tree.join("bin/flash"))?;
        for test in tests {
            machine
                .strip(test, &tree.join("tests").join(test.file_name().context("a program has a name")?))?;
        }
        machine.serve(root, &tree)?;
        write(&tree.join("init"), include_str!("init.sh"), 0o755)?;
        let pack = "find . | cpio --quiet -o -H newc";
        let archive = File::create(&machine.files)?;
        let packed = Command::new("sh").args(["-c", pack]).current_dir(&tree).stdout(archive).status();
        ensure!(packed.context("starting cpio")?.success(), "cpio failed");
        Ok(machine)
    }

    /// The programs and libraries of Debian.
    fn install(&self, root: &Path, tree: &Path) -> Result<()> {
        let release = Release::open(root, &debian::codename()?, self.processor.name)?;
        for package in release.with_all_they_need(&PACKAGES)? {
            let files = release.unpacked(&package)?;
            for (from, into) in
                [("bin", "bin"), ("usr/bin", "bin"), ("lib", "lib"), ("usr/lib", "lib"), ("lib64", "lib64")]
            {
                let from = files.join(from);
                if from.exists() {
                    succeed(Command::new("cp").arg("-a").arg(from.join(".")).arg(tree.join(into)))?;
                }
            }
        }
        Ok(())
    }

    fn strip(&self, program: &Path, to: &Path) -> Result<()> {
        let strip = format!("{}strip", self.processor.tools);
        succeed(Command::new(strip).arg("-o").arg(to).arg(program)).map(drop)
    }

    /// What the server serves.
    fn serve(&self, root: &Path, tree: &Path) -> Result<()> {
        write(&tree.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n", 0o644)?;
        write(&tree.join("etc/group"), "root:x:0:\n", 0o644)?;
        write(&tree.join("srv/small.txt"), "small", 0o644)?;
        write(&tree.join("srv/real/name.txt"), "linked", 0o644)?;
        symlink("real", tree.join("srv/linked"))?;
        let mut random = fastrand::Rng::with_seed(1);
        let large: Vec<u8> = (0..LARGE_BYTES).map(|_| random.u8(..)).collect();
        fs::write(tree.join("srv/large.bin"), large)?;
        write(&tree.join("programs/echo"), include_str!("echo.sh"), 0o755)?;
        let compiler = format!("{}gcc", self.processor.tools);
        let application = root.join("tests/src/application.c");
        let program = tree.join("programs/application");
        succeed(Command::new(compiler).args(["-static", "-w", "-o"]).arg(program).arg(application)).map(drop)
    }

    /// Boots it with the kernel of a release of Debian, prints what failed there, and says whether nothing did. It has this many
    /// seconds: emulation is slow, and this machine may be busy.
    pub(crate) fn boot(&self, root: &Path, release: &str, seconds: u32) -> Result<bool> {
        let began = Instant::now();
        let kernel = self.kernel(root, release)?;
        let [emulator, more @ ..] = self.processor.emulator else {
            unreachable!("a processor has an emulator")
        };
        let mut machine = Command::new("timeout");
        machine.arg(seconds.to_string()).arg(emulator).args(more);
        machine.args(["-accel", "tcg", "-m", "2048", "-smp", "2", "-nographic", "-no-reboot"]);
        let console = self.processor.console;
        machine.arg("-append").arg(format!("console={console} quiet panic=1 rdinit=/init"));
        let output =
            machine.arg("-kernel").arg(&kernel).arg("-initrd").arg(&self.files).stdin(Stdio::null()).output();
        let output = output.context("starting qemu")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let results =
            || said.lines().filter_map(|line| line.trim().split_once("RESULT ")).map(|(_, result)| result);
        let right = results().filter(|result| result.ends_with(" ok")).count();
        let name = kernel.file_name().unwrap_or_default().to_string_lossy().replace("vmlinuz-", "Linux ");
        for result in results().filter(|result| !result.ends_with(" ok") && *result != "the end") {
            println!("{name}: {result}");
        }
        if !results().any(|result| result == "the end") {
            let last = said.lines().rev().take(20).collect::<Vec<_>>();
            let last: Vec<_> = last.into_iter().rev().collect();
            let emulator = String::from_utf8_lossy(&output.stderr);
            println!("{name}: it did not come to its end: {}\n{emulator}", last.join("\n"));
        }
        println!("{name}: {right} of {} right, {:.0} s", self.results, began.elapsed().as_secs_f64());
        Ok(right == self.results)
    }

    fn kernel(&self, root: &Path, release: &str) -> Result<PathBuf> {
        let release = Release::open(root, release, self.processor.name)?;
        let boot = release.unpacked(&release.meant_by(self.processor.kernel)?)?.join("boot");
        let mut files = fs::read_dir(&boot)?.flatten().map(|entry| entry.path());
        files
            .find(|file| file.to_string_lossy().contains("vmlinuz"))
            .with_context(|| format!("no kernel in {}", boot.display()))
    }
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}
