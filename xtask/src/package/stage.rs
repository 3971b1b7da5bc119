//! The files of the packages, in folders that look like the system's root: one for the server, one for the tools. The .deb,
//! the .rpm and the image are all made from them. It leaves out how packages are described: `Cargo.toml` does that.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use flash_system::folder;

/// Programs that have the package `flash-tools` to themselves.
pub(super) const TOOLS: [&str; 5] = ["flash-lab", "flash-load", "flash-sim", "flash-slowdisk", "flash-why"];

/// What the server's package has besides what the program itself writes: where it lies in the sources, and where it goes.
const FILES: [(&str, &str); 11] = [
    ("deploy/packages/flash.toml", "etc/flash/flash.toml"),
    ("deploy/packages/sites.README", "etc/flash/sites/README"),
    ("deploy/packages/welcome/index.html", "usr/share/flash/welcome/index.html"),
    ("deploy/packages/copyright", "usr/share/doc/flash/copyright"),
    ("CHANGELOG.md", "usr/share/doc/flash/changelog.gz"),
    ("deploy/systemd/flash.service", "usr/lib/systemd/system/flash.service"),
    ("deploy/systemd/flash.sysusers", "usr/lib/sysusers.d/flash.conf"),
    ("deploy/systemd/flash.tmpfiles", "usr/lib/tmpfiles.d/flash.conf"),
    ("deploy/systemd/flash.logrotate", "etc/logrotate.d/flash"),
    ("deploy/prometheus/flash.rules.yml", "usr/share/flash/prometheus/flash.rules.yml"),
    ("deploy/grafana/flash.json", "usr/share/flash/grafana/flash.json"),
];

/// Folders whose files the server's package has, and where they go: the pages for operators, and the examples that they name.
const FOLDERS: [(&str, &str); 2] =
    [("docs", "usr/share/doc/flash"), ("deploy/systemd/examples", "usr/share/doc/flash/examples/systemd")];

/// As above, for the tools.
const TOOLS_FILES: [(&str, &str); 2] = [
    ("deploy/packages/copyright", "usr/share/doc/flash-tools/copyright"),
    ("CHANGELOG.md", "usr/share/doc/flash-tools/changelog.gz"),
];

/// Where each shell looks for the completions of installed programs.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/flash"),
    ("fish", "usr/share/fish/vendor_completions.d/flash.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_flash"),
];

/// The folders of built programs that are packaged.
pub(super) struct Programs {
    pub(super) server: PathBuf,
    pub(super) tools: PathBuf,
}

/// Fills the folders `server` and `tools` anew.
pub(super) fn fill(root: &Path, programs: &Programs, folder: &Path) -> Result<()> {
    folder::remove(folder)?;
    let (server, tools) = (folder.join("server"), folder.join("tools"));
    let flash = install(&programs.server.join("flash"), &server)?;
    pages(&flash, "flash", "man", &server)?;
    for (shell, to) in COMPLETIONS {
        write(&server.join(to), &said(&flash, &["completions", shell])?)?;
    }
    copy(root, &FILES, &server)?;
    for (from, to) in FOLDERS {
        copy_folder(&root.join(from), &server.join(to))?;
    }
    for tool in TOOLS {
        let program = install(&programs.tools.join(tool), &tools)?;
        pages(&program, tool, "--man", &tools)?;
    }
    copy(root, &TOOLS_FILES, &tools)
}

/// Puts a program into `usr/bin`, without what only debuggers read.
fn install(program: &Path, tree: &Path) -> Result<PathBuf> {
    let to = tree.join("usr/bin").join(program.file_name().expect("it is a path of a program"));
    fs::create_dir_all(to.parent().expect("it is in usr/bin"))?;
    let mut strip = Command::new("strip");
    strip.args(["--remove-section=.comment", "--remove-section=.note", "-o"]).arg(&to).arg(program);
    let status = strip.status().context("starting strip (Debian's package binutils has it)")?;
    ensure!(status.success(), "strip {} failed", program.display());
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
    Ok(to)
}

