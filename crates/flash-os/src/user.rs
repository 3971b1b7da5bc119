//! Users: their home folders, and becoming one. The look-up may read files or ask the network: never call it from an
//! event loop.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::Mutex;

use crate::system;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: u32,
    /// The first of their groups.
    pub group: u32,
    pub home: PathBuf,
}

const ENTRY_BYTES_MAX: usize = 64 << 10;
const GROUP_BYTES_MAX: usize = 16 << 20;

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

/// The name of the user of that number, if there is one.
pub fn name_of(id: u32) -> Option<Vec<u8>> {
    // SAFETY: as in `named`.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut buffer = vec![0; ENTRY_BYTES_MAX];
    let mut found = ptr::null_mut();
    // SAFETY: all four are valid for the call, and the buffer's length is its own.
    let result = unsafe { libc::getpwuid_r(id, &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    if result != 0 || found.is_null() { None } else { text_at(entry.pw_name, &buffer) }
}

/// The number of the group of that name, if there is one.
pub fn group_named(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: all four are valid for the call, and the buffer's length is its own.
    group(|entry, buffer, found| unsafe {
        libc::getgrnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found)
    })
    .map(|(id, _)| id)
}

/// The name of the group of that number, if there is one.
pub fn group_name_of(id: u32) -> Option<Vec<u8>> {
    // SAFETY: all four are valid for the call, and the buffer's length is its own.
    group(|entry, buffer, found| unsafe {
        libc::getgrgid_r(id, entry, buffer.as_mut_ptr(), buffer.len(), found)
    })
    .and_then(|(_, name)| name)
}

/// A group's number and name, as a call of the C library finds it.
fn group(
    find: impl Fn(&mut libc::group, &mut [libc::c_char], &mut *mut libc::group) -> i32,
) -> Option<(u32, Option<Vec<u8>>)> {
    // Its members are part of an entry.
    let mut bytes = ENTRY_BYTES_MAX;
    loop {
        // SAFETY: `group` is pointers and numbers, for which all zeroes is a value.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut buffer = vec![0; bytes];
        let mut found = ptr::null_mut();
        match find(&mut entry, &mut buffer, &mut found) {
            libc::ERANGE if bytes < GROUP_BYTES_MAX => bytes *= 4,
            0 if !found.is_null() => return Some((entry.gr_gid, text_at(entry.gr_name, &buffer))),
            _ => return None,
        }
    }
}

/// Takes an entry's parts out of the buffer that they lie in. Where its home is elsewhere, it is nobody's.
fn user_of(entry: &libc::passwd, buffer: &[libc::c_char]) -> Option<User> {
    let home = OsString::from_vec(text_at(entry.pw_dir, buffer)?).into();
    Some(User { id: entry.pw_uid, group: entry.pw_gid, home })
}

/// The text that begins there in the buffer.
fn text_at(start: *const libc::c_char, buffer: &[libc::c_char]) -> Option<Vec<u8>> {
    let start = start.addr().checked_sub(buffer.as_ptr().addr())?;
    let text = buffer.get(start..)?.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0);
    Some(text.collect())
}

/// All users that can be listed. Those of large directories usually cannot.
pub fn all() -> Vec<User> {
    /// The C library has one list, and a place in it, for all threads.
    static LIST: Mutex<()> = Mutex::new(());
    let _walking = LIST.lock();
    let mut users = Vec::new();
    // SAFETY: takes no memory of ours, and no other thread walks the list.
    unsafe { libc::setpwent() };
    // SAFETY: an entry lies there until the next call, and no other thread makes one.
    while let Some(entry) = unsafe { libc::getpwent().as_ref() } {
        // SAFETY: a home is text that ends with a zero byte, and lies there as long as its entry.
        let home = unsafe { CStr::from_ptr(entry.pw_dir) };
        let home = OsString::from_vec(home.to_bytes().to_vec()).into();
        users.push(User { id: entry.pw_uid, group: entry.pw_gid, home });
    }
    // SAFETY: as `setpwent`.
    unsafe { libc::endpwent() };
    users
}

/// All that a process needs to become a user. Nothing has to be looked up for that later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub user: u32,
    group: u32,
    groups: Vec<libc::gid_t>,
}

impl Identity {
    /// The user with that user's groups and no others; without a name, only the first of them.
    ///
    /// # Errors
    /// When the name holds a zero byte.
    pub fn new(name: Option<&[u8]>, user: &User) -> io::Result<Self> {
        let groups = match name.map(CString::new).transpose()? {
            Some(name) => groups_of(&name, user.group),
            None => vec![user.group],
        };
        Ok(Self { user: user.id, group: user.group, groups })
    }

