//! A first pass: each file of a site once, by one client and by eight, from the page cache and from the disk.
//!
//! No server has seen the files before, so each starts anew for each pass. What counts is the time of the whole pass, and the
//! processor time of the server for a mebibyte.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use flash_rig::interrupt;
use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};

use super::cached::median;
use super::dataset;
use super::report::{Bar, number, print_table};
use super::servers::{self, Place, Server};

/// Files of one size.
struct Files {
    name: &'static str,
    count: usize,
    bytes: usize,
}

const FILES: [Files; 4] = [
    Files { name: "100 KB", count: 2_000, bytes: 100 << 10 },
    Files { name: "1 MB", count: 200, bytes: 1 << 20 },
    Files { name: "8 MB", count: 40, bytes: 8 << 20 },
    Files { name: "64 MB", count: 5, bytes: 64 << 20 },
];
const CLIENTS: [usize; 2] = [1, 8];
/// What a client reads at a time.
const BUFFER_BYTES: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(30);

/// A pass that was measured.
pub(crate) struct Pass {
    files: &'static Files,
    is_cold: bool,
    clients: usize,
    server: Server,
    seconds: f64,
    cpu_us_per_mb: f64,
}

pub(crate) fn run(place: &Place, site: &Path, servers: &[Server], rounds: usize) -> Result<Vec<Pass>> {
    let place = &Place { root: site, ..*place };
    for files in &FILES {
        let names: Vec<String> = (0..files.count).map(|number| files.of(number)).collect();
        let made: Vec<_> = names.iter().map(|name| (name.as_str(), files.bytes)).collect();
        dataset::cached(site, &made)?;
    }
    let servers: Vec<Server> =
        servers.iter().copied().filter(|&server| matches!(server, Server::Amped | Server::Nginx)).collect();
    let mut passes = Vec::new();
    for round in 0..rounds {
        for kind in kinds() {
            eprint!("round {} of {rounds}, {}", round + 1, name(kind));
            let mut servers = servers.clone();
            let first = round % servers.len().max(1);
            servers.rotate_left(first);
            for server in servers {
                interrupt::check()?;
                let pass = measure(place, kind, server)?;
                eprint!("  {} {:.3} s, {:.0} µs/MB", server.name(), pass.seconds, pass.cpu_us_per_mb);
                passes.push(pass);
            }
            eprintln!();
        }
    }
    Ok(passes)
}

fn measure(place: &Place, (files, is_cold, clients): Kind, server: Server) -> Result<Pass> {
    for number in 0..files.count {
        let mut file = File::open(place.root.join(files.of(number)))?;
        match is_cold {
            true => {
                file.sync_all()?;
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
            false => _ = std::io::copy(&mut file, &mut std::io::sink())?,
        }
    }
    let running = servers::start(server, place, &[])?;
    let before = running.process.usage()?;
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..clients).map(|_| scope.spawn(|| files.request_all(running.port, &next))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let used = running.process.usage()?.since(&before);
    let mebibytes = (files.count * files.bytes) as f64 / f64::from(1 << 20);
    Ok(Pass {
        files,
        is_cold,
        clients,
        server,
        seconds,
        cpu_us_per_mb: used.cpu_ns as f64 / 1000.0 / mebibytes,
    })
}

impl Files {
    fn of(&self, number: usize) -> String {
        format!("{}-{number}.bin", self.name.replace(' ', "-").to_lowercase())
    }

    /// Requests the next file that nobody has requested, until there is none.
    fn request_all(&self, port: u16, next: &AtomicUsize) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return Ok(());
            }
            let name = self.of(number);
            stream.write_all(format!("GET /{name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").as_bytes())?;
            self.read_answer(&mut stream, &mut buffer).with_context(|| format!("requesting {name}"))?;
        }
    }

    fn read_answer(&self, stream: &mut TcpStream, buffer: &mut [u8]) -> Result<()> {
        let mut held = 0;
        let head = loop {
            match stream.read(&mut buffer[held..])? {
                0 => bail!("the connection ended before the body"),
                count => held += count,
            }
            if let Some(end) = buffer[..held].windows(4).position(|end| end == b"\r\n\r\n") {
                break end + 4;
            }
        };
        if !buffer.starts_with(b"HTTP/1.1 200 ") {
            bail!("{}", String::from_utf8_lossy(&buffer[..held.min(60)]));
        }
        let mut left = self.bytes.checked_sub(held - head).context("more came than the file has")?;
        while left > 0 {
            match stream.read(buffer)? {
                0 => bail!("{left} bytes are missing"),
                count => left = left.checked_sub(count).context("more came than the file has")?,
            }
        }
        Ok(())
    }
}

