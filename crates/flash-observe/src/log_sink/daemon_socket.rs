//! The socket to a log daemon: a datagram for each line.
//!
//! A message to a daemon of this machine names the daemon's socket each time. So a daemon that was started again gets the next
//! message without a connection to make, which a sandbox would forbid. Only a log's writer thread waits here.

use std::fs;
use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use flash_os::memory_file;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg_addr};

use super::daemon::{Address, LogDaemon, Sender};

/// How long a line waits for a daemon that is being started again.
const AWAY_MAX: Duration = Duration::from_secs(3);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

pub(super) struct DaemonSocket {
    socket: Socket,
    sender: Sender,
    message: Vec<u8>,
    /// The daemon was away for so long that lines were lost.
    is_away: bool,
}

enum Socket {
    /// Connected to nobody.
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl DaemonSocket {
    /// Fails if nothing can ever listen there. A daemon that does not listen yet may come.
    pub(super) fn open(daemon: &LogDaemon) -> io::Result<DaemonSocket> {
        let socket = match &daemon.address {
            Address::SyslogUnix(path) | Address::Journald(path) => {
                match UnixDatagram::unbound()?.connect(path) {
                    Err(error) if error.kind() != ErrorKind::ConnectionRefused => return Err(error),
                    _ => Socket::Unix(UnixDatagram::unbound()?),
                }
            }
            Address::SyslogUdp(address) => Socket::Udp(connect(address)?),
        };
        Ok(DaemonSocket { socket, sender: sender(), message: Vec::new(), is_away: false })
    }

    /// For another writer, perhaps in another process.
    pub(super) fn again(&self) -> io::Result<DaemonSocket> {
        let socket = match &self.socket {
            Socket::Unix(socket) => Socket::Unix(socket.try_clone()?),
            Socket::Udp(socket) => Socket::Udp(socket.try_clone()?),
        };
        // A sandbox hides the host's name.
        let sender = Sender { pid: std::process::id(), host: self.sender.host.clone() };
        Ok(DaemonSocket { socket, sender, message: Vec::new(), is_away: false })
    }

    /// Looks an address of the network up again. A daemon of this machine is found with each message anyhow.
    pub(super) fn reopen(&mut self, daemon: &LogDaemon) -> io::Result<()> {
        if let Address::SyslogUdp(address) = &daemon.address {
            self.socket = Socket::Udp(connect(address)?);
        }
        self.is_away = false;
        Ok(())
    }

    /// # Errors
    /// Why the first line was lost, and how many were.
    pub(super) fn write(&mut self, daemon: &LogDaemon, lines: &[u8]) -> Result<(), (io::Error, u64)> {
        let mut failed: Option<(io::Error, u64)> = None;
        let mut left = lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            daemon.message(&self.sender, line, &mut self.message);
            if let Err(why) = self.send(daemon) {
                // Lines behind this one would wait as long.
                let lost = if self.is_away { left } else { 1 };
                failed.get_or_insert((why, 0)).1 += lost;
            }
            if self.is_away {
                break;
            }
            left -= 1;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Sends the message. Waits for a daemon that is away, unless it was away for long already.
    fn send(&mut self, daemon: &LogDaemon) -> io::Result<()> {
        let give_up = Instant::now() + AWAY_MAX;
        loop {
            let sent = match (&self.socket, &daemon.address) {
                (Socket::Unix(socket), Address::Journald(path)) => to_journald(socket, path, &self.message),
                (Socket::Unix(socket), Address::SyslogUnix(path)) => {
                    socket.send_to(&self.message, path).map(drop)
                }
                (Socket::Udp(socket), _) => return to_network(socket, &self.message),
                (Socket::Unix(_), Address::SyslogUdp(_)) => Err(ErrorKind::InvalidInput.into()),
            };
            match sent {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_of_one_away(&error) => {
                    if self.is_away || Instant::now() >= give_up {
                        self.is_away = true;
                        return Err(error);
                    }
                    thread::sleep(BETWEEN_TRIES);
                }
                sent => {
                    self.is_away = false;
                    return sent;
                }
            }
        }
    }
}

fn sender() -> Sender {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    // RFC 5424 §6.2.4: a dash stands for a name that is not known.
    let host = if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) { "-" } else { host };
    Sender { pid: std::process::id(), host: host.to_owned() }
}

fn connect(address: &str) -> io::Result<UdpSocket> {
    let to = address.to_socket_addrs()?.next().ok_or(ErrorKind::AddrNotAvailable)?;
    let own = if to.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { std::net::IpAddr::from([0, 0, 0, 0]) };
    let socket = UdpSocket::bind((own, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

/// The daemon has ended, or has not made its socket yet.
fn is_of_one_away(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound | ErrorKind::ConnectionReset)
}

/// An error may be about the message before, which nobody has got. Then this one is sent all the same.
fn to_network(socket: &UdpSocket, message: &[u8]) -> io::Result<()> {
    match socket.send(message) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            socket.send(message)?;
            Err(error)
        }
        sent => sent.map(drop),
    }
}

/// A message that is too long for a datagram goes in a sealed file of memory.
fn to_journald(socket: &UnixDatagram, path: &Path, message: &[u8]) -> io::Result<()> {
    match socket.send_to(message, path) {
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MSGSIZE | Errno::NOBUFS)) => {
            let memory = memory_file::of("flash-log", message)?;
            let descriptors = [memory.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            let to = SocketAddrUnix::new(path)?;
            sendmsg_addr(socket, &to, &[IoSlice::new(&[])], &mut control, SendFlags::empty())?;
            Ok(())
        }
        sent => sent.map(drop),
    }
}
