//! close_range(2) of FreeBSD.

#[cfg(target_os = "freebsd")]
pub(crate) fn close(first: u32, last: u32) -> bool {
    // SAFETY: numbers only. Whoever thinks to own one finds it closed, which callers take care does not happen.
    unsafe { libc::close_range(first, last, 0) == 0 }
}

#[cfg(target_os = "freebsd")]
pub(crate) fn close_on_exec(first: u32) -> bool {
    // SAFETY: changes a flag of descriptors.
    unsafe { libc::close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) == 0 }
}

#[cfg(not(target_os = "freebsd"))]
pub(crate) fn close(_first: u32, _last: u32) -> bool {
    false
}

#[cfg(not(target_os = "freebsd"))]
pub(crate) fn close_on_exec(_first: u32) -> bool {
    false
}

/// They are not listed everywhere.
pub(crate) fn for_each_open(_first: u32, _last: u32, _each: &mut dyn FnMut(libc::c_int)) -> bool {
    false
}
