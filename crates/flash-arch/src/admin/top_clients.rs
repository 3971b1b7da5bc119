//! Which clients got most bytes in the last minute, and which request was the largest of each: who downloads what.
//!
//! Loops leave here what each response has sent, logged or not. A part has a bounded number of clients: when it is full, those with
//! the fewest bytes leave. A client that is not there may have left, so it competes with the most bytes that one had who left, and no
//! large one is missing (as in the Space-Saving algorithm of Metwally, Agrawal and El Abbadi). It is told what it got for certain, so no
//! client is accused of what others got.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use flash_core::record::{Peer, Record, ResponseEnd};

use crate::admin::last_minute::LastMinute;
use crate::admin::slowest::TEXT_BYTES_MAX;
use crate::admin::snapshot::ClientSnapshot;

/// Clients of ten seconds in one part.
const CLIENTS_MAX: usize = 128;
/// As many are told.
const TOLD: usize = 10;

#[derive(Default)]
pub(crate) struct TopClients(LastMinute<Window>);

/// What clients got by responses that ended in the same ten seconds.
#[derive(Default)]
struct Window {
    clients: HashMap<Client, Traffic>,
    /// The most bytes that a client had who left.
    left_bytes: u64,
}

/// Its address, or the first 64 bits of an IPv6 address. Clients at Unix sockets have none, and count as one.
type Client = Option<IpAddr>;

#[derive(Clone, Default)]
struct Traffic {
    responses: u64,
    bytes: u64,
    /// The client may have got so many before it came into the window.
    bytes_before: u64,
    /// The largest response, and its request if that has a record.
    largest_bytes: u64,
    largest: String,
}

impl TopClients {
    /// Adds responses that have ended, and names the requests of those that have records. Never waits.
    pub(crate) fn add(&self, part: usize, unix_ms: u64, ended: &[ResponseEnd], records: &[Record]) {
        if ended.is_empty() {
            return;
        }
        self.0.add(part, unix_ms, |window| {
            for end in ended {
                window.add(client_of(end.peer), end.body_bytes);
            }
            for record in records {
                window.name(record);
            }
        });
    }

    /// Those with most bytes in the last minute.
    pub(crate) fn of_last_minute(&self, now_unix_ms: u64) -> Vec<ClientSnapshot> {
        let mut all: HashMap<Client, Traffic> = HashMap::new();
        self.0.read(now_unix_ms, |window| {
            for (client, traffic) in &window.clients {
                let sum = all.entry(*client).or_default();
                sum.responses += traffic.responses;
                sum.bytes += traffic.bytes;
                if sum.largest.is_empty() || traffic.largest_bytes > sum.largest_bytes {
                    (sum.largest_bytes, sum.largest) = (traffic.largest_bytes, traffic.largest.clone());
                }
            }
        });
        let client =
            |(client, Traffic { responses, bytes, largest_bytes, largest, .. }): (Client, Traffic)| {
                ClientSnapshot { client: shown(client), responses, bytes, largest, largest_bytes }
            };
        let mut clients: Vec<ClientSnapshot> = all.into_iter().map(client).collect();
        clients.sort_by(|one, other| other.bytes.cmp(&one.bytes).then_with(|| one.client.cmp(&other.client)));
        clients.truncate(TOLD);
        clients
    }
}

impl Window {
    fn add(&mut self, client: Client, bytes: u64) {
        if self.clients.len() == CLIENTS_MAX && !self.clients.contains_key(&client) {
            self.make_room();
        }
        let bytes_before = self.left_bytes;
        let new = || Traffic { bytes_before, ..Traffic::default() };
        let traffic = self.clients.entry(client).or_insert_with(new);
        traffic.responses += 1;
        traffic.bytes += bytes;
        if bytes > traffic.largest_bytes {
            (traffic.largest_bytes, traffic.largest) = (bytes, String::new());
        }
    }

    fn name(&mut self, record: &Record) {
        if let Some(traffic) = self.clients.get_mut(&client_of(record.peer))
            && traffic.largest.is_empty()
            && traffic.largest_bytes == record.body_bytes
        {
            traffic.largest = String::from_utf8_lossy(start_of(&record.request_line)).into_owned();
        }
    }

