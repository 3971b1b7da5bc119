//! What a connection wants, performed in one place for all drivers.
//!
//! [`perform`] knows every [`Want`]. A [`Driver`] knows how its thread receives, sends and waits, and who does a job. The compiler
//! makes a copy of `perform` for each driver, so a loop calls nothing through a pointer.

use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::OwnedFd;

use flash_core::job::Job;
use flash_core::{Connection, Context, ExchangeId, Interest, Want};
use flash_observe::metrics::LoopMetrics;

use crate::connections::socket::{self, Received, Sent};
use crate::connections::transport::Transport;
use crate::poller::WakeOn;

/// A connection's turn in a loop, in a stage, or with a worker.
pub(crate) trait Driver {
    /// How a turn ends.
    type End;
    /// The connection is over.
    const CLOSE: Self::End;

    /// Lends what the connection's calls need.
    fn lend<R>(&mut self, call: impl FnOnce(Served<'_, '_>) -> R) -> R;

    /// Receives, and tells the connection. Returns whether the connection goes on without more bytes.
    fn receive(&mut self) -> ControlFlow<Self::End, bool>;

    /// Sends the front of the output. Returns `None` if the send has only begun.
    fn send(&mut self) -> ControlFlow<Self::End, Option<Sent>>;

    fn job(&mut self, id: ExchangeId, job: Job) -> ControlFlow<Self::End>;

    fn check_login(&mut self, id: ExchangeId) -> ControlFlow<Self::End>;

    /// Opens the upstream of an exchange, or moves its bytes.
    fn upstream(&mut self, id: ExchangeId, want: &Want) -> ControlFlow<Self::End>;

    /// Gives the streams of finished exchanges back to their upstreams.
    fn release(&mut self);

    fn wait(&mut self, until: WakeOn) -> ControlFlow<Self::End>;

    /// Waits for the client, or for an upstream.
    fn wait_io(&mut self, interest: Interest) -> ControlFlow<Self::End>;

    /// Another process has the socket, so its events are not needed here.
    fn forget(&mut self) {}
}

/// A connection that is served, and what carries its bytes.
pub(crate) struct Served<'a, 'c> {
    pub(crate) connection: &'a mut Connection,
    pub(crate) transport: &'a mut Transport,
    pub(crate) socket: &'a OwnedFd,
    pub(crate) cx: &'a mut Context<'c>,
}

impl Served<'_, '_> {
    /// Tells the connection what was received. Returns whether it goes on without more bytes.
    #[inline]
    pub(crate) fn received<'b>(self, received: Received, bytes: impl FnOnce(usize) -> &'b [u8]) -> bool {
        let Self { connection, transport, socket, cx } = self;
        match received {
            Received::Bytes(count) => transport.received(bytes(count), socket, connection, cx),
            Received::Blocked => return connection.receive_blocked(),
            Received::End => connection.received_end(cx),
            Received::Gone => connection.abort(cx),
        }
        true
    }

    /// Sends the front of the output, if there is one, through a socket that this thread may use itself.
    pub(crate) fn send_now(&mut self, metrics: Option<&LoopMetrics>) -> Sent {
        match self.connection.output() {
            Some(output) => self.transport.send_now(self.socket, output, metrics),
            None => Sent::Bytes(0),
        }
    }

    /// Tells the connection what was sent. Returns whether it goes on before the socket takes more.
    #[inline]
    pub(crate) fn sent(self, sent: Option<Sent>) -> bool {
        let Self { connection, cx, .. } = self;
        match sent {
            Some(Sent::Bytes(count)) => connection.sent(count, cx),
            Some(Sent::Broken) => connection.abort(cx),
            Some(Sent::Blocked) => return connection.send_blocked(),
            None => return connection.is_exchanging() && connection.send_blocked(),
        }
        true
    }
}

/// Performs what the connection wants next, unless its transport comes first.
#[inline]
pub(crate) fn perform<D: Driver>(driver: &mut D) -> ControlFlow<D::End> {
    if driver.lend(|served| served.transport.has_step() && !served.connection.is_over()) {
        return driver.wait(WakeOn::Completed);
    }
    if driver.lend(|served| served.transport.holds_back(served.socket, served.connection, served.cx)) {
        return driver.wait(WakeOn::Writable);
    }
    let want = driver.lend(|served| served.connection.want(served.cx));
    if driver.lend(|served| !served.cx.tally.released.is_empty()) {
        driver.release();
    }
    match want {
        Want::Receive => match driver.receive()? {
            true => {}
            false => return driver.wait(WakeOn::Received),
        },
        Want::Send => {
            let sent = driver.send()?;
            match driver.lend(|served| served.sent(sent)) {
                true => {}
                false if sent.is_none() => return driver.wait(WakeOn::Sent),
                false => return driver.wait(WakeOn::Writable),
            }
        }
        Want::Job(id, job) => return driver.job(id, job),
        Want::CheckLogin(id) => return driver.check_login(id),
        Want::OpenUpstream(id)
        | Want::SendUpstream(id)
        | Want::ReceiveUpstream(id)
        | Want::ShutdownUpstream(id) => return driver.upstream(id, &want),
        Want::WaitIo(mut interest) => {
            interest.client_out |= driver.lend(|served| served.transport.waits());
            return driver.wait_io(interest);
        }
        Want::Pause => return driver.wait(WakeOn::Paced),
        Want::WaitJob => return driver.wait(WakeOn::Completed),
        Want::ShutdownWrite => {
            if driver.lend(|served| served.transport.shutdown(served.socket)).is_err() {
                return Break(D::CLOSE);
            }
        }
        Want::Close if driver.lend(|served| served.transport.close(served.socket, served.connection)) => {
            return driver.wait(WakeOn::Writable);
        }
        Want::Close => return Break(D::CLOSE),
        Want::Detach => {
            driver.forget();
            return Break(D::CLOSE);
        }
        Want::Reset => {
            driver.lend(|served| socket::reset(served.socket));
            return Break(D::CLOSE);
        }
    }
    Continue(())
}
