//! What a process of the server is for: a role. The [supervisor](crate::supervisor) knows no more of it than this.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use flash_os::fork;

use crate::child;

#[derive(Clone)]
pub struct Role<'a> {
    /// In what is logged.
    pub name: Rc<str>,
    pub on_end: OnEnd,
    /// The only descriptor that a process of this role keeps, beside standard input, output and error. Without one it
    /// keeps all that its parent has.
    pub socket: Option<Rc<OwnedFd>>,
    /// The process's life.
    pub main: Rc<dyn Fn() -> io::Result<()> + 'a>,
}

/// What the end of a process means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEnd {
    /// It is replaced: after this pause at most, if it lived shortly.
    Restart { pause_max: Duration },
    /// The same, unless it says by its exit code, 0, that the role is not needed any more.
    RestartUnlessDone { pause_max: Duration },
    /// Nothing. The process that asked for it learns of it by its socket.
    Forget,
}

impl Role<'_> {
    /// In a child that was forked for it.
    pub(crate) fn run(&self) -> ! {
        if let Some(socket) = &self.socket {
            fork::close_all_except(&[socket.as_fd()]);
        }
        child::run_and_exit(&self.name, || (self.main)())
    }
}

impl fmt::Debug for Role<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Role").field("name", &self.name).field("on_end", &self.on_end).finish_non_exhaustive()
    }
}
