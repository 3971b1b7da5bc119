//! Rude clients: silent ones, half and endless heads, garbage, requests that are too large, and clients that ask and leave.
//! Each must be answered or left in time. And the flood: names that are not there, from another address.

use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::client::{Broken, Connection, STRANGER, VISITOR};
use super::report::{Fault, Kind};
use super::scene::Scene;

/// `--head-timeout` is 10 s; the rest is for a loaded machine, and for mt and mp, where a connection may have to wait.
const LEFT_WITHIN: Duration = Duration::from_secs(20);
/// Between two bytes of a drip.
const DRIP: Duration = Duration::from_millis(300);
const LARGE: &str = "/sized/20000000.bin";
/// More than `--body-bytes-max`.
const BODY_BYTES: usize = 2 << 20;
/// Names that one connection of the flood asks for.
const FLOOD_NAMES: usize = 5;

/// What must come of a rude request: one of these statuses, or, where it may be, an end without any.
struct Due {
    statuses: &'static [u16],
    may_just_end: bool,
}

pub(crate) fn run(scene: &Scene, number: usize) {
    let mut rng = scene.rng(4, number);
    while scene.sleep(Duration::from_millis(rng.u64(0..300))) {
        let Ok(connection) = Connection::open(scene.port, VISITOR, rng.bool().then_some(4096)) else {
            continue;
        };
        let rude = Rude { scene, rng: &mut rng, connection };
        if rude.behave().is_some() {
            scene.report.count(Kind::Rude);
        }
    }
}

struct Rude<'a> {
    scene: &'a Scene<'a>,
    rng: &'a mut Rng,
    connection: Connection,
}

impl Rude<'_> {
    /// None when the run ended first.
    fn behave(mut self) -> Option<()> {
        match self.rng.u32(0..14) {
            0 => self.expect("a silent client", Due { statuses: &[408], may_just_end: true }),
            1 => {
                self.send(b"GET /sized/1000.bin HTTP/1.1\r\nHost: so");
                self.expect("half a head", Due { statuses: &[408], may_just_end: false })
            }
            2 => self.drip(),
            3 | 4 => self.ask_and_leave(LARGE, true),
            5 => self.ask_and_leave(LARGE, false),
            6 => {
                let reset = self.rng.bool();
                self.ask_and_leave("/names/", reset)
            }
            7 => self.ask_and_leave("/cgi/late", true),
            8 => self.garbage(),
            9 => {
                let head =
                    format!("GET / HTTP/1.1\r\nHost: soak\r\nX-Much: {}\r\n\r\n", "x".repeat(40 << 10));
                self.send(head.as_bytes());
                self.expect("a head of 40 KiB", Due { statuses: &[431], may_just_end: true })
            }
            10 => {
                let head = format!("GET /{} HTTP/1.1\r\nHost: soak\r\n\r\n", "x".repeat(10 << 10));
                self.send(head.as_bytes());
                self.expect("a target of 10 KiB", Due { statuses: &[414], may_just_end: true })
            }
            11 => self.much_of_a_body("GET", LARGE),
            12 => self.much_of_a_body("POST", "/cgi/echo"),
            _ => self.ask_without_reading(),
        }
    }

    /// The server may close at any moment.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.connection.send(bytes).is_ok()
    }

    /// Waits for what is due.
    fn expect(&mut self, what: &str, due: Due) -> Option<()> {
        let begun = Instant::now();
        let _ = self.connection.set_patience(LEFT_WITHIN);
        let got = self.connection.head();
        if self.scene.is_over() {
            return None;
        }
        match got {
            Ok(head) if due.statuses.contains(&head.status) => {}
            Ok(head) => {
                let said = head.shown();
                self.scene.report.violation(Fault::WrongAnswer, format_args!("{what}, answered with {said}"));
            }
            // A reset may destroy an answer on its way.
            Err(Broken::Unanswered | Broken::Cut { error: Some(ErrorKind::ConnectionReset), .. })
                if due.may_just_end => {}
            Err(Broken::Silent) => {
                let seconds = begun.elapsed().as_secs_f64();
                self.scene
                    .report
                    .violation(Fault::RudeClientKept, format_args!("{what}, after {seconds:.1} s"));
            }
            Err(broken) => {
                self.scene
                    .report
                    .violation(Fault::WrongAnswer, format_args!("{what}, answered with {broken}"));
            }
        }
        Some(())
    }

    /// A byte of a head, and another, and another.
    fn drip(&mut self) -> Option<()> {
        let begun = Instant::now();
        let head =
            b"GET /sized/1000.bin HTTP/1.1\r\nHost: soak\r\nX-Long: ".iter().chain([b'x'].iter().cycle());
        let _ = self.connection.set_patience(Duration::from_millis(1));
        for &byte in head {
            let mut answer = [0; 12];
            match self.connection.receive(&mut answer) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Ok(12) if answer == *b"HTTP/1.1 408" => return Some(()),
                // A byte that comes after the answer may destroy it.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Some(()),
                other => {
                    let how = match other {
                        Ok(0) => "by closing".into(),
                        Ok(_) => format!("with {:?}", String::from_utf8_lossy(&answer)),
                        Err(error) => format!("with an error: {error}"),
                    };
                    let what = format_args!("a drip, answered {how}");
                    self.scene.report.violation(Fault::WrongAnswer, what);
                    return Some(());
                }
            }
            if begun.elapsed() > LEFT_WITHIN {
                let what = format_args!("a byte every 0.3 s, after {:.1} s", begun.elapsed().as_secs_f64());
                self.scene.report.violation(Fault::RudeClientKept, what);
                return Some(());
            }
            if !self.scene.sleep(DRIP) {
                return None;
            }
            // A failure shows when it is read.
            self.send(&[byte]);
        }
        None
    }

    /// Reads a little or nothing of the answer, and goes.
    fn ask_and_leave(mut self, target: &str, resets: bool) -> Option<()> {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: soak\r\n\r\n").as_bytes());
        let mut some = vec![0; self.rng.usize(1..100_000)];
        if self.rng.bool() {
            let _ = self.connection.set_patience(Duration::from_secs(5));
            let _ = self.connection.receive(&mut some);
        } else {
            thread::sleep(Duration::from_micros(self.rng.u64(0..5_000)));
        }
        if resets {
            self.connection.reset();
        }
        Some(())
    }

    fn garbage(&mut self) -> Option<()> {
        let mut bytes: Vec<u8> = (0..self.rng.usize(1..2_000)).map(|_| self.rng.u8(..)).collect();
        bytes.extend_from_slice(b"\r\n\r\n");
        self.send(&bytes);
        self.expect("garbage", Due { statuses: &[400, 408, 414, 431, 501, 505], may_just_end: true })
    }

    fn much_of_a_body(&mut self, method: &str, target: &str) -> Option<()> {
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: soak\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
        self.send(head.as_bytes());
        let piece = [b'x'; 16 << 10];
        let _ = (0..BODY_BYTES / piece.len()).all(|_| self.send(&piece));
        self.expect("a body of 2 MiB", Due { statuses: &[413], may_just_end: true })
    }

    /// Sends more requests than it ever reads answers to.
    fn ask_without_reading(&mut self) -> Option<()> {
        let _ = self.connection.set_patience(Duration::from_secs(1));
        let many = b"GET /sized/65536.bin HTTP/1.1\r\nHost: soak\r\n\r\n".repeat(100);
        let _ = (0..20).all(|_| self.send(&many));
        Some(())
    }
}

