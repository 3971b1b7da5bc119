//! The epoll instances and rings of a process, and who is behind what they watch, as `/proc` tells.

use std::collections::{HashMap, HashSet};
use std::fs;

/// The epoll descriptors of a process, and how many rings it has; nothing if it may not be looked into.
pub(crate) fn instances(pid: u32) -> Option<(Vec<u32>, usize)> {
    let (mut epolls, mut rings) = (Vec::new(), 0);
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        let Some(descriptor) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match fs::read_link(entry.path()).unwrap_or_default().to_str() {
            Some("anon_inode:[eventpoll]") => epolls.push(descriptor),
            Some("anon_inode:[io_uring]") => rings += 1,
            _ => {}
        }
    }
    Some((epolls, rings))
}

/// Whether several clients are behind an epoll instance; nothing if it may not be looked into, or is gone.
///
/// A database's process waits for its one client, and for signals beside it: when it sleeps, nobody else waits.
pub(crate) fn has_several_clients(place: &str, descriptor: u32, accepting: &mut Accepting) -> Option<bool> {
    let about = fs::read_to_string(format!("{place}/fdinfo/{descriptor}")).ok()?;
    let members = about.lines().filter_map(|line| line.strip_prefix("tfd:")?.split_whitespace().next());
    let members: Vec<Member> =
        members.map(|member| Member::of(place, &format!("{place}/fd/{member}"), accepting)).collect();
    Some(are_several(&members))
}

/// What an epoll instance watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    /// A socket whose other side is one client.
    Connection,
    Signals,
    /// Other threads, the time, or the end of another process.
    WakeUp,
    /// A socket that any number of clients come to, or a file of another kind.
    Source,
}

impl Member {
    fn of(place: &str, link: &str, accepting: &mut Accepting) -> Member {
        let link = fs::read_link(link).unwrap_or_default();
        match link.to_str().unwrap_or_default() {
            "anon_inode:[signalfd]" => Member::Signals,
            "anon_inode:[eventfd]" | "anon_inode:[timerfd]" | "anon_inode:[pidfd]" => Member::WakeUp,
            link if link.starts_with("pipe:") => Member::WakeUp,
            link => match link.strip_prefix("socket:[").and_then(|link| link.strip_suffix(']')) {
                Some(inode) if !accepting.has(place, inode) => Member::Connection,
                _ => Member::Source,
            },
        }
    }
}

/// One connection beside wake-ups is one client, and signals beside wake-ups are none. Of a single member nothing is known.
fn are_several(members: &[Member]) -> bool {
    let count = |wanted| members.iter().filter(|&&member| member == wanted).count();
    let connections = count(Member::Connection);
    let is_one = connections == 1 || connections == 0 && count(Member::Signals) > 0;
    members.len() < 2 || count(Member::Source) > 0 || !is_one
}

/// Sockets that clients come to, by the namespace that they are in: those that listen, and those of datagrams without a peer.
#[derive(Default)]
pub(crate) struct Accepting {
    by_namespace: HashMap<String, HashSet<String>>,
}

/// Files of a network namespace, each with the places of the state and the inode, and the states that count.
const TABLES: [(&str, usize, usize, &str); 4] =
    [("tcp", 3, 9, "0A"), ("tcp6", 3, 9, "0A"), ("udp", 3, 9, "07"), ("udp6", 3, 9, "07")];
/// In the flags of a Unix socket.
const LISTENS: u64 = 0x10000;
const CONNECTED: &str = "03";

impl Accepting {
    fn has(&mut self, place: &str, inode: &str) -> bool {
        let namespace = fs::read_link(format!("{place}/ns/net")).unwrap_or_default();
        let namespace = namespace.to_string_lossy().into_owned();
        self.by_namespace.entry(namespace).or_insert_with(|| read_accepting(place)).contains(inode)
    }
}

fn read_accepting(place: &str) -> HashSet<String> {
    let read = |table: &str| fs::read_to_string(format!("{place}/net/{table}")).unwrap_or_default();
    let mut inodes = HashSet::new();
    for (table, state, inode, counts) in TABLES {
        for line in read(table).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.get(state) == Some(&counts) {
                inodes.extend(words.get(inode).map(|inode| (*inode).to_owned()));
            }
        }
    }
    for line in read("unix").lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[_, _, _, flags, _, state, inode, ..] = &words[..] else { continue };
        let listens = u64::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0);
        if listens || state != CONNECTED {
            inodes.insert(inode.to_owned());
        }
    }
    inodes
}

#[test]
fn one_connection_beside_wake_ups_is_one_client() {
    use Member::{Connection, Signals, Source, WakeUp};
    // PostgreSQL: a backend, and a process without a client.
    assert!(!are_several(&[Connection, Signals, WakeUp]));
    assert!(!are_several(&[Signals, WakeUp]));
    assert!(!are_several(&[Connection, WakeUp, WakeUp]));
    // An idle server, one with two clients, and loops that have just been made.
    assert!(are_several(&[Source]) && are_several(&[Source, WakeUp]));
    assert!(are_several(&[Connection, Connection]));
    assert!(are_several(&[Connection]) && are_several(&[WakeUp]) && are_several(&[]));
    assert!(are_several(&[WakeUp, WakeUp]));
}
