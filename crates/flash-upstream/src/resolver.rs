//! The addresses of servers that are known by their names. They change while Flash runs, as in clusters.
//!
//! The system's look-up waits for other machines, so a thread of its own does it. Whoever connects takes the last addresses that are
//! known, and a name server that does not answer delays nobody.

use std::net::ToSocketAddrs;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::address::Address;

/// How often a name is looked up. Systems do not tell how long its addresses hold.
pub(crate) const EVERY: Duration = Duration::from_secs(10);

/// What has a name.
pub(crate) trait Named: Send + Sync {
    /// The host and the port that are looked up, if it has a name.
    fn lookup(&self) -> Option<&str>;

    fn has_address(&self) -> bool;

    /// The result of a look-up: from now on it is at this address. If the name has none now, the last ones stay.
    fn looked_up(&self, found: Option<Address>);
}

/// Begins its thread with the first name.
#[derive(Debug, Default)]
pub(crate) struct Resolver {
    servers: Mutex<Option<Sender<Weak<dyn Named>>>>,
}

impl Resolver {
    /// From now on the server's name is looked up, if it has one.
    pub(crate) fn add<T: Named + 'static>(&self, server: &Arc<T>) {
        if server.lookup().is_none() {
            return;
        }
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = servers.get_or_insert_with(|| {
            let (sender, receiver) = channel();
            // Without a thread more, the first addresses stay.
            let _ = thread::Builder::new().name("resolver".into()).spawn(move || look_up(&receiver));
            sender
        });
        let server: Weak<T> = Arc::downgrade(server);
        let _ = servers.send(server);
    }
}

/// Until the [`Resolver`] is gone.
fn look_up(added: &Receiver<Weak<dyn Named>>) {
    let mut servers: Vec<Weak<dyn Named>> = Vec::new();
    loop {
        match added.recv_timeout(EVERY) {
            Ok(server) => {
                server
                    .upgrade()
                    .filter(|server| !server.has_address())
                    .iter()
                    .for_each(|server| refresh(&**server));
                servers.push(server);
            }
            Err(RecvTimeoutError::Timeout) => {
                servers.retain(|server| server.strong_count() > 0);
                servers.iter().filter_map(Weak::upgrade).for_each(|server| refresh(&*server));
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn refresh(server: &dyn Named) {
    let found = server.lookup().and_then(|name| name.to_socket_addrs().ok());
    let all: Vec<_> = found.into_iter().flatten().collect();
    server.looked_up((!all.is_empty()).then(|| Address::of_name(all)));
}
