//! Programs for tests: CGI scripts in shell, Python, Perl and C.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::{need, open_folder, set_mode};

/// Name and source of each script that a shell runs.
const SHELL: [(&str, &str); 23] = [
    ("env", "echo 'Content-Type: text/plain'; echo; env | sort"),
    ("echo", "printf 'Content-Type: application/octet-stream\\n\\n'; cat"),
    ("status", "printf 'Status: 404 Nothing Here\\nContent-Type: text/plain\\nX-Own: yes\\n\\nnothing'"),
    ("length", "printf 'Content-Type: text/plain\\r\\nContent-Length: 5\\r\\n\\r\\nhello and more'"),
    ("local", "printf 'Location: /a.txt\\n\\n'"),
    ("round", "printf 'Location: /cgi/round\\n\\n'"),
    ("client", "printf 'Location: http://elsewhere/\\n\\n'"),
    ("document", "printf 'Status: 301\\nLocation: /there\\nContent-Type: text/plain\\n\\nmoved'"),
    ("nph-own", "printf 'HTTP/1.1 299 Own\\r\\nX-Own: yes\\r\\nConnection: close\\r\\n\\r\\nown'"),
    ("complain", "echo 'one thing' >&2; echo 'another thing' >&2; printf 'Content-Type: text/plain\\n\\nok'"),
    (
        "forbidden-fields",
        "printf 'Content-Type: text/plain\\nTransfer-Encoding: chunked\\nConnection: keep-alive\\n\\nok'",
    ),
    ("no-type", "printf 'X-Only: this\\n\\nbody'"),
    ("junk", "echo 'this is no head'; echo; echo body"),
    ("control", "printf 'Content-Type: text/plain\\nX-Bad: a\\001b\\n\\nbody'"),
    ("split", "printf 'Content-Type: text/plain\\nX-Bad: a\\rSet-Cookie: b\\n\\nbody'"),
    ("headless", "printf 'Content-Type: text/plain\\n'"),
    ("wordless", "exit 3"),
    ("endless-head", "while :; do echo 'X-More: and more and more and more and more'; done"),
    ("short", "printf 'Content-Type: text/plain\\nContent-Length: 100\\n\\nabc'"),
    ("silent", "exec sleep 600"),
    ("stubborn", "trap '' TERM; while :; do sleep 1; done"),
    ("parent", "sleep 600 & printf 'Content-Type: text/plain\\n\\nok'"),
    ("flood", "printf 'Content-Type: application/octet-stream\\n\\n'; exec cat /dev/zero"),
];

const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    const char *query = getenv("QUERY_STRING");
    printf("Content-Type: text/plain\r\n\r\nC says %s\n", query ? query : "nothing");
    return 0;
}
"#;

/// The source of a FastCGI application that says who it is, and where.
pub const APPLICATION: &str = include_str!("application.c");

/// A folder of scripts. What else is in it must never run: a script that may not be run, one that lies elsewhere, a
/// folder with one more.
pub fn make() -> TempDir {
    let folder = open_folder();
    let root = folder.path();
    for (name, source) in SHELL {
        script(root, name, &format!("#!/bin/sh\n{source}\n"));
    }
    script(
        root,
        "python",
        &format!("#!{}\nprint('Content-Type: text/plain\\n\\nPython')", shown("python3", "python3")),
    );
    script(
        root,
        "perl",
        &format!("#!{}\nprint \"Content-Type: text/plain\\n\\nPerl\";", shown("perl", "perl")),
    );
    compile(root, "c", C);
    script(root, "plain.txt", "no program");
    set_mode(root.join("plain.txt"), 0o644);
    symlink("/bin/true", root.join("out")).expect("a link");
    fs::create_dir(root.join("sub")).expect("a folder");
    script(
        &root.join("sub"),
        "deep",
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n%s %s' $SCRIPT_NAME $PATH_INFO",
    );
    folder
}

/// Makes a program of C in a folder, beside its source.
pub fn compile(folder: &Path, name: &str, source: &str) {
    let file = folder.join(format!("{name}.c"));
    fs::write(&file, source).expect("a file");
    let compiled = Command::new(need("cc", "gcc")).arg("-o").arg(folder.join(name)).arg(&file).status();
    assert!(compiled.expect("cc starts").success(), "cc compiles it");
}

/// Makes a script. One of its name is there no more; where that is a link, the file behind it stays as it is.
pub fn script(folder: &Path, name: &str, source: &str) {
    let path = folder.join(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, source).expect("a file");
    set_mode(&path, 0o755);
}

fn shown(program: &str, package: &str) -> String {
    need(program, package).display().to_string()
}
