//! What the BSDs have of the calls that POSIX does not have. `Epoll` stands for kqueue.

use crate::system_calls::Call;

pub(crate) fn is_present(call: Call) -> bool {
    match call {
        Call::Epoll | Call::Mincore => true,
        Call::Accept4 => cfg!(not(target_vendor = "apple")),
        _ => false,
    }
}
