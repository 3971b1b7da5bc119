//! Has clang compile the kernel's side of `flash why`. Without clang the program is built without it, and says so.
//!
//! It leaves out everything about the running kernel: the object fits itself to it when it is loaded (CO-RE).

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "src/bpf/why.bpf.c";

fn main() {
    println!("cargo:rustc-check-cfg=cfg(has_bpf)");
    for file in [SOURCE, "src/bpf/kernel.h"] {
        println!("cargo:rerun-if-changed={file}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    // It reads the registers of this processor family.
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return;
    }
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let object = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("why.bpf.o");
    let mut compiler = Command::new(&clang);
    compiler.args([
        "-target",
        "bpf",
        "-mcpu=v3",
        "-O2",
        "-g",
        "-Wall",
        "-Wno-unused-function",
        "-c",
        SOURCE,
        "-o",
    ]);
    match compiler.arg(&object).status() {
        Ok(status) if status.success() => println!("cargo:rustc-cfg=has_bpf"),
        // Its words about the error are above.
        Ok(status) => panic!("{} could not compile {SOURCE}: {status}", clang.display()),
        Err(error) => {
            // A file that is not there is looked at again at each build.
            println!("cargo:rerun-if-changed=/usr/bin/clang");
            println!(
                "cargo:warning=flash why is built without eBPF: {}: {error} (apt-get install clang)",
                clang.display()
            );
        }
    }
}
