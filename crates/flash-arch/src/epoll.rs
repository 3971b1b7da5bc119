//! Readiness: the kernel says which sockets could be read or written, as edges, and the loop makes the calls.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use flash_core::output::Output;
use flash_observe::metrics::LoopMetrics;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags as Flag};
use rustix::io::Errno;

use crate::accept::Listener;
use crate::inbox::Inbox;
use crate::port::{Event, Port, Until, Watched as Stream, receive_buffer};
use crate::socket::{self, Received, Sent};

pub(crate) struct Epoll {
    epoll: OwnedFd,
    /// As their tokens and flags, because the kernel's form of them stays with its thread.
    events: Vec<(u64, Flag)>,
    next: usize,
    buffer: Box<[u8]>,
}

pub(crate) struct Link {
    watched: Watched,
    /// Nothing says that a read would find nothing.
    readable: bool,
    /// The client has closed its side: reads go on until they see the end.
    hung_up: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Watched {
    No,
    /// For what comes. That there is room to send would be an event, and a turn, at once.
    Received,
    /// And for room, from the first time on that there was none.
    Writable,
}

const EVENTS_MAX: usize = 256;
const RECEIVED: Flag = Flag::IN.union(Flag::RDHUP).union(Flag::ET);

impl Port for Epoll {
    type Link = Link;
    type News = Flag;

    fn new(inbox: &Arc<Inbox>, token: u64) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, inbox.bell(), EventData::new_u64(token), Flag::IN | Flag::ET)?;
        let buffer = receive_buffer();
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX), next: 0, buffer })
    }

    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.events.clear();
        self.next = 0;
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok((events, _)) => {
                self.events.extend(events.iter().map(|event| (event.data.u64(), event.flags)));
                Ok(self.events.len())
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn next(&mut self) -> Option<Event<Flag>> {
        let &(token, news) = self.events.get(self.next)?;
        self.next += 1;
        Some(Event { token, news })
    }

    fn listen(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        // Exclusive: one arrival wakes one loop.
        let flags = Flag::IN | Flag::EXCLUSIVE;
        epoll::add(&self.epoll, listener.as_fd(), EventData::new_u64(token), flags)?;
        listener.loops.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn listen_again(&mut self, listener: &Listener, token: u64) -> io::Result<()> {
        // As a level, it is heard of until nobody waits. But the first in the row is woken first: whoever was goes to the
        // end, or one loop would have nearly all connections.
        if listener.loops.load(Ordering::Relaxed) == 1 {
            return Ok(());
        }
        self.ignore(listener, token);
        self.listen(listener, token)
    }

    fn ignore(&mut self, listener: &Listener, _token: u64) {
        if epoll::delete(&self.epoll, listener.as_fd()).is_ok() {
            listener.loops.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn link() -> Link {
        // Its request may have come along with it.
        Link { watched: Watched::No, readable: true, hung_up: false }
    }

    fn note(&mut self, link: &mut Link, news: Flag) -> bool {
        link.readable |= news.intersects(Flag::IN | Flag::RDHUP | Flag::HUP | Flag::ERR);
        link.hung_up |= news.intersects(Flag::RDHUP | Flag::HUP);
        !news.intersects(Flag::ERR | Flag::HUP)
    }

    fn receive(&mut self, link: &mut Link, socket: &OwnedFd) -> Received {
        if !link.readable {
            return Received::Blocked;
        }
        let received = socket::receive(socket, &mut self.buffer);
        match received {
            // A short read has emptied the socket; what comes later is a new event.
            Received::Bytes(count) => link.readable = count == self.buffer.len() || link.hung_up,
            Received::Blocked => link.readable = false,
            Received::End | Received::Gone => {}
        }
        received
    }

    fn received(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }

    fn send(
        &mut self,
        _link: &mut Link,
        socket: &OwnedFd,
        _token: u64,
        output: &Output,
        metrics: &LoopMetrics,
    ) -> Option<Sent> {
        Some(socket::send(socket, output, Some(metrics)))
    }

    fn settle(&mut self, link: &mut Link, socket: &OwnedFd, token: u64, until: Until) -> io::Result<()> {
        match (link.watched, until) {
            (Watched::No | Watched::Received, Until::Writable) => {
                let flags = RECEIVED | Flag::OUT;
                match link.watched {
                    Watched::No => epoll::add(&self.epoll, socket, EventData::new_u64(token), flags)?,
                    _ => epoll::modify(&self.epoll, socket, EventData::new_u64(token), flags)?,
                }
                link.watched = Watched::Writable;
            }
            (Watched::No, Until::Received | Until::Sent | Until::Completed) => {
                epoll::add(&self.epoll, socket, EventData::new_u64(token), RECEIVED)?;
                link.watched = Watched::Received;
            }
            (Watched::No, Until::Others) | (Watched::Received | Watched::Writable, _) => {}
        }
        Ok(())
    }

    fn watch(&mut self, stream: &OwnedFd, token: u64, watched: Stream) -> io::Result<()> {
        let flags = if watched == Stream::Room { RECEIVED | Flag::OUT } else { RECEIVED };
        Ok(epoll::add(&self.epoll, stream, EventData::new_u64(token), flags)?)
    }

    fn goes_on(_: &Flag) -> bool {
        true
    }

    fn forget(&mut self, stream: &OwnedFd, _token: u64) {
        // One that is not there any more is forgotten.
        let _ = epoll::delete(&self.epoll, stream);
    }

    fn close(&mut self, _link: Link, socket: OwnedFd, _token: u64) {
        // Which takes it out of the epoll as well.
        drop(socket);
    }
}
