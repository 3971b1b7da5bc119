//! A connector in a thread, asked for what it may do and for what it may not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use flash_os::socket::NO_SIGNAL;
use flash_process::private_socket;
use rustix::net::SendFlags;

use super::*;
use crate::connector::{Connector, result};

const PATIENCE: Duration = Duration::from_secs(60);
/// `MSG_FASTOPEN`, which neither rustix nor socket2 knows.
const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(0x2000_0000);

/// One that knows these servers.
pub(crate) fn connector(servers: Vec<ServerConfig>) -> Connector {
    let start = move || {
        let (ours, theirs) = ipc::pair()?;
        let servers = servers.clone();
        thread::spawn(move || run(&theirs, servers.iter(), &[], || Ok(())));
        Ok(ours)
    };
    Connector::start(start).expect("it starts")
}

fn server(address: Address, lookup: Option<&str>) -> ServerConfig {
    ServerConfig {
        name: "a server".into(),
        address,
        lookup: lookup.map(str::to_owned),
        tls: None,
        is_http2: false,
    }
}

fn reporter() -> Reporter {
    Reporter { stderr_line: Box::new(|_, _| {}), log: Box::new(|_| {}) }
}

fn tcp() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Inet(vec![listener.local_addr().unwrap()]);
    (listener, address)
}

fn unix(path: &Path) -> Address {
    Address::Unix(UnixAddress::new(path).unwrap())
}

/// Waits for the connection.
fn connected(reply: Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let reply = reply?;
    loop {
        match result(&reply) {
            Some(result) => return result,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn it_connects_to_servers_of_the_configuration_and_to_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let (known, known_address) = tcp();
    let (_other, other_address) = tcp();
    let named = format!("localhost:{}", known.local_addr().unwrap().port());
    let _listener = UnixListener::bind(&path).unwrap();
    let servers = [
        server(known_address.clone(), None),
        server(unix(&path), None),
        server(Address::Inet(Vec::new()), Some(&named)),
    ];
    let targets = servers.each_ref().map(ServerConfig::target);
    let connector = connector(servers.to_vec());
    for target in &targets {
        connected(connector.connect(target, PATIENCE)).unwrap();
    }
    let port = known.local_addr().unwrap().port();
    let elsewhere = [
        other_address.to_string(),
        format!("127.0.0.2:{port}"),
        format!("unix:{}", folder.path().join("other").display()),
        String::new(),
    ];
    for target in &elsewhere {
        assert_eq!(connected(connector.connect(target, PATIENCE)).err(), Some(Errno::ACCESS), "{target}");
    }
    drop(known);
    assert_eq!(connected(connector.connect(&targets[0], PATIENCE)).err(), Some(Errno::CONNREFUSED));
    assert!(
        connector.reach(&targets[0], PATIENCE).is_err() && connector.reach(&targets[1], PATIENCE).is_ok()
    );
}

/// The configuration's addresses are old when a connector takes the place of one that was killed.
#[test]
fn a_name_is_looked_up_before_it_is_connected_to() {
    let ((listener, _), (_other, old)) = (tcp(), tcp());
    let named = server(old.clone(), Some(&format!("localhost:{}", listener.local_addr().unwrap().port())));
    let unknown = server(old, Some(&format!("{}:80", name_sources::NO_NAME)));
    let targets = [named.target(), unknown.target()];
    let connector = connector(vec![named, unknown]);
    let stream = connected(connector.connect(&targets[0], PATIENCE)).unwrap();
    assert_eq!(TcpStream::from(stream).peer_addr().unwrap(), listener.local_addr().unwrap());
    assert_eq!(connected(connector.connect(&targets[1], PATIENCE)).err(), Some(Errno::ADDRNOTAVAIL));
}

#[test]
fn it_ends_when_a_file_for_names_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (hosts, new) = (folder.path().join("hosts"), folder.path().join("new"));
    std::fs::write(&hosts, "127.0.0.1 a").unwrap();
    let (ours, theirs) = ipc::pair().unwrap();
    let files = Arc::new(NameFiles::new(&[hosts.to_str().unwrap(), "/no/such/file"], theirs));
    let target = Target::new(&server(Address::Inet(Vec::new()), Some("a:80")), &files);
    // One that is written anew stays the same.
    std::fs::write(&hosts, "127.0.0.2 a").unwrap();
    target.looked_up(None);
    assert!(ipc::is_idle(&ours));
    std::fs::write(&new, "127.0.0.3 a").unwrap();
    std::fs::rename(&new, &hosts).unwrap();
    target.looked_up(None);
    assert!(!ipc::is_idle(&ours) && ipc::try_send(&ours, b"x", &[]) == Err(Errno::PIPE));
}

#[test]
fn no_connection_is_begun_that_is_one_too_many_for_its_server() {
    let ((listener, address), (_other, other)) = (tcp(), tcp());
    let servers = [server(address, None), server(other, None)];
    let names = servers.each_ref().map(ServerConfig::target);
    let files = Arc::new(NameFiles::new(&[], ipc::pair().unwrap().0));
    let target = |server: &ServerConfig| (server.target(), Arc::new(Target::new(server, &files)));
    let targets: HashMap<_, _> = servers.iter().map(target).collect();
    targets[&names[0]].pending.store(PENDING_MAX, Ordering::Relaxed);
    let process = Process { targets, background: Arc::new(CommandChannel::new().unwrap()) };
    let connect = |target| {
        let (ours, theirs) = ipc::pair().unwrap();
        process.serve(Some(Request::Connect { target, patience_ms: 1000 }), theirs, None);
        connected(Ok(ours))
    };
    assert_eq!(connect(&names[0]).err(), Some(Errno::AGAIN));
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nothing has arrived there");
    assert!(connect(&names[1]).is_ok(), "another server has a number of its own");
}

#[test]
fn who_waits_for_a_full_queue_gets_its_room_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let servers = vec![server(unix(&path), None)];
    let target = servers[0].target();
    let connector = connector(servers);
    connected(connector.connect(&target, PATIENCE)).unwrap();
    let mut replies: Vec<OwnedFd> = (0..5).map(|_| connector.connect(&target, PATIENCE).unwrap()).collect();
    assert_eq!(connected(connector.connect(&target, Duration::ZERO)).err(), Some(Errno::AGAIN));
    while !replies.is_empty() {
        assert!(replies.iter().all(|reply| result(reply).is_none()));
        listener.accept().unwrap();
        connected(Ok(replies.remove(0))).unwrap();
    }
}

