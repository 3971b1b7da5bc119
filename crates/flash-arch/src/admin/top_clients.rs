//! Which clients got most bytes in the last minute, and which request was the largest of each: who downloads what.
//!
//! Loops leave here what each response with a record has sent. None waits: a response is left out if its part is just being read. A
//! part has a bounded number of clients. A new one takes the place of the one with the fewest bytes, and goes on from its count, so
//! who gets most is never left out (the Space-Saving algorithm of Metwally, Agrawal and El Abbadi).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use flash_core::record::{Peer, Record};
use parking_lot::Mutex;

use crate::admin::slowest::{LISTS, TEXT_BYTES_MAX, WINDOW_MS, WINDOWS};
use crate::admin::snapshot::ClientSnapshot;

/// Clients of ten seconds in one part.
const CLIENTS_MAX: usize = 128;
/// As many are told.
const TOLD: usize = 10;

#[derive(Default)]
pub(crate) struct TopClients([Mutex<VecDeque<Window>>; LISTS]);

/// What clients got by responses that ended in the same ten seconds.
struct Window {
    number: u64,
    clients: HashMap<Client, Traffic>,
}

/// Its address. Clients at Unix sockets have none, and count as one.
type Client = Option<IpAddr>;

#[derive(Clone, Default)]
struct Traffic {
    responses: u64,
    bytes: u64,
    /// The largest response, and its request.
    largest_bytes: u64,
    largest: String,
}

impl TopClients {
    /// Adds a response that has ended. Never waits.
    pub(crate) fn add(&self, list: usize, record: &Record) {
        let request = || String::from_utf8_lossy(start_of(&record.request_line)).into_owned();
        let ended_ms = record.unix_ms + record.duration_us / 1000;
        self.add_response(list, ended_ms, record.peer, record.body_bytes, request);
    }

    fn add_response(
        &self,
        list: usize,
        ended_ms: u64,
        peer: Peer,
        bytes: u64,
        request: impl FnOnce() -> String,
    ) {
        let Some(mut windows) = self.0[list].try_lock() else { return };
        let number = ended_ms / WINDOW_MS;
        windows.retain(|window| window.number + WINDOWS > number && window.number <= number + 1);
        if windows.back().is_none_or(|latest| latest.number < number) {
            windows.push_back(Window { number, clients: HashMap::new() });
        }
        let Some(Window { clients, .. }) = windows.back_mut() else { return };
        let client = match peer {
            Peer::Inet(address) => Some(address.ip().to_canonical()),
            Peer::Unix => None,
        };
        if clients.len() == CLIENTS_MAX && !clients.contains_key(&client) {
            let fewest = clients.iter().min_by_key(|(_, traffic)| traffic.bytes).map(|(client, _)| *client);
            let replaced = fewest.and_then(|fewest| clients.remove(&fewest)).unwrap_or_default();
            clients.insert(client, Traffic { bytes: replaced.bytes, ..Traffic::default() });
        }
        let traffic = clients.entry(client).or_default();
        traffic.responses += 1;
        traffic.bytes += bytes;
        if traffic.largest.is_empty() || bytes > traffic.largest_bytes {
            (traffic.largest_bytes, traffic.largest) = (bytes, request());
        }
    }

    /// Those with most bytes in the last minute.
    pub(crate) fn of_last_minute(&self, now_unix_ms: u64) -> Vec<ClientSnapshot> {
        let recent = |window: &&Window| window.number + WINDOWS > now_unix_ms / WINDOW_MS;
        let mut all: HashMap<Client, Traffic> = HashMap::new();
        for list in &self.0 {
            for (client, traffic) in list.lock().iter().filter(recent).flat_map(|window| &window.clients) {
                let sum = all.entry(*client).or_default();
                sum.responses += traffic.responses;
                sum.bytes += traffic.bytes;
                if sum.largest.is_empty() || traffic.largest_bytes > sum.largest_bytes {
                    (sum.largest_bytes, sum.largest) = (traffic.largest_bytes, traffic.largest.clone());
                }
            }
        }
        let client = |(client, Traffic { responses, bytes, largest_bytes, largest }): (Client, Traffic)| {
            ClientSnapshot {
                client: client.map_or_else(|| "unix".into(), |address| address.to_string()),
                responses,
                bytes,
                largest,
                largest_bytes,
            }
        };
        let mut clients: Vec<ClientSnapshot> = all.into_iter().map(client).collect();
        clients.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.client.cmp(&other.client)));
        clients.truncate(TOLD);
        clients
    }
}

fn start_of(line: &[u8]) -> &[u8] {
    &line[..line.len().min(TEXT_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn peer(number: u32) -> Peer {
        Peer::Inet((IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)), 1).into())
    }

    fn add(clients: &TopClients, list: usize, number: u32, bytes: u64) {
        clients.add_response(list, 1_000_000, peer(number), bytes, || format!("GET /{bytes}"));
    }

    #[test]
    fn those_who_got_most_come_first_with_their_largest_request() {
        let clients = TopClients::default();
        for (list, number, bytes) in [(0, 1, 100), (1, 1, 900), (0, 2, 500), (3, 3, 999), (3, 3, 2)] {
            add(&clients, list, number, bytes);
        }
        let told = clients.of_last_minute(1_000_000);
        let shown =
            |of: &ClientSnapshot| format!("{} {} {} {}", of.client, of.responses, of.bytes, of.largest);
        let shown: Vec<String> = told.iter().map(shown).collect();
        assert_eq!(
            shown,
            ["10.0.0.3 2 1001 GET /999", "10.0.0.1 2 1000 GET /900", "10.0.0.2 1 500 GET /500"]
        );
        assert!(clients.of_last_minute(1_070_000).is_empty(), "a minute later they are gone");
    }

    #[test]
    fn a_crowd_neither_grows_the_list_nor_hides_the_largest() {
        let clients = TopClients::default();
        for number in 0..10_000 {
            add(&clients, 0, number, 10);
            if number % 10 == 0 {
                add(&clients, 0, 1_000_000, 1_000);
            }
        }
        assert_eq!(clients.0[0].lock()[0].clients.len(), CLIENTS_MAX);
        let told = clients.of_last_minute(1_000_000);
        assert_eq!((told.len(), &*told[0].client), (TOLD, "10.15.66.64"));
        assert!(told[0].bytes >= 1_000_000);
    }

    #[test]
    fn no_loop_waits_for_a_reader() {
        let clients = TopClients::default();
        let reading = clients.0[3].lock();
        add(&clients, 3, 1, 5);
        drop(reading);
        assert!(clients.of_last_minute(1_000_000).is_empty());
    }
}
