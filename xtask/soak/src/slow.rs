//! Clients that read slowly. Those that keep twice the least rate must get everything, whatever their buffers; those that
//! keep less than half of it must be cut soon.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::ask::{Ask, RequestVariant, Target};
use super::client::{Broken, Connection, VISITOR};
use super::live::Live;
use super::report::{Fault, Kind};
use super::scene::Scene;
use super::site::Still;
use super::sockets;

/// `--send-rate-min`.
const RATE_MIN: u64 = 500;
/// The fastest of the slow ones.
const RATE_MAX: u64 = 400_000;
/// A receive buffer of a small machine.
const SMALL_BUFFER_BYTES: usize = 8 << 10;
/// The smallest receive buffer that the kernel gives: what it takes in advance counts as taken, and lengthens the stay.
const SMALLEST_BUFFER_BYTES: usize = 1;
/// How long a client of less than half the least rate may stay.
const KEPT_MAX: Duration = Duration::from_secs(30);
/// Between a deadline, the server's look at it, and ours at the kernel's table.
const KEPT_SLACK: Duration = Duration::from_secs(3);
/// More than all buffers of a connection hold.
const LONG_BYTES: u64 = 20_000_000;

/// Reads one response after the other, each slowly for a while and then to its end.
pub(crate) fn run(scene: &Scene, number: usize) {
    let mut rng = scene.rng(2, number);
    while !scene.is_over() {
        let rate = (2 * RATE_MIN) as f64 * (RATE_MAX as f64 / (2 * RATE_MIN) as f64).powf(rng.f64());
        let slow_for = Duration::from_secs_f64(15.0 + 60.0 * rng.f64());
        let buffer = rng.bool().then_some(SMALL_BUFFER_BYTES);
        let target = match rng.u32(0..3) {
            0 => {
                let large: Vec<&Live> = scene.site.live.iter().filter(|live| live.is_large()).collect();
                Target::Live(large[rng.usize(0..large.len())])
            }
            _ => Target::Still(long(scene, &mut rng).clone()),
        };
        read_slowly(scene, Ask { target, variant: RequestVariant::Whole }, rate as u64, slow_for, buffer);
    }
}

fn read_slowly(scene: &Scene, ask: Ask, rate: u64, slow_for: Duration, buffer: Option<usize>) {
    let Ok(mut connection) = Connection::open(scene.port, VISITOR, buffer) else {
        scene.sleep(Duration::from_secs(1));
        return;
    };
    let begun = Instant::now();
    let mut request = Vec::new();
    ask.write(false, &mut request);
    let asked = Instant::now();
    let _ = connection.send(&request);
    connection.read_slowly(rate, begun + slow_for, scene.over());
    match ask.answer(&mut connection, asked, scene.report) {
        Ok(_) => scene.report.count(Kind::Slow),
        Err(broken) => {
            let fault = match broken {
                Broken::Silent => Fault::Silence,
                _ => Fault::SlowClientCut,
            };
            let (name, seconds) = (ask.name(), begun.elapsed().as_secs_f64());
            let buffer = buffer.map_or("the default".into(), |bytes| format!("{bytes} bytes"));
            scene.report.violation(
                fault,
                format_args!(
                    "{name} at {rate} bytes/s for {:.0} s, receive buffer {buffer}, after {seconds:.1} s: {broken}",
                    slow_for.as_secs_f64(),
                ),
            );
        }
    }
}

/// Asks for a large file and takes less than half the least rate, until the server has had enough.
pub(crate) fn run_too_slow(scene: &Scene, number: usize) {
    let mut rng = scene.rng(3, number);
    while !scene.is_over() {
        let rate = [0, 50, 150][rng.usize(0..3)];
        stay(scene, &long(scene, &mut rng).target, rate);
    }
}

/// A file that stays as it is, and does not fit into the buffers of a connection.
fn long<'a>(scene: &Scene<'a>, rng: &mut Rng) -> &'a Still {
    let long: Vec<&Still> = scene.site.sized.iter().filter(|still| still.bytes >= LONG_BYTES).collect();
    long[rng.usize(0..long.len())]
}

fn stay(scene: &Scene, target: &str, rate: usize) {
    let Ok(mut connection) = Connection::open(scene.port, VISITOR, Some(SMALLEST_BUFFER_BYTES)) else {
        scene.sleep(Duration::from_secs(1));
        return;
    };
    let Ok(port) = connection.own_port() else { return };
    let _ = connection.send(format!("GET {target} HTTP/1.1\r\nHost: soak\r\n\r\n").as_bytes());
    let mut piece = vec![0; rate.max(1)];
    // The first byte says that it was accepted and is being answered.
    if !matches!(connection.receive(&mut piece[..1]), Ok(1)) {
        scene
            .report
            .violation(Fault::Cut, format_args!("{target}: not a byte for a client that will be slow"));
        return;
    }
    let begun = Instant::now();
    let _ = connection.set_patience(Duration::from_millis(200));
    while begun.elapsed() < KEPT_MAX + KEPT_SLACK {
        if !scene.sleep(Duration::from_secs(1)) {
            return;
        }
        if !sockets::of_server(scene.port).contains(&port) {
            scene.report.count(Kind::TooSlow);
            return;
        }
        if rate > 0 {
            // What comes of it the kernel's table says.
            let _ = connection.receive(&mut piece);
        }
    }
    let held = begun.elapsed().as_secs_f64();
    let what = format_args!("{target} at {rate} bytes/s: still held after {held:.0} s");
    scene.report.violation(Fault::TooSlowClientKept, what);
}
