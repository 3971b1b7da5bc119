//! Visitors send all kinds of requests, on kept-alive and on closed connections, one after the other and in pairs. They read as
//! fast as they can.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::ask::{Ask, Known, RequestVariant, Target, said};
use super::client::{Broken, Connection, VISITOR};
use super::live::{BYTES_MIN, Live};
use super::report::{Fault, Kind};
use super::scene::Scene;
use super::site::{self, COLD_FILES, COLD_FOLDERS, NAMES, Still};

/// Answers of which a visitor remembers the validators.
const KNOWN_MAX: usize = 64;
/// A pause after which entries must be looked at anew.
const LONG_PAUSE: Duration = Duration::from_millis(2_500);

pub(crate) struct Visitor<'a> {
    scene: &'a Scene<'a>,
    number: usize,
    rng: Rng,
    known: HashMap<String, Known>,
    asked: u64,
}

/// A request that was sent and has no answer yet.
struct Sent<'a> {
    ask: Ask<'a>,
    closes: bool,
    at: Instant,
}

impl<'a> Visitor<'a> {
    pub(crate) fn new(scene: &'a Scene<'a>, number: usize) -> Visitor<'a> {
        Visitor { scene, number, rng: scene.rng(1, number), known: HashMap::new(), asked: 0 }
    }

    pub(crate) fn run(mut self) {
        self.fill_caches();
        while !self.scene.is_over() {
            let requests = if self.rng.f64() < 0.3 { 1 } else { self.rng.u64(2..30) };
            self.visit(requests);
        }
    }

    /// A share of all cold files, each once, so that caches are as full as they get before anything is compared.
    fn fill_caches(&mut self) {
        let Ok(mut connection) = self.connect() else { return };
        for number in (self.number..COLD_FILES).step_by(self.scene.crowd.visitors) {
            if self.scene.is_over() {
                return;
            }
            let ask = Ask { target: Target::Still(site::cold(number)), variant: RequestVariant::Whole };
            match self.exchange(&mut connection, vec![ask], false) {
                Some(true) => {}
                _ => match self.connect() {
                    Ok(another) => connection = another,
                    Err(()) => return,
                },
            }
        }
    }

    /// A connection, for so many requests.
    fn visit(&mut self, requests: u64) {
        let Ok(mut connection) = self.connect() else { return };
        for left in (0..requests).rev() {
            if self.scene.is_over() {
                return;
            }
            let asks = match self.rng.f64() < 0.1 {
                // Those for a program with a body are no pair: the second would wait in its way.
                true => vec![self.small(), self.small()],
                false => vec![self.ask()],
            };
            let closes = left == 0 && self.rng.bool();
            if self.exchange(&mut connection, asks, closes) != Some(true) {
                return;
            }
            let pause = match self.rng.f64() < 0.01 {
                true => LONG_PAUSE,
                false => Duration::from_micros(self.rng.u64(0..30_000)),
            };
            if !self.scene.sleep(pause) {
                return;
            }
        }
    }

    fn connect(&mut self) -> Result<Connection, ()> {
        match Connection::open(self.scene.port, VISITOR, None) {
            Ok(connection) => Ok(connection),
            Err(error) => {
                if !self.scene.is_over() {
                    self.scene.report.violation(Fault::Silence, format_args!("cannot connect: {error}"));
                    self.scene.sleep(Duration::from_secs(1));
                }
                Err(())
            }
        }
    }

    /// Sends requests together and reads their answers. Whether the connection may be used again; none if the server
    /// closed it while it was idle, as servers may.
    fn exchange(&mut self, connection: &mut Connection, asks: Vec<Ask<'a>>, closes: bool) -> Option<bool> {
        let report = self.scene.report;
        let mut request = Vec::new();
        let pair = asks.len() > 1;
        let last = asks.len() - 1;
        for (at, ask) in asks.iter().enumerate() {
            ask.write(closes && at == last, &mut request);
        }
        let was_kept = connection.answers > 0;
        let at = Instant::now();
        // A connection that was closed meanwhile says so when it is read.
        let _ = connection.send(&request);
        let mut keeps = true;
        for (number, ask) in asks.into_iter().enumerate() {
            let sent = Sent { ask, closes: closes && number == last, at };
            if pair {
                report.count(Kind::Pipelined);
            }
            match self.read(connection, &sent) {
                Ok(kept) => keeps = kept,
                Err(Broken::Unanswered) if was_kept && number == 0 => {
                    report.count(Kind::KeptClosed);
                    return None;
                }
                Err(broken) => {
                    self.broken(&sent, &broken);
                    return Some(false);
                }
            }
        }
        Some(keeps)
    }

    fn read(&mut self, connection: &mut Connection, sent: &Sent) -> Result<bool, Broken> {
        let (head, known) = sent.ask.answer(connection, sent.at, self.scene.report)?;
        if let Some(known) = known {
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            self.known.insert(sent.ask.name().to_owned(), known);
        }
        if sent.closes && head.keeps() {
            let what = format_args!("{} was to be the last, and is kept: {}", sent.ask.name(), head.shown());
            self.scene.report.violation(Fault::WrongAnswer, what);
        }
        Ok(head.keeps())
    }

    fn broken(&self, sent: &Sent, broken: &Broken) {
        let fault = match broken {
            Broken::Unanswered | Broken::Cut { .. } => Fault::Cut,
            Broken::Silent => Fault::Silence,
            Broken::Malformed(_) => Fault::WrongAnswer,
        };
        let (name, variant) = (sent.ask.name(), &sent.ask.variant);
        let seconds = sent.at.elapsed().as_secs_f64();
        self.scene.report.violation(fault, format_args!("{name} ({variant}) after {seconds:.2} s: {broken}"));
    }

    fn ask(&mut self) -> Ask<'a> {
        self.asked += 1;
        let dice = self.rng.u32(0..1000);
        let target = match dice {
            0..300 => return self.live(),
            300..700 => self.cold(),
            700..920 => self.sized(u64::MAX),
            920..960 => Target::Missing(format!("/none/{}-{}", self.number, self.asked)),
            960..975 => {
                let folder = self.rng.usize(0..COLD_FOLDERS);
                Target::Listing { target: site::cold_folder(folder), names: COLD_FILES / COLD_FOLDERS }
            }
            975..977 => Target::Listing { target: "/names/".into(), names: NAMES },
            977..990 => Target::Echo(said(self.rng.u64(..), self.rng.usize(1..100_000))),
            _ => Target::File,
        };
        let variant = self.variant(&target);
        Ask { target, variant }
    }

    /// A file of no more than 256 KiB.
    fn small(&mut self) -> Ask<'a> {
        let target = if self.rng.bool() { self.cold() } else { self.sized(256 << 10) };
        let variant = self.variant(&target);
        Ask { target, variant }
    }

    fn cold(&mut self) -> Target<'a> {
        Target::Still(site::cold(self.rng.usize(0..COLD_FILES)))
    }

    /// One of the sizes; the larger they are, the more rarely.
    fn sized(&mut self, bytes_max: u64) -> Target<'a> {
        let sized = &self.scene.site.sized;
        loop {
            let still = &sized[self.rng.usize(0..sized.len())];
            let keep = ((1 << 20) as f64 / still.bytes.max(1) as f64).min(1.0);
            if still.bytes <= bytes_max && self.rng.f64() < keep {
                return Target::Still(still.clone());
            }
        }
    }

    fn variant(&mut self, target: &Target) -> RequestVariant {
        let Target::Still(Still { target, bytes }) = target else { return RequestVariant::Whole };
        let bytes = *bytes;
        let known = self.known.get(target).cloned();
        match (self.rng.u32(0..100), known) {
            (0..10, _) => RequestVariant::Head,
            (10..20, Some(known)) if self.rng.bool() => RequestVariant::Unless(known),
            (10..20, Some(known)) => RequestVariant::Since(known),
            (20..32, _) if bytes > 0 => match self.rng.u32(0..4) {
                0 => RequestVariant::Last { bytes: self.rng.u64(1..=bytes) },
                1 => RequestVariant::From { first: self.rng.u64(0..bytes) },
                _ => {
                    let first = self.rng.u64(0..bytes);
                    RequestVariant::Bytes { first, last: self.rng.u64(first..bytes) }
                }
            },
            (32..34, _) => RequestVariant::Beyond,
            _ => RequestVariant::Whole,
        }
    }

    /// A file that changes. Ranges lie within every version of it, and hold enough bytes to tell which.
    fn live(&mut self) -> Ask<'a> {
        let live: &Live = &self.scene.site.live[self.rng.usize(0..self.scene.site.live.len())];
        let known = self.known.get(&live.target).cloned();
        let variant = match (self.rng.u32(0..100), known) {
            (0..10, _) => RequestVariant::Head,
            (10..25, Some(known)) => RequestVariant::Unless(known),
            (25..40, _) => {
                let first = self.rng.u64(0..BYTES_MIN / 2);
                RequestVariant::Bytes { first, last: self.rng.u64(first + 50..BYTES_MIN) }
            }
            (40..45, _) => RequestVariant::From { first: self.rng.u64(0..BYTES_MIN / 2) },
            (45..50, _) => RequestVariant::Last { bytes: self.rng.u64(50..BYTES_MIN) },
            _ => RequestVariant::Whole,
        };
        Ask { target: Target::Live(live), variant }
    }
}
