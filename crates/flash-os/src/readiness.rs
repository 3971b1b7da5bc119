//! What a [poller](crate::poller) is asked for, and what it answers.

use std::ops::{BitOr, BitOrAssign};

use rustix::event::PollFlags;

/// What a descriptor is watched for. Its end and its errors are always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    pub(crate) input: bool,
    pub(crate) room: bool,
    pub(crate) mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Told for as long as it lasts.
    Level,
    /// As a level, but where the system can, it wakes one of those who watch.
    Exclusive,
    /// Told each time that more comes, or as much as [`Poller::rearm`](crate::poller::Poller::rearm) asks for.
    Edge,
    /// Told once, until it is asked for again.
    Once,
}

impl Interest {
    /// Nothing but the end.
    pub const NONE: Self = Self::new(false, false);
    /// Something to read, or to accept.
    pub const INPUT: Self = Self::new(true, false);
    /// Room to write.
    pub const ROOM: Self = Self::new(false, true);
    pub const BOTH: Self = Self::new(true, true);

    pub const fn new(input: bool, room: bool) -> Self {
        Self { input, room, mode: Mode::Level }
    }

    #[must_use]
    pub const fn exclusive(self) -> Self {
        Self { mode: Mode::Exclusive, ..self }
    }

    #[must_use]
    pub const fn edge(self) -> Self {
        Self { mode: Mode::Edge, ..self }
    }

    #[must_use]
    pub const fn once(self) -> Self {
        Self { mode: Mode::Once, ..self }
    }
}

/// An event, and the token that its descriptor is watched under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub token: u64,
    pub ready: Ready,
}

/// What has happened. The bits are those of poll(2), which are epoll's too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(pub(crate) u32);

impl Ready {
    pub const INPUT: Self = Self(PollFlags::IN.bits() as u32);
    pub const ROOM: Self = Self(PollFlags::OUT.bits() as u32);
    /// Both directions are shut.
    pub const HUNG_UP: Self = Self(PollFlags::HUP.bits() as u32);
    pub const ERROR: Self = Self(PollFlags::ERR.bits() as u32);
    /// The peer sends no more. Not every system tells: a read then finds it.
    pub const ENDED: Self = Self(0x2000);

    /// Whether a read finds bytes, an end or an error.
    pub const fn may_be_read(self) -> bool {
        self.intersects(Self(Self::INPUT.0 | Self::ENDED.0 | Self::HUNG_UP.0 | Self::ERROR.0))
    }

    /// Whether the peer sends no more.
    pub const fn has_ended(self) -> bool {
        self.intersects(Self(Self::ENDED.0 | Self::HUNG_UP.0))
    }

    /// Whether nothing can be sent either.
    pub const fn is_gone(self) -> bool {
        self.intersects(Self(Self::HUNG_UP.0 | Self::ERROR.0))
    }

    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Ready {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