/// Floods the server with names that it has never heard, from an address that no visitor has. Those that it has no room
/// for get 503; no other client may notice.
pub(crate) fn run_flood(scene: &Scene) {
    let mut rng = scene.rng(5, 0);
    let mut names = 0;
    while scene.sleep(Duration::from_millis(rng.u64(500..4_000))) {
        let begun = Instant::now();
        let mut ask = |connection: &mut Connection| {
            names += 1;
            let _ = connection.send(format!("GET /flood/{names} HTTP/1.1\r\nHost: soak\r\n\r\n").as_bytes());
        };
        let open = |_| {
            let mut connection = Connection::open(scene.port, STRANGER, None).ok()?;
            // At once, for others take long to open.
            ask(&mut connection);
            Some(connection)
        };
        let mut connections: Vec<Connection> = (0..scene.crowd.flood).filter_map(open).collect();
        for number in 1..=FLOOD_NAMES {
            connections.retain_mut(|connection| flood_answer(scene, connection, begun));
            if scene.is_over() || number == FLOOD_NAMES {
                break;
            }
            connections.iter_mut().for_each(&mut ask);
        }
    }
}

/// Whether the connection may be used again.
fn flood_answer(scene: &Scene, connection: &mut Connection, begun: Instant) -> bool {
    scene.report.count(Kind::Flood);
    let answer = connection.head().and_then(|head| {
        connection.body(&head, false, |_| ())?;
        Ok(head)
    });
    match answer {
        Ok(head) if head.status == 404 => head.keeps(),
        Ok(head) if head.status == 503 => {
            scene.report.count(Kind::FloodRefused);
            head.keeps()
        }
        // Between two names it may be closed.
        Err(Broken::Unanswered) if connection.answers > 0 => false,
        other => {
            let other = other.map_or_else(|broken| broken.to_string(), |head| head.shown());
            let seconds = begun.elapsed().as_secs_f64();
            let what = format_args!("a name of the flood, {seconds:.2} s after its first: {other}");
            scene.report.violation(Fault::WrongAnswer, what);
            false
        }
    }
}
