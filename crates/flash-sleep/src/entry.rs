//! The functions by which system calls enter the kernel.

/// What the names of calls' entries begin with, by processor family. Compilers leave some out, so those behind follow.
const ENTRIES: [&str; 7] =
    ["__x64_sys_", "__arm64_sys_", "__riscv_sys_", "__se_sys_", "__do_sys_", "ksys_", "kernel_"];
/// Entries that are not called like their calls.
const RENAMED: [(&str, &str); 4] =
    [("newstat", "stat"), ("newlstat", "lstat"), ("newfstat", "fstat"), ("sendfile64", "sendfile")];

/// What calls come to whose entries compilers have jump there, so that they are in no stack. The flags are of the newer call.
const BEHIND: [(&str, &str); 5] = [
    ("do_preadv", "preadv2"),
    ("do_pwritev", "pwritev2"),
    ("do_readv", "readv"),
    ("do_writev", "writev"),
    ("do_sendfile", "sendfile"),
];

/// The name of the call that a kernel function performs, if it is its entry: `__x64_sys_openat`.
pub fn entered_call(function: &str) -> Option<&str> {
    let behind = BEHIND.iter().find(|(behind, _)| *behind == function).map(|(_, call)| *call);
    let entry = || ENTRIES.iter().find_map(|entry| function.strip_prefix(entry));
    let name = behind.or_else(entry)?;
    Some(RENAMED.iter().find(|(entry, _)| *entry == name).map_or(name, |(_, call)| call))
}
