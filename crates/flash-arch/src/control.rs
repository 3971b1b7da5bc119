//! What controls a server from outside: the thread that reloads, and the admin socket.

use std::io;
use std::sync::Arc;

use crate::admin;
use crate::listener::{Listener, Listeners};
use crate::reload::{self, Configurator};
use crate::server_state::{ServerParts, ServerState};

/// How a server is configured, and where administrators reach it.
pub struct Control {
    pub configurator: Box<dyn Configurator>,
    /// The admin socket, if there is one.
    pub admin: Option<Listener>,
}

impl Control {
    pub(crate) fn parts(&self) -> io::Result<ServerParts> {
        self.configurator.parts(0)
    }

    /// Starts the threads. `wake` makes the loops look for listeners and for the configuration.
    pub(crate) fn start(
        self,
        shared: &Arc<ServerState>,
        wake: impl Fn(&Arc<Listeners>) + Send + 'static,
    ) -> io::Result<()> {
        reload::start(shared, self.configurator, wake)?;
        self.admin.map_or(Ok(()), |socket| admin::start(socket, Arc::clone(shared)))
    }
}
