//! What the BSDs have of the calls that POSIX does not have. `Epoll` stands for kqueue.

use crate::system_calls::Call;

pub(crate) fn is_present(call: Call) -> bool {
    match call {
        Call::Epoll | Call::Mincore | Call::Sendfile => true,
        Call::Accept4 => cfg!(not(target_vendor = "apple")),
        Call::CloseRange | Call::CloseRangeCloexec => cfg!(target_os = "freebsd"),
        _ => false,
    }
}

/// None of them is new enough to be missing.
pub(crate) fn refused() -> Option<&'static str> {
    None
}