/// A socket in progress could be sent elsewhere by a server that has been taken over.
#[test]
fn a_connection_leads_nowhere_else() {
    let (listener, address) = tcp();
    let (other, _) = tcp();
    let servers = vec![server(address, None)];
    let target = servers[0].target();
    let stream = connected(connector(servers).connect(&target, PATIENCE)).unwrap();
    let elsewhere = other.local_addr().unwrap();
    let send = || rustix::net::sendto(&stream, b"x", FAST_OPEN | NO_SIGNAL, &elsewhere);
    assert_eq!(send(), Err(Errno::ISCONN));
    // The same when the connection is over.
    let (mut accepted, _) = listener.accept().unwrap();
    accepted.write_all(b"hello").unwrap();
    socket2::SockRef::from(&accepted).set_linger(Some(Duration::ZERO)).unwrap();
    drop(accepted);
    let mut stream = TcpStream::from(stream.try_clone().unwrap());
    stream.set_nonblocking(false).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    assert_eq!(send(), Err(Errno::ISCONN));
}

#[test]
fn a_connection_that_is_reset_at_once_is_said_to_be() {
    let (listener, _) = tcp();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    socket2::SockRef::from(&accepted).set_linger(Some(Duration::ZERO)).unwrap();
    drop(accepted);
    assert!((&stream).read(&mut [0]).is_err());
    assert_eq!(settled(stream.into()).err(), Some(Errno::CONNRESET));
}

#[test]
fn sockets_of_applications_are_reached_by_their_places_and_others_are_not() {
    let connector = connector(Vec::new());
    let (listener, place) = connector.listen(&reporter()).unwrap();
    let mut stream = UnixStream::from(connected(connector.connect_to_place(&place, &reporter())).unwrap());
    stream.write_all(b"x").unwrap();
    let mut byte = [0];
    UnixListener::from(listener).accept().unwrap().0.read_exact(&mut byte).unwrap();
    assert_eq!(connected(connector.connect_to_place(&place, &reporter())).err(), Some(Errno::CONNREFUSED));
    // One with a name is another program's.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    let named = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
    assert!(UnixStream::connect(private_socket::path(&named)).is_ok());
    assert_eq!(connected(connector.connect_to_place(&named, &reporter())).err(), Some(Errno::ACCESS));
}
