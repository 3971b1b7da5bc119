//! io_uring is Linux's alone: there is no ring to be had.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::operations::Completion;

pub struct Ring(Infallible);

impl Ring {
    /// # Errors
    /// Always.
    pub fn new() -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring is Linux's"))
    }

    pub fn begin(&mut self) -> io::Result<()> {
        match self.0 {}
    }

    pub fn receive(&mut self, _: BorrowedFd<'_>, _: u64) {
        match self.0 {}
    }

    pub fn send(&mut self, _: BorrowedFd<'_>, _: u64, _: &[IoSlice<'_>]) -> bool {
        match self.0 {}
    }

    pub fn poll(&mut self, _: BorrowedFd<'_>, _: u64, _: u32, _: bool) {
        match self.0 {}
    }

    pub fn cancel_receive(&mut self, _: u64) {
        match self.0 {}
    }

    pub fn cancel_poll(&mut self, _: u64) {
        match self.0 {}
    }

    pub fn close(&mut self, _: OwnedFd) {
        match self.0 {}
    }

    pub fn wait(&mut self, _: Option<Duration>) -> io::Result<usize> {
        match self.0 {}
    }

    pub fn next_completion(&mut self) -> Option<Completion> {
        match self.0 {}
    }

    pub fn received(&self) -> &[u8] {
        match self.0 {}
    }
}
