//! Users: their home folders, and becoming one. The look-up may read files or ask the network: never call it from an
//! event loop.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: u32,
    /// The first of their groups.
    pub group: u32,
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
    if result != 0 || found.is_null() {
        return None;
    }
    user_of(&entry, &buffer)
}

/// Takes an entry's parts out of the buffer that they lie in. Where its home is elsewhere, it is nobody's.
fn user_of(entry: &libc::passwd, buffer: &[libc::c_char]) -> Option<User> {
    let start = entry.pw_dir.addr().checked_sub(buffer.as_ptr().addr())?;
    let home = buffer.get(start..)?.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0);
    let home = OsString::from_vec(home.collect()).into();
    Some(User { id: entry.pw_uid, group: entry.pw_gid, home })
}

/// All users that can be listed. Those of large directories usually cannot.
pub fn all() -> Vec<User> {
    let mut users = Vec::new();
    let mut buffer = vec![0; ENTRY_BYTES_MAX];
    // SAFETY: takes no memory of ours; the list that it begins anew is held by a lock within the C library.
    unsafe { libc::setpwent() };
    loop {
        // SAFETY: as in `named`.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = ptr::null_mut();
        // SAFETY: all four are valid for the call, and the buffer's length is its own.
        let result = unsafe { libc::getpwent_r(&mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
        if result != 0 || found.is_null() {
            break;
        }
        users.extend(user_of(&entry, &buffer));
    }
    // SAFETY: as `setpwent`.
    unsafe { libc::endpwent() };
    users
}

/// Makes this process, all of its threads, that user's for good, with that user's groups and no others.
///
/// # Errors
/// When the process is not root's.
pub fn become_user(name: &[u8], user: &User) -> io::Result<()> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a C string that outlives the call; the numbers are numbers.
    check(unsafe { libc::initgroups(name.as_ptr(), user.group) })?;
    // SAFETY: numbers only. The group comes first, since afterwards there would be no right to it.
    check(unsafe { libc::setresgid(user.group, user.group, user.group) })?;
    // SAFETY: numbers only.
    check(unsafe { libc::setresuid(user.id, user.id, user.id) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nobody_else_by_chance() {
        assert_eq!(named(b"root"), Some(User { id: 0, group: 0, home: "/root".into() }));
        assert_eq!(named(b"no-such-user-here"), None);
        assert_eq!(named(b"a\0b"), None);
    }

    #[test]
    fn root_is_among_all() {
        assert!(all().contains(&User { id: 0, group: 0, home: "/root".into() }));
    }
}
