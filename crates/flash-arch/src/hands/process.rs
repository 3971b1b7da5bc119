//! A helper process as the process that serves sees it: a socket that is asked, and answers or ends.

use std::fmt;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use flash_core::job::{Failure, Job, Outcome};
use flash_disk::{Device, Disk, remote};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::post;

#[derive(Debug)]
pub(super) struct Process {
    number: usize,
    socket: OwnedFd,
    buffer: Box<[u8]>,
}

pub(super) enum Asked {
    Answered(Option<Outcome>),
    /// There is nothing to be expected of it any more.
    Lost(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Ended,
    AnsweredNonsense,
}

impl Process {
    pub(super) fn new(number: usize, socket: OwnedFd) -> Self {
        Self { number, socket, buffer: post::buffer() }
    }

    /// Whether it waits to be asked: it has neither ended nor said anything that nobody wanted to know.
    pub(super) fn is_waiting(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        rustix::net::recv(&self.socket, &mut [0; 1][..], flags).is_err_and(|error| error == Errno::AGAIN)
    }

    /// Has it do a job, and waits as long as that takes.
    pub(super) fn ask(&mut self, disk: &Disk, job: &Job, device: Device) -> Asked {
        let question = disk.ask(job, device);
        if let Err(error) =
            post::send(&self.socket, &question.bytes, question.descriptor.as_slice(), SendFlags::empty())
        {
            return match error.kind() {
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Asked::Lost(Why::Ended),
                // No memory or no descriptor left: a matter of time.
                _ => Asked::Answered(Some(remote::undone(job, Failure::Busy).into())),
            };
        }
        match post::receive(&self.socket, &mut self.buffer) {
            Ok(Some(letter)) if letter.incomplete => {
                Asked::Answered(Some(remote::undone(job, Failure::Busy).into()))
            }
            Ok(Some(letter)) => disk
                .understand(job, &letter.bytes, letter.descriptors)
                .map_or(Asked::Lost(Why::AnsweredNonsense), Asked::Answered),
            Ok(None) => Asked::Lost(Why::Ended),
            Err(_) => Asked::Lost(Why::AnsweredNonsense),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "helper-{}", self.number)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "ended",
            Self::AnsweredNonsense => "answered nonsense",
        })
    }
}