    /// Makes this process that user's for good, with all of its threads.
    ///
    /// # Errors
    /// When the process is not root's.
    pub fn take(&self) -> io::Result<()> {
        let Self { user, group, groups } = self;
        // SAFETY: as many numbers are read as there are, and they outlive the call.
        check(unsafe { libc::setgroups(groups.len() as _, groups.as_ptr()) })?;
        // SAFETY: numbers only. Root sets all of a process's users and groups at once; the group comes first, since afterwards there
        // would be no right to it.
        check(unsafe { libc::setgid(*group) })?;
        // SAFETY: numbers only.
        check(unsafe { libc::setuid(*user) })?;
        // The kernel takes root's rights, unless it was told not to.
        if *user == 0 { Ok(()) } else { system::user::give_up_rights() }
    }
}

/// The groups of the user of that name, and this one.
fn groups_of(name: &CString, group: u32) -> Vec<libc::gid_t> {
    let mut groups = vec![0; 64];
    loop {
        let room = groups.len() as libc::c_int;
        let mut count = room;
        // SAFETY: `name` is a C string that outlives the call, and as many numbers are written as there is room for.
        let result =
            unsafe { libc::getgrouplist(name.as_ptr(), group as _, groups.as_mut_ptr().cast(), &mut count) };
        groups.resize(count.unsigned_abs() as usize, 0);
        // It says how many there are, if that is more.
        if result != -1 || count <= room {
            return groups;
        }
    }
}

/// Makes this process that user's for good, with all of its threads.
///
/// # Errors
/// When the process is not root's.
pub fn become_user(name: Option<&[u8]>, user: &User) -> io::Result<()> {
    Identity::new(name, user)?.take()
}

/// Does something with that user's rights in this thread alone, and has this thread's rights back.
///
/// # Errors
/// When the process is not root's.
pub fn as_user<T>(name: Option<&[u8]>, user: &User, work: impl FnOnce() -> T) -> io::Result<T> {
    let Identity { user, group, groups } = Identity::new(name, user)?;
    // It is undone even if the work panics.
    let _own = system::user::take_for_this_thread(user, group, &groups)?;
    Ok(work())
}

/// Gives up all of root's rights but the one to become another user.
///
/// # Errors
/// When the system refuses.
pub fn keep_right_to_users() -> io::Result<()> {
    system::user::keep_right_to_users()
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use rustix::process::{self, Gid};

    use super::*;

    #[test]
    fn root_is_known_and_nobody_else_by_chance() {
        assert_eq!(named(b"root"), Some(User { id: 0, group: 0, home: "/root".into() }));
        assert_eq!(named(b"no-such-user-here"), None);
        assert_eq!(named(b"a\0b"), None);
    }

    #[test]
    fn names_of_numbers_and_numbers_of_groups() {
        assert_eq!((name_of(0), name_of(4_000_000_001)), (Some(b"root".to_vec()), None));
        assert_eq!((group_named(b"root"), group_named(b"no-such-group-here")), (Some(0), None));
        assert_eq!(group_named(b"a\0b"), None);
    }

    #[test]
    fn the_groups_of_a_user_are_those_of_the_system() {
        let root = named(b"root").unwrap();
        let Identity { groups, .. } = Identity::new(Some(b"root"), &root).unwrap();
        let output = std::process::Command::new("id").args(["-G", "root"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut expected: Vec<u32> = text.split_whitespace().map(|id| id.parse().unwrap()).collect();
        let mut groups = groups;
        groups.sort_unstable();
        expected.sort_unstable();
        assert_eq!(groups, expected);
        assert_eq!(Identity::new(None, &root).unwrap().groups, [0]);
        assert!(Identity::new(Some(b"a\0b"), &root).is_err());
    }

    #[test]
    fn a_thread_is_another_user_for_a_while() {
        if !process::geteuid().is_root() {
            println!("NOT TESTED: becoming another user takes root");
            return;
        }
        let ids =
            || (process::geteuid().as_raw(), process::getegid().as_raw(), process::getgroups().unwrap());
        let before = ids();
        let nobody = User { id: 65_534, group: 65_533, home: "/".into() };
        let during = as_user(None, &nobody, || {
            (ids(), std::fs::read("/etc/shadow").is_err(), process::getuid().is_root())
        });
        let (ids_during, is_denied, is_real_root) = during.unwrap();
        assert_eq!(ids_during, (65_534, 65_533, vec![Gid::from_raw(65_533)]));
        assert!(is_denied && is_real_root);
        assert_eq!(ids(), before);
        let panicked =
            std::panic::catch_unwind(|| as_user(Some(b"root"), &nobody, || panic!("on purpose")).unwrap());
        assert!(panicked.is_err());
        assert_eq!(ids(), before);
    }

    #[test]
    fn root_is_among_all() {
        assert!(all().contains(&User { id: 0, group: 0, home: "/root".into() }));
    }
}