    /// Half of the clients leave at a time, so a crowd costs no search for each of them.
    fn make_room(&mut self) {
        let most = |traffic: &Traffic| traffic.bytes + traffic.bytes_before;
        let mut bytes: Vec<u64> = self.clients.values().map(most).collect();
        let (_, middle, _) = bytes.select_nth_unstable(CLIENTS_MAX / 2);
        self.left_bytes = *middle;
        self.clients.retain(|_, traffic| most(traffic) > *middle);
    }
}

fn client_of(peer: Peer) -> Client {
    match peer {
        Peer::Inet(address) => Some(match address.ip().to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
            ip @ IpAddr::V4(_) => ip,
        }),
        Peer::Unix => None,
    }
}

fn shown(client: Client) -> String {
    match client {
        None => "unix".into(),
        Some(ip @ IpAddr::V4(_)) => ip.to_string(),
        Some(ip @ IpAddr::V6(_)) => format!("{ip}/64"),
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

    fn end(peer: Peer, body_bytes: u64) -> ResponseEnd {
        ResponseEnd { site: 0, status: 200, cut: false, body_bytes, duration_us: 0, peer }
    }

    /// A response with a record.
    fn add(clients: &TopClients, part: usize, number: u32, bytes: u64) {
        let request_line = format!("GET /{bytes}").into_bytes().into();
        let record = Record { peer: peer(number), body_bytes: bytes, request_line, ..Record::default() };
        clients.add(part, 1_000_000, &[end(peer(number), bytes)], &[record]);
    }

    fn told(clients: &TopClients, now_unix_ms: u64) -> Vec<String> {
        let shown =
            |of: &ClientSnapshot| format!("{} {} {} {}", of.client, of.responses, of.bytes, of.largest);
        clients.of_last_minute(now_unix_ms).iter().map(shown).collect()
    }

    #[test]
    fn those_who_got_most_come_first_with_their_largest_request() {
        let clients = TopClients::default();
        for (part, number, bytes) in [(0, 1, 100), (1, 1, 900), (0, 2, 500), (3, 3, 999), (3, 3, 2)] {
            add(&clients, part, number, bytes);
        }
        let expected = ["10.0.0.3 2 1001 GET /999", "10.0.0.1 2 1000 GET /900", "10.0.0.2 1 500 GET /500"];
        assert_eq!(told(&clients, 1_000_000), expected);
        assert!(clients.of_last_minute(1_070_000).is_empty(), "a minute later they are gone");
    }

    #[test]
    fn responses_without_records_count() {
        let clients = TopClients::default();
        add(&clients, 0, 1, 100);
        clients.add(0, 1_000_000, &[end(peer(1), 15_000_000), end(Peer::Unix, 1)], &[]);
        assert_eq!(told(&clients, 1_000_000), ["10.0.0.1 2 15000100 ", "unix 1 1 "]);
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one_client() {
        let clients = TopClients::default();
        for address in
            ["[2001:db8::1]:1", "[2001:db8::ffff:0:0:1]:1", "[2001:db8:0:1::]:1", "[::ffff:10.0.0.1]:1"]
        {
            clients.add(0, 1_000_000, &[end(Peer::Inet(address.parse().unwrap()), 5)], &[]);
        }
        assert_eq!(
            told(&clients, 1_000_000),
            ["2001:db8::/64 2 10 ", "10.0.0.1 1 5 ", "2001:db8:0:1::/64 1 5 "]
        );
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
        assert!(clients.0.part(0)[0].1.clients.len() <= CLIENTS_MAX);
        let told = clients.of_last_minute(1_000_000);
        assert_eq!((told.len(), &*told[0].client, told[0].bytes), (TOLD, "10.15.66.64", 1_000_000));
    }

    #[test]
    fn nobody_in_a_crowd_is_told_what_others_got() {
        let clients = TopClients::default();
        (0..3_000).for_each(|number| add(&clients, 0, number, 100_000));
        let told = clients.of_last_minute(1_000_000);
        assert!(told.iter().all(|of| (of.responses, of.bytes) == (1, 100_000)), "{told:?}");
    }

    #[test]
    fn no_loop_waits_for_a_reader() {
        let clients = TopClients::default();
        let reading = clients.0.part(3);
        add(&clients, 3, 1, 5);
        drop(reading);
        assert!(clients.of_last_minute(1_000_000).is_empty());
    }
}
