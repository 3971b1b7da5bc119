//! Users' home folders. The look-up may read files or ask the network: never call it from an event loop.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: u32,
    pub home: PathBuf,
}

const ENTRY_BYTES_MAX: usize = 64 << 10;

/// The user of that name, if there is one.
pub fn named(name: &[u8]) -> Option<User> {
    let name = CString::new(name).ok()?;
    // SAFETY: `passwd` is pointers and numbers, for which all zeroes is a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut buffer = vec![0; ENTRY_BYTES_MAX];
    let mut found = ptr::null_mut();
    // SAFETY: all four are valid for the call, and the buffer's length is its own.
    let result =
        unsafe { libc::getpwnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    if result != 0 || found.is_null() || entry.pw_dir.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so `pw_dir` is a C string within `buffer`, which is still alive.
    let home = unsafe { CStr::from_ptr(entry.pw_dir) };
    Some(User { id: entry.pw_uid, home: PathBuf::from(OsStr::from_bytes(home.to_bytes())) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nobody_else_by_chance() {
        assert_eq!(named(b"root"), Some(User { id: 0, home: "/root".into() }));
        assert_eq!(named(b"no-such-user-here"), None);
        assert_eq!(named(b"a\0b"), None);
    }
}
