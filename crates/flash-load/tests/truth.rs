//! The report is true: waits, rates, and the effect of a stall on closed and open loops.

#![forbid(unsafe_code)]

mod common;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use common::{answer, closed, load, run, serve};
use flash_load::{Arrivals, CONNECTIONS_MAX, ClientOptions, Invalid, Link, Load, Pace, Until};

/// Each test measures time, and has the machine for itself meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // A test that failed has left it well enough.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(per_second: f64, arrivals: Arrivals) -> Pace {
    Pace::Open { per_second, arrivals, connections_max: 256 }
}

fn seconds(seconds: f64) -> Until {
    Until::Time(Duration::from_secs_f64(seconds))
}

#[test]
fn waits_are_those_that_the_server_made() {
    let _alone = alone();
    // Each fifth answer takes four times as long. The server writes down what it really was: sleeps are not exact.
    let made = Arc::new(Mutex::new(Vec::new()));
    let log = made.clone();
    let server = answer(move |visitor, _| {
        let came = Instant::now();
        let turn = log.lock().expect("no panic").len();
        thread::sleep(Duration::from_millis(if turn % 5 == 4 { 160 } else { 40 }));
        log.lock().expect("no panic").push(came.elapsed());
        visitor.ok("hello");
    });
    let report = run(&load(server, closed(1), ClientOptions::default(), Until::Requests(100)));
    let mut made = made.lock().expect("no panic").clone();
    made.sort();
    assert_eq!((report.requests, made.len(), report.errors_total), (100, 100, 0));
    for (name, measured, part) in [("p50", report.latency_us.p50, 0.5), ("p90", report.latency_us.p90, 0.9)] {
        let real = made[(made.len() as f64 * part) as usize - 1].as_secs_f64() * 1e6;
        assert!((measured / real - 1.0).abs() < 0.02, "{name}: measured {measured}, was {real}");
    }
}

/// A server that answers at once, except in one second, in which no client gets a response.
fn stalling() -> (std::net::SocketAddr, Arc<RwLock<()>>) {
    let gate = Arc::new(RwLock::new(()));
    let inner = gate.clone();
    let server = answer(move |visitor, _| {
        drop(inner.read().expect("no panic"));
        visitor.ok("hello");
    });
    (server, gate)
}

fn with_a_stall(load: &Load, gate: &RwLock<()>) -> flash_load::Report {
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_secs(1));
            let closed = gate.write().expect("no panic");
            thread::sleep(Duration::from_secs(1));
            drop(closed);
        });
        run(load)
    })
}

#[test]
fn an_open_loop_sees_a_stall_that_a_closed_one_misses() {
    let _alone = alone();
    let (server, gate) = stalling();
    // So few connections that most requests of the stall cannot even be sent: they wait all the same.
    let pace = Pace::Open { per_second: 200.0, arrivals: Arrivals::Constant, connections_max: 8 };
    let open = load(server, pace, ClientOptions::default(), seconds(3.0));
    let report = with_a_stall(&open, &gate);
    // A third of the requests came due in the stall, and waited for what was left of it: half a second in the mean.
    let p90_ms = report.latency_us.p90 / 1000.0;
    assert!((600.0..900.0).contains(&p90_ms), "{p90_ms} ms: {report:?}");
    assert!(report.latency_us.max > 950_000.0, "{}", report.latency_us.max);

    let (server, gate) = stalling();
    let pace = Pace::Closed { clients: 4, think: Duration::from_millis(20) };
    let report = with_a_stall(&load(server, pace, ClientOptions::default(), seconds(3.0)), &gate);
    assert!(report.requests > 100 && report.latency_us.p90 < 200_000.0, "{report:?}");
    assert!(report.latency_us.max > 950_000.0, "{}", report.latency_us.max);
}

#[test]
fn an_open_loop_has_the_connections_that_a_slow_server_needs() {
    let _alone = alone();
    let server = || {
        answer(|visitor, _| {
            thread::sleep(Duration::from_millis(50));
            visitor.ok("hello");
        })
    };
    // Twenty are busy at a time.
    let with = |connections_max| {
        let pace = Pace::Open { per_second: 400.0, arrivals: Arrivals::Constant, connections_max };
        run(&load(server(), pace, ClientOptions::default(), seconds(2.0)))
    };
    let report = with(CONNECTIONS_MAX);
    let [p50_ms, p90_ms] = [report.latency_us.p50, report.latency_us.p90].map(|us| us / 1000.0);
    assert!(p50_ms < 75.0 && p90_ms < 150.0, "{p50_ms} {p90_ms}");
    assert_eq!((report.queued, report.invalid), (0, None), "{report:?}");
    // Four answer 80 a second: the other requests wait for ever longer.
    let report = with(4);
    assert!(report.latency_us.p50 > 500_000.0 && report.queued > 600, "{report:?}");
    assert_eq!(report.invalid, Some(Invalid::Full));
    assert!(report.unanswered > 600 && report.unanswered_percent > 75.0, "{report:?}");
    assert!(report.latency_us.is_bound(0.5) && !report.latency_us.is_bound(0.1), "{report:?}");
}

