//! Both tables, by one client and by many, and from many threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::*;

struct Table(Vec<AtomicU64>);

impl AsRef<[AtomicU64]> for Table {
    fn as_ref(&self) -> &[AtomicU64] {
        &self.0
    }
}

fn words(count: usize) -> Words {
    Arc::new(Table((0..count).map(|_| AtomicU64::new(0)).collect()))
}

fn peer(ip: &str) -> Peer {
    Peer::Inet((ip.parse::<IpAddr>().unwrap(), 1).into())
}

/// A client that sends a request each `every_us` for ten seconds: how many are let through.
fn admitted(clients: &Clients, rate: &Rate, client: Peer, from_us: u64, every_us: u64) -> usize {
    let times = (0..10_000_000 / every_us).map(|at| from_us + at * every_us);
    times.filter(|&now_us| clients.take_request(0, rate, client, now_us).is_ok()).count()
}

#[test]
fn a_client_gets_its_burst_and_then_its_rate() {
    let clients = Clients::unlimited().with_rates(words(64));
    let rate: Rate = "20/s burst 40".parse().unwrap();
    // Forty at once, and then twenty in each of ten seconds.
    let count = admitted(&clients, &rate, peer("192.0.2.1"), 1_000_000, 1000);
    assert!((238..=241).contains(&count), "{count}");
    // A client below its rate is never refused.
    assert_eq!(admitted(&clients, &rate, peer("192.0.2.2"), 1_000_000, 50_001), 199);
    // After a pause it has all of its burst again.
    let now_us = 60_000_000;
    let at_once =
        (0..100).filter(|_| clients.take_request(0, &rate, peer("192.0.2.1"), now_us).is_ok()).count();
    assert_eq!(at_once, 40);
    // The other limit is another one.
    assert_eq!(clients.take_request(1, &rate, peer("192.0.2.1"), now_us), Ok(()));
}

#[test]
fn a_refusal_says_how_long_to_wait() {
    let clients = Clients::unlimited().with_rates(words(64));
    let rate: Rate = "1/m burst 2".parse().unwrap();
    let client = peer("192.0.2.1");
    let ask = |seconds: u64| clients.take_request(0, &rate, client, seconds * 1_000_000);
    assert_eq!((ask(1000), ask(1000), ask(1000)), (Ok(()), Ok(()), Err(60)));
    // Another loop's clock may be behind.
    assert_eq!(ask(998), Err(60));
    assert_eq!((ask(1030), ask(1059)), (Err(30), Err(1)));
    assert_eq!((ask(1061), ask(1061)), (Ok(()), Err(59)));
}

#[test]
fn an_ipv6_client_is_its_first_64_bits() {
    let clients = Clients::unlimited().with_rates(words(64));
    let rate: Rate = "1/h".parse().unwrap();
    let ask = |ip: &str| clients.take_request(0, &rate, peer(ip), 1_000_000).is_ok();
    assert!(ask("2001:db8:0:1::1") && !ask("2001:db8:0:1:ffff::2") && ask("2001:db8:0:2::1"));
    assert!(ask("192.0.2.1") && !ask("192.0.2.1") && ask("192.0.2.2"));
}

#[test]
fn a_million_addresses_take_no_more_room_and_do_not_free_a_busy_client() {
    let clients = Clients::unlimited().with_rates(words(1 << 10));
    let (busy, others): (Rate, Rate) = ("10/m burst 10".parse().unwrap(), "10/m burst 10".parse().unwrap());
    let client = peer("192.0.2.1");
    while clients.take_request(0, &busy, client, 1_000_000).is_ok() {}
    for ip in 0..100_000_u32 {
        let other = Peer::Inet((IpAddr::V4((0x0a00_0000 + ip).into()), 1).into());
        assert_eq!(
            clients.take_request(0, &others, other, 1_000_000),
            Ok(()),
            "{ip}: nobody else is refused"
        );
    }
    assert!(clients.take_request(0, &busy, client, 1_000_000).is_err(), "who has used the most is kept");
}

#[test]
fn connections_are_counted_until_they_end() {
    let clients = Clients::unlimited().with_connections(2, words(64));
    let client = peer("192.0.2.1");
    let one = clients.enter(client).unwrap();
    let two = clients.enter(client).unwrap();
    assert!(one.is_some() && two.is_some());
    assert_eq!(clients.enter(client).unwrap_err(), TooMany);
    assert!(
        !clients.may_enter(client) && clients.may_enter(peer("192.0.2.2")) && clients.may_enter(Peer::Unix)
    );
    assert!(clients.enter(peer("192.0.2.2")).is_ok() && clients.enter(Peer::Unix).unwrap().is_none());
    // Another process goes on with it.
    let two = two.unwrap();
    let place = two.place();
    two.pass_on();
    assert!(clients.enter(client).is_err());
    drop(clients.counted(place));
    let three = clients.enter(client).unwrap();
    assert!(clients.enter(client).is_err());
    drop((one, three));
    let again = (clients.enter(client).unwrap(), clients.enter(client).unwrap());
    assert!(again.0.is_some() && clients.enter(client).is_err());
    assert!(clients.counted(64).is_none());
}

#[test]
fn threads_share_the_tables() {
    let table = Arc::new(Table((0..64).map(|_| AtomicU64::new(0)).collect()));
    let clients = Clients::unlimited().with_connections(5, table.clone()).with_rates(words(64));
    let rate: Rate = "1/h burst 20".parse().unwrap();
    let admitted: usize = thread::scope(|scope| {
        let work = || {
            for _ in 0..2000 {
                let held: Vec<_> = (0..8).map_while(|_| clients.enter(peer("192.0.2.1")).ok()).collect();
                assert!(held.len() <= 5);
            }
            (0..20).filter(|_| clients.take_request(0, &rate, peer("192.0.2.9"), 7_000_000).is_ok()).count()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!((20..=28).contains(&admitted), "{admitted}");
    assert!(table.0.iter().all(|word| word.load(Ordering::Relaxed) & 0xff_ffff == 0), "all have left");
}
