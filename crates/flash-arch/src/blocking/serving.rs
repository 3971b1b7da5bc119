//! A connection's time with a worker that blocks.

use std::mem;
use std::ops::ControlFlow::{self, Break, Continue};

use flash_core::job::Job;
use flash_core::{Context, Drain, ExchangeId, Interest, Want};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::{After, Blocking, LOOK_UP, ServedClient, Source};
use crate::connections::socket::{self, Sent};
use crate::driver::{Driver, Served, perform};
use crate::poller::WakeOn;

struct Serving<'a, S> {
    blocking: &'a mut Blocking<S>,
    client: &'a mut ServedClient,
    /// The last wait was for a client that has done nothing.
    was_in_vain: bool,
}

impl<S: Source> Blocking<S> {
    /// Serves a client until its connection ends or is parked.
    pub(super) fn serve(&mut self, client: &mut ServedClient) -> After {
        let mut serving = Serving { blocking: self, client, was_in_vain: false };
        let mut waits = true;
        // What is under way when the time to drain has passed is cut, and recorded as such.
        while !serving.blocking.worker.shared.has_given_up() {
            let (blocking, client) = (&mut *serving.blocking, &mut *serving.client);
            blocking.worker.report();
            blocking.worker.refresh();
            blocking.worker.drain = match blocking.source.is_retired() && client.stays() {
                // The client is told, and asks again over another connection.
                true if client.connection.is_between_requests() => Drain::AtOnce,
                true => Drain::AfterNextRequest,
                false => Drain::No,
            };
            if waits == client.connection.is_exchanging() {
                // If two sockets may become ready, the worker does not block on one of them.
                waits = !waits;
                let restored = match waits {
                    true => set_socket_timeout(&client.socket, Timeout::Send, Some(LOOK_UP)),
                    false => Ok(()),
                };
                if restored.and_then(|()| rustix::io::ioctl_fionbio(&client.socket, !waits)).is_err() {
                    return After::Close;
                }
            }
            match mem::take(&mut serving.was_in_vain) {
                true if blocking.gives_way(client) => return After::Close,
                true => {}
                false => blocking.source.goes_on(),
            }
            if client.connection.deadline_ms() <= blocking.worker.clock.now.ms() {
                socket::expire(&mut client.connection, &client.socket, &mut blocking.worker.cx());
            }
            if client.transport.has_step() && !client.connection.is_over() {
                blocking.take_step(client);
            } else if let Break(after) = perform(&mut serving) {
                return after;
            }
        }
        After::Close
    }
}

impl ServedClient {
    fn served<'a, 'c>(&'a mut self, cx: &'a mut Context<'c>) -> Served<'a, 'c> {
        let Self { connection, transport, socket, .. } = self;
        Served { connection, transport, socket, cx }
    }

    /// Whether the connection cannot go to another process: it has the keys of TLS, or the tables of HTTP/2.
    fn stays(&self) -> bool {
        self.transport.is_tls() || self.connection.is_http2()
    }
}

impl<S: Source> Driver for Serving<'_, S> {
    type End = After;
    const CLOSE: After = After::Close;

    fn lend<R>(&mut self, call: impl FnOnce(Served<'_, '_>) -> R) -> R {
        call(self.client.served(&mut self.blocking.worker.cx()))
    }

    fn receive(&mut self) -> ControlFlow<After, bool> {
        let (blocking, client) = (&mut *self.blocking, &mut *self.client);
        let is_idle = client.connection.is_idle()
            && blocking.worker.drain == Drain::No
            && !blocking.worker.shared.is_draining();
        // Noted first. A reload that comes later waits for this worker, and an earlier one is seen here.
        blocking.source.awaits_request(is_idle);
        if is_idle && blocking.source.is_retired() {
            match blocking.source.parks(&client.connection, &client.transport) {
                // What the client has sent may be in the socket already. Another one reads it.
                true => return Break(After::Park),
                false if client.stays() => return Continue(true),
                false => {}
            }
        }
        let received = match blocking.source.may_wait() && !blocking.is_crowded(&client.transport) {
            true => socket::receive(&client.socket, &mut blocking.buffer),
            false => socket::receive_now(&client.socket, &mut blocking.buffer),
        };
        blocking.source.awaits_request(false);
        blocking.worker.clock.read();
        // A reload may have ended during the wait.
        blocking.worker.refresh();
        let cx = &mut blocking.worker.cx();
        let goes_on = client.served(cx).received(received, |count| &blocking.buffer[..count]);
        // Behind a proxy its header says which client counts.
        blocking.source.holds(client.connection.counted_at());
        Continue(goes_on)
    }

    fn send(&mut self) -> ControlFlow<After, Option<Sent>> {
        let sent = self.lend(|mut served| served.send_now(None));
        self.blocking.worker.clock.read();
        Continue(Some(sent))
    }

    fn job(&mut self, id: ExchangeId, job: Job) -> ControlFlow<After> {
        let Blocking { source, worker, .. } = &mut *self.blocking;
        let outcome = source.run(&worker.shared, &job);
        // The time that the disk took does not count as the client's.
        worker.clock.read();
        self.client.connection.completed(id, outcome, &mut worker.cx());
        Continue(())
    }

    fn check_login(&mut self, id: ExchangeId) -> ControlFlow<After> {
        let Some(completions) = self.blocking.completions() else { return Break(After::Close) };
        self.blocking.check_login(&mut self.client.connection, id, &completions);
        Continue(())
    }

    fn upstream(&mut self, id: ExchangeId, want: &Want) -> ControlFlow<After> {
        let Some(completions) = self.blocking.completions() else { return Break(After::Close) };
        let Blocking { upstream_io, worker, streams, .. } = &mut *self.blocking;
        worker.clock.read();
        let stream = streams.iter().find(|(of, _)| *of == id).map(|(_, stream)| stream);
        let cx = &mut worker.cx();
        let opened = upstream_io.perform(want, self.client.served(cx), stream, (&completions, 0));
        streams.extend(opened.map(|stream| (id, stream)));
        Continue(())
    }

    fn release(&mut self) {
        self.blocking.release();
    }

    fn wait(&mut self, until: WakeOn) -> ControlFlow<After> {
        match until {
            WakeOn::Received => {
                self.was_in_vain = true;
                return self.blocking.leave(self.client);
            }
            // A job is done at once, so the connection waits for log-ins only.
            WakeOn::Completed if self.blocking.logins == 0 => return Break(After::Close),
            WakeOn::Completed | WakeOn::Paced => {
                self.blocking.wait_for_either(Interest::default(), self.client);
            }
            // The call that blocked has waited.
            WakeOn::Writable | WakeOn::Sent | WakeOn::NextTurn => {
                self.was_in_vain = true;
                self.blocking.worker.clock.read();
            }
        }
        Continue(())
    }

    fn wait_io(&mut self, interest: Interest) -> ControlFlow<After> {
        self.was_in_vain = !self.blocking.wait_for_either(interest, self.client);
        Continue(())
    }
}