#[test]
fn the_measured_time_begins_with_an_empty_queue() {
    let _alone = alone();
    let began = Instant::now();
    // A cold server, and its first two connections never get an answer at all.
    let server = serve(move |mut visitor| {
        let cold = Duration::from_millis(700).saturating_sub(began.elapsed());
        thread::sleep(if visitor.number < 2 { Duration::from_secs(30) } else { cold });
        while visitor.head().is_some() {
            visitor.ok("hello");
        }
    });
    let pace = Pace::Open { per_second: 200.0, arrivals: Arrivals::Constant, connections_max: 8 };
    let mut load = load(server, pace, ClientOptions::default(), seconds(1.0));
    load.warm_up = Duration::from_millis(500);
    load.threads = 2;
    let report = run(&load);
    assert!((190..=210).contains(&report.asked) && (report.seconds - 1.0).abs() < 0.01, "{report:?}");
    assert!(report.latency_us.p99 < 100_000.0, "{report:?}");
    assert_eq!((report.queued, report.errors_total), (0, 0), "{report:?}");
    assert!(began.elapsed() < Duration::from_secs(4), "a lost request holds nothing up");
}

#[test]
fn clients_that_cannot_keep_their_rate_have_no_result() {
    let _alone = alone();
    let server = answer(|visitor, _| visitor.ok("hello"));
    let report = run(&load(server, open(1e6, Arrivals::Constant), ClientOptions::default(), seconds(0.5)));
    assert!(report.invalid.is_some() && report.clients_busy_percent > 20.0, "{report:?}");
    let server = answer(|visitor, _| visitor.ok("hello"));
    let report = run(&load(server, open(50.0, Arrivals::Constant), ClientOptions::default(), seconds(1.0)));
    assert!(report.clients_busy_percent < 50.0, "{report:?}");
}

#[test]
fn what_is_never_answered_counts_with_its_age() {
    let _alone = alone();
    let server = answer(|_, _| thread::sleep(Duration::from_secs(30)));
    let report = run(&load(server, open(100.0, Arrivals::Constant), ClientOptions::default(), seconds(1.0)));
    assert_eq!(
        (report.requests, report.asked, report.unanswered, report.latency_us.count),
        (0, 100, 100, 100)
    );
    let p50_ms = report.latency_us.p50 / 1000.0;
    assert!((450.0..550.0).contains(&p50_ms), "{p50_ms}");
    assert!(report.unanswered_percent == 100.0 && report.latency_us.is_bound(0.5), "{report:?}");
}

#[test]
fn rates_are_kept() {
    let _alone = alone();
    let server = answer(|visitor, _| visitor.ok("hello"));
    for threads in [1, 3] {
        let mut load = load(server, open(700.0, Arrivals::Constant), ClientOptions::default(), seconds(2.0));
        load.threads = threads;
        load.warm_up = Duration::from_millis(300);
        let report = run(&load);
        assert!((1386..=1414).contains(&report.asked), "{threads} threads: {}", report.asked);
        // The last answers may be late by a turn of the machine's scheduler.
        assert!((report.requests_per_second / 700.0 - 1.0).abs() < 0.03, "{}", report.requests_per_second);
    }
    let report = run(&load(server, open(1000.0, Arrivals::Poisson), ClientOptions::default(), seconds(2.0)));
    // The deviation of 2,000 arrivals is 45.
    assert!((1800..=2200).contains(&report.asked), "{}", report.asked);
}

#[test]
fn thinking_clients_think() {
    let _alone = alone();
    let server = answer(|visitor, _| visitor.ok("hello"));
    let pace = Pace::Closed { clients: 10, think: Duration::from_millis(100) };
    let report = run(&load(server, pace, ClientOptions::default(), seconds(2.0)));
    // Ten clients, ten requests a second each, less what answers take.
    assert!((150..=201).contains(&report.requests), "{}", report.requests);
}

