//! What the server tells the service manager that started it (sd_notify(3)): that it is ready, reloads, stops, and lives.

use std::env;
use std::fmt;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flash_os::socket;
use rustix::time::{ClockId, clock_gettime};

/// The service manager, if there is one. It is connected from the start, because a server in its sandbox makes no connection.
#[derive(Clone, Debug, Default)]
pub struct ServiceManager {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Duration>,
    is_silent: Arc<AtomicBool>,
}

/// A manager that takes no messages must not hold the server up for longer.
const PATIENCE: Duration = Duration::from_secs(1);

impl ServiceManager {
    /// The manager that the environment names.
    ///
    /// # Errors
    /// If it cannot be reached.
    pub fn of_environment() -> io::Result<Self> {
        let Some(address) = env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else {
            return Ok(Self::default());
        };
        let address = match address.as_encoded_bytes() {
            [b'@', name @ ..] => socket::address_without_file(name)?,
            _ => SocketAddr::from_pathname(Path::new(&address))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { socket: Some(Arc::new(socket)), watchdog: watchdog(), is_silent: Arc::default() })
    }

    /// How often the manager wants to hear that the server lives, at the least.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The server serves: after its start, and after each reload.
    pub fn ready(&self, status: fmt::Arguments<'_>) {
        self.tell(format_args!("READY=1\nSTATUS={status}"));
    }

    /// A reload has begun. [`ServiceManager::ready`] ends it.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        self.tell(format_args!("RELOADING=1\nMONOTONIC_USEC={us}"));
    }

    pub fn stopping(&self) {
        self.tell(format_args!("STOPPING=1\nSTATUS=finishes the requests under way"));
    }

    /// The server lives, and this is what it does.
    pub fn alive(&self, status: fmt::Arguments<'_>) {
        self.tell(format_args!("WATCHDOG=1\nSTATUS={status}"));
    }

    /// Another process serves from now on, and speaks to the manager in this one's place.
    pub fn succeeded_by(&self, pid: u32) {
        self.tell(format_args!("MAINPID={pid}"));
        self.is_silent.store(true, Ordering::Relaxed);
    }

    fn tell(&self, message: fmt::Arguments<'_>) {
        if let Some(socket) = &self.socket
            && !self.is_silent.load(Ordering::Relaxed)
        {
            // A manager that has ended needs no news.
            let _ = socket.send(message.to_string().as_bytes());
        }
    }
}

/// sd_watchdog_enabled(3).
fn watchdog() -> Option<Duration> {
    let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    number("WATCHDOG_USEC").filter(|us| is_ours && *us > 0).map(Duration::from_micros)
}
