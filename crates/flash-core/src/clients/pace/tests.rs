//! Connections of clients with rates, with a clock by hand: how much they get, in whatever order and loop they have their turns.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::clients::Clients;
use crate::record::Peer;
use crate::testing::{Random, each_seed};

struct Table(Vec<AtomicU64>);

impl AsRef<[AtomicU64]> for Table {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn clients() -> Clients {
    let words = (0..1024).map(|_| AtomicU64::new(0)).collect();
    Clients::unlimited().with_byte_rates(Arc::new(Table(words)))
}

fn peer(ip: &str) -> Peer {
    Peer::Inet((ip.parse::<std::net::IpAddr>().unwrap(), 1).into())
}

fn rates(client: &str) -> Rates {
    Rates { client: Some(client.parse().unwrap()), total: None }
}

/// A connection that sends all that it may, and looks again within a tick of the wheel after it is due.
struct Sender {
    pace: Box<Pace>,
    looks_us: u64,
    sent: u64,
}

impl Sender {
    fn new(clients: &Clients, rates: Rates, ip: &str, now_us: u64) -> Self {
        let pace = clients.pace(0, rates, peer(ip), now_us).expect("there is a rate");
        Self { pace, looks_us: now_us, sent: 0 }
    }

    /// A turn, in which so many bytes wait and the socket takes so many.
    fn turn(&mut self, waiting: u64, room: u64, now_us: u64) {
        let mut left = room.min(waiting);
        while left > 0 {
            let sent = self.pace.allows(waiting, now_us).min(left);
            if sent == 0 {
                break;
            }
            self.pace.sent(sent);
            self.sent += sent;
            left -= sent;
        }
    }
}

/// How many bytes these connections get in so many seconds, each with turns up to 20 ms late.
fn run(senders: &mut [Sender], seconds: u64, random: &mut Random) -> u64 {
    let end_us = 1_000_000 + seconds * 1_000_000;
    loop {
        let (number, looks_us) =
            senders.iter().map(|sender| sender.looks_us).enumerate().min_by_key(|(_, at)| *at).unwrap();
        if looks_us >= end_us {
            return senders.iter().map(|sender| sender.sent).sum();
        }
        let sender = &mut senders[number];
        sender.turn(u64::MAX, u64::MAX, looks_us);
        sender.looks_us =
            sender.pace.due_us().expect("it has sent all that it may") + random.within(0..20_000);
    }
}

/// What a rate gives in so many seconds.
fn expected(rate: &str, seconds: u64) -> u64 {
    let rate: ByteRate = rate.parse().unwrap();
    let us = u128::from(seconds * 1_000_000 + rate.burst_us());
    ((us << 40) / u128::from(rate.us(1 << 40))) as u64
}

#[test]
fn a_client_gets_its_rate_over_any_number_of_connections() {
    each_seed(1..6, |seed| {
        let mut random = Random::new(seed);
        for rate in ["20K/s", "300K/s", "2M/s burst 20M", "1G/s"] {
            for connections in [1, 5, 16, 100] {
                let clients = clients();
                let new = |_| Sender::new(&clients, rates(rate), "192.0.2.1", 1_000_000);
                let mut senders: Vec<Sender> = (0..connections).map(new).collect();
                let sent = run(&mut senders, 60, &mut random);
                let difference = sent as f64 / expected(rate, 60) as f64 - 1.0;
                assert!(difference.abs() < 0.02, "{rate} over {connections}: {difference:+.3}");
                let share = sent / connections;
                // The first one may have all of the burst.
                let more = expected(rate, 0) + 2 * senders[0].pace.quantum;
                let fair = senders.iter().all(|sender| sender.sent.abs_diff(share) <= share / 10 + more);
                assert!(fair, "{rate} over {connections}: each gets its turn");
            }
        }
    });
}

#[test]
fn clients_are_addresses_or_networks_of_ipv6_and_others_are_not_in_their_way() {
    for (one, other, together) in [
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("2001:db8::1", "2001:db8::2", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
    ] {
        let clients = clients();
        let new = |ip| Sender::new(&clients, rates("300K/s"), ip, 1_000_000);
        let mut senders = [new(one), new(other)];
        let (sent, alone) = (run(&mut senders, 20, &mut Random::new(1)), expected("300K/s", 20));
        let expected = if together { alone } else { 2 * alone };
        assert!(sent.abs_diff(expected) < expected / 50, "{one} and {other}: {sent} of {expected}");
    }
}

#[test]
fn a_total_holds_for_all_clients_together() {
    let rates = Rates { total: Some("1M/s".parse().unwrap()), ..rates("600K/s") };
    for (count, expected) in [(1, expected("600K/s", 30)), (5, expected("1M/s", 30))] {
        let clients = clients();
        let new = |number| Sender::new(&clients, rates, &format!("192.0.2.{number}"), 1_000_000);
        let mut senders: Vec<Sender> = (1..=count).map(new).collect();
        let sent = run(&mut senders, 30, &mut Random::new(1));
        assert!(sent.abs_diff(expected) < expected / 50, "{count} clients: {sent} of {expected}");
    }
}

#[test]
fn small_responses_take_what_they_have_and_no_more() {
    let clients = clients();
    let (mut now_us, mut sent) = (1_000_000, 0);
    // One after the other, each over a connection of its own, beside ninety-nine that are idle.
    while now_us < 61_000_000 {
        let mut sender = Sender::new(&clients, rates("300K/s"), "192.0.2.1", now_us);
        while sender.sent < 1000 {
            let left = 1000 - sender.sent;
            sender.turn(left, left, now_us);
            now_us = sender.pace.due_us().unwrap_or(now_us).max(now_us);
        }
        sent += sender.sent;
    }
    let expected = expected("300K/s", 60);
    assert!(sent.abs_diff(expected) < expected / 50, "{sent} of {expected}");
}

#[test]
fn what_a_connection_has_not_sent_is_there_for_others() {
    let clients = clients();
    let new = |now_us| Sender::new(&clients, rates("300K/s"), "192.0.2.1", now_us);
    // Clients that reserve and leave, in the burst and behind it.
    for number in 0..10_000 {
        let mut sender = new(1_000_000 + number);
        sender.pace.allows(u64::MAX, 1_000_000 + number);
    }
    let mut sender = new(1_100_000);
    sender.turn(u64::MAX, u64::MAX, 1_100_000);
    assert!(sender.sent >= 60_000, "all of the burst: {}", sender.sent);
}

#[test]
fn a_client_with_very_many_connections_waits_without_a_reservation() {
    let clients = clients();
    let new = |_| Sender::new(&clients, rates("100/s"), "192.0.2.1", 1_000_000);
    let mut senders: Vec<Sender> = (0..20_000).map(new).collect();
    senders.iter_mut().for_each(|sender| sender.turn(u64::MAX, u64::MAX, 1_000_000));
    let due_us = senders.iter().map(|sender| sender.pace.due_us().unwrap()).max().unwrap();
    assert!(due_us < 1_000_000 + 7_200_000_000, "{due_us}");
    let last = senders.last_mut().unwrap();
    assert_eq!(last.pace.due_us(), Some(2_000_000), "it asks again");
    for second in 2..10 {
        assert_eq!(last.pace.allows(1, second * 1_000_000), 0);
        assert!(last.pace.due_us() > Some(second * 1_000_000), "its turn comes");
    }
    senders.truncate(1);
    assert!(senders[0].pace.allows(1, 10_000_000_000) > 0, "its turn has come");
}

#[test]
fn a_client_that_may_not_send_has_nothing_of_the_total() {
    let clients = clients();
    let rates = Rates { total: Some("1M/s".parse().unwrap()), ..rates("10K/s") };
    let new = |ip| Sender::new(&clients, rates, ip, 1_000_000);
    let mut many: Vec<Sender> = (0..1000).map(|_| new("192.0.2.1")).collect();
    many.iter_mut().for_each(|sender| sender.turn(u64::MAX, u64::MAX, 1_000_000));
    let mut other = new("192.0.2.2");
    other.turn(u64::MAX, u64::MAX, 1_000_000);
    assert!(other.sent > 0, "a thousand connections of another client wait for their own rate");
}

#[test]
fn threads_share_a_rate() {
    let clients = clients();
    let sent: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=8)
            .map(|seed| {
                scope.spawn({
                    let clients = &clients;
                    move || {
                        let mut sender = Sender::new(clients, rates("2M/s"), "192.0.2.1", 1_000_000);
                        run(std::slice::from_mut(&mut sender), 60, &mut Random::new(seed))
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // Their clocks are not the same, so a thread that is ahead may leave the others little.
    let expected = expected("2M/s", 60);
    assert!(sent <= expected + expected / 50, "{sent} of {expected}");
}