/// Writes the program's manual page, which it prints if one asks so, and the pages of the commands that it names.
fn pages(program: &Path, name: &str, ask: &str, tree: &Path) -> Result<()> {
    let mut left = vec![(name.to_owned(), Vec::<String>::new())];
    while let Some((name, words)) = left.pop() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let page = said(program, &[&[ask], &*words].concat())?;
        let text = String::from_utf8(page).context("a manual page is text")?;
        ensure!(text.contains(&format!(".TH {name} 1")), "{} has no page {name}(1)", program.display());
        for command in commands(&text, &name) {
            let page = format!("{name}-{command}");
            left.push((page, words.iter().copied().chain([&*command]).map(str::to_owned).collect()));
        }
        write(&tree.join(format!("usr/share/man/man1/{name}.1.gz")), text.as_bytes())?;
    }
    Ok(())
}

/// The commands of a page: each has a line such as `flash\-lab\-run(1)`.
fn commands(page: &str, name: &str) -> Vec<String> {
    let page = page.replace("\\-", "-");
    let start = format!("{name}-");
    let named = page.lines().filter_map(|line| line.strip_prefix(&start)?.strip_suffix("(1)"));
    named.map(str::to_owned).collect()
}

fn copy(root: &Path, files: &[(&str, &str)], tree: &Path) -> Result<()> {
    for (from, to) in files {
        let content = fs::read(root.join(from)).with_context(|| format!("reading {from}"))?;
        write(&tree.join(to), &content)?;
    }
    Ok(())
}

/// Copies the files of a folder, and not those below it.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let context = || format!("reading {}", from.display());
    for entry in fs::read_dir(from).with_context(context)? {
        let entry = entry.with_context(context)?;
        if entry.file_type().with_context(context)?.is_file() {
            write(&to.join(entry.file_name()), &fs::read(entry.path()).with_context(context)?)?;
        }
    }
    Ok(())
}

/// Writes a file that everybody may read, compressed if its name says so.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    let context = || format!("writing {}", path.display());
    let plain = if path.extension().is_some_and(|end| end == "gz") {
        path.with_extension("")
    } else {
        path.to_path_buf()
    };
    fs::create_dir_all(path.parent().expect("it is a file's path")).with_context(context)?;
    fs::write(&plain, content).with_context(context)?;
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).with_context(context)?;
    if plain != path {
        // Without name and time, so that the same sources make the same package.
        let status = Command::new("gzip").args(["-9n"]).arg(&plain).status().context("starting gzip")?;
        ensure!(status.success(), "gzip {} failed", plain.display());
    }
    Ok(())
}

/// What a program prints.
fn said(program: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let output = Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    if !output.status.success() {
        bail!("{} {} failed: {}", program.display(), args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_package_has_the_pages_and_the_files_for_prometheus_and_grafana() {
        let (root, tree) = (Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), tempfile::tempdir().unwrap());
        copy(&root, &FILES, tree.path()).unwrap();
        for (from, to) in FOLDERS {
            copy_folder(&root.join(from), &tree.path().join(to)).unwrap();
        }
        for file in [
            "usr/share/doc/flash/configuration.md",
            "usr/share/doc/flash/examples/systemd/php.conf",
            "usr/share/flash/prometheus/flash.rules.yml",
            "usr/share/flash/grafana/flash.json",
        ] {
            assert!(tree.path().join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn a_page_names_its_commands() {
        let page =
            ".SH SUBCOMMANDS\nflash\\-lab\\-run(1)\nRun\nflash\\-lab\\-list\\-all(1)\nsee flash\\-load(1)\n";
        assert_eq!(commands(page, "flash-lab"), ["run", "list-all"]);
        assert!(commands(page, "flash-sim").is_empty());
    }
}