#[test]
fn the_warm_up_is_not_counted() {
    let _alone = alone();
    let began = Instant::now();
    let server = answer(move |visitor, _| {
        if began.elapsed() < Duration::from_millis(500) {
            thread::sleep(Duration::from_millis(400));
        }
        visitor.ok("hello");
    });
    let mut load = load(server, closed(2), ClientOptions::default(), seconds(0.5));
    load.warm_up = Duration::from_millis(1000);
    let report = run(&load);
    assert!(report.latency_us.max < 390_000.0, "{:?}", report.latency_us);
    assert!((report.seconds - 0.5).abs() < 0.001, "{}", report.seconds);
}

#[test]
fn a_search_finds_what_the_server_can_do() {
    let _alone = alone();
    // One answer at a time, 4 ms each: 250 a second, less what sleeps take too long.
    let turn = Arc::new(Mutex::new(Vec::new()));
    let log = turn.clone();
    let server = answer(move |visitor, _| {
        let mut log = log.lock().expect("no panic");
        thread::sleep(Duration::from_millis(4));
        log.push(Instant::now());
        visitor.ok("hello");
    });
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut load = load(server, closed(1), ClientOptions::default(), seconds(1.0));
    let report = flash_load::capacity(&load, 64, &stop, |_| {}).expect("it can be run");
    let log = turn.lock().expect("no panic").clone();
    let real = (log.len() - 1) as f64 / (log[log.len() - 1] - log[0]).as_secs_f64();
    // A step lasts a second, and the best counts: sleeps are not equally long at all times.
    let within = |began: Instant| {
        log.iter().filter(|&&at| (began..began + Duration::from_secs(1)).contains(&at)).count()
    };
    let best = log.iter().map(|&began| within(began)).max().unwrap_or_default() as f64;
    let found = report.capacity_requests_per_second.expect("that was the task");
    assert!((real * 0.95..best * 1.05).contains(&found), "found {found}, was {real} and at best {best}");
    assert!(report.steps.len() >= 3 && report.steps.iter().all(|step| step.clients.is_some()), "{report:?}");

    load.until = seconds(1.5);
    let report = flash_load::levels(&load, real, &[0.3, 0.9], &stop, |_| {}).expect("it can be run");
    let rates: Vec<f64> = report.steps.iter().map(|step| step.asked as f64 / step.seconds / real).collect();
    assert!((rates[0] - 0.3).abs() < 0.1 && (rates[1] - 0.9).abs() < 0.2, "{rates:?}");
    assert!(report.steps[1].latency_us.mean > report.steps[0].latency_us.mean, "queues grow with load");
}

/// A server that sends 100,000 bytes a second in all.
fn narrow() -> std::net::SocketAddr {
    let wire = Arc::new(Mutex::new(()));
    answer(move |visitor, _| {
        for piece in 0..5 {
            let _held = wire.lock().expect("no panic");
            thread::sleep(Duration::from_millis(10));
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n";
            visitor.say(if piece == 0 { head } else { "" });
            visitor.say([7; 1000]);
        }
    })
}

#[test]
fn clients_conform_as_long_as_the_server_can() {
    let _alone = alone();
    // 64 kbit/s for each: twelve clients would have all that there is, less what heads and sleeps take.
    let link = Link { down_bytes_per_second: 10_000, up_bytes_per_second: 1 << 20 };
    let options = ClientOptions { link: Some(link), ..ClientOptions::default() };
    let mut load = load(narrow(), closed(4), options, seconds(2.0));
    load.bits_per_second_min = Some(64_000);
    load.warm_up = Duration::from_millis(500);
    let kept = run(&load).conformance.expect("there is a rate");
    assert_eq!((kept.clients, kept.conforming, kept.holds()), (4, 4, true), "{kept:?}");
    assert!((64_000.0..82_000.0).contains(&kept.bits_per_second_median), "{kept:?}");
    load.groups[0].pace = closed(24);
    let kept = run(&load).conformance.expect("there is a rate");
    assert!(kept.conforming < 12 && !kept.holds(), "{kept:?}");

    load.until = seconds(1.5);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let report = flash_load::conforming(&load, 30, &stop, |_| {}).expect("it can be run");
    let found = report.conforming_clients.expect("that was the task");
    assert!((6..=12).contains(&found), "{found}");
    assert!(report.clients == Some(found) && report.conformance.expect("it has one").holds());
    let tried: Vec<_> = report.steps.iter().map(|step| step.clients.unwrap_or_default()).collect();
    assert!(tried.contains(&30) && tried.contains(&(found + 1)), "{tried:?}");
}