/// Files, whether they are cold, and how many clients request them.
type Kind = (&'static Files, bool, usize);

fn kinds() -> impl Iterator<Item = Kind> {
    FILES.iter().flat_map(|files| {
        [false, true].into_iter().flat_map(move |cold| CLIENTS.map(move |clients| (files, cold, clients)))
    })
}

fn rounds(passes: &[Pass], kind: Kind, server: Server, figure: impl Fn(&Pass) -> f64) -> Vec<f64> {
    let is_it = |pass: &&Pass| {
        (pass.files.name, pass.is_cold, pass.clients) == (kind.0.name, kind.1, kind.2)
            && pass.server == server
    };
    passes.iter().filter(is_it).map(figure).collect()
}

fn name((files, is_cold, clients): Kind) -> String {
    format!(
        "{} {}, {clients} client{}",
        files.name,
        if is_cold { "cold" } else { "warm" },
        if clients == 1 { "" } else { "s" }
    )
}

/// The median of each round's ratio of times.
fn ratio(passes: &[Pass], kind: Kind) -> Option<f64> {
    let seconds = |server| rounds(passes, kind, server, |pass| pass.seconds);
    median(
        seconds(Server::Amped)
            .iter()
            .zip(seconds(Server::Nginx))
            .map(|(ours, theirs)| ours / theirs)
            .collect(),
    )
}

pub(crate) fn print(passes: &[Pass]) {
    let heads = ["first pass", "amped, s", "nginx, s", "ratio", "amped, µs/MB", "nginx, µs/MB"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for kind in kinds() {
        let of = |server, figure: fn(&Pass) -> f64| {
            median(rounds(passes, kind, server, figure)).map_or("–".into(), number)
        };
        rows.push(vec![
            name(kind),
            of(Server::Amped, |pass| pass.seconds),
            of(Server::Nginx, |pass| pass.seconds),
            ratio(passes, kind).map_or("–".into(), number),
            of(Server::Amped, |pass| pass.cpu_us_per_mb),
            of(Server::Nginx, |pass| pass.cpu_us_per_mb),
        ]);
    }
    print_table("First pass over a site, median of the rounds", &rows);
}

pub(crate) fn bars(passes: &[Pass]) -> Vec<Bar> {
    let bar =
        |kind| Bar::at_most(format!("first pass, {}: amped ÷ nginx", name(kind)), 1.0, ratio(passes, kind));
    kinds().map(bar).collect()
}

pub(crate) fn json(passes: &[Pass]) -> Value {
    let of = |pass: &Pass| {
        json!({
            "files": pass.files.name, "cold": pass.is_cold, "clients": pass.clients, "server": pass.server.name(),
            "seconds": pass.seconds, "cpu_us_per_mb": pass.cpu_us_per_mb,
        })
    };
    passes.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_the_same_kind_of_pass() {
        let pass = |files, is_cold, server, seconds| Pass {
            files,
            is_cold,
            clients: 1,
            server,
            seconds,
            cpu_us_per_mb: 1.0,
        };
        let [small, large, ..] = &FILES;
        let passes = [
            pass(small, false, Server::Amped, 1.0),
            pass(small, false, Server::Nginx, 2.0),
            pass(small, true, Server::Nginx, 9.0),
            pass(large, false, Server::Amped, 5.0),
        ];
        assert_eq!(ratio(&passes, (small, false, 1)), Some(0.5));
        assert_eq!(ratio(&passes, (small, true, 1)), None);
        assert_eq!(ratio(&passes, (large, false, 1)), None);
        assert_eq!(name((small, true, 8)), "100 KB cold, 8 clients");
    }
}
