//! The load of the proof. Clients on kept-alive connections request files anywhere in the tree, names that do not exist, and
//! one hot file. Meanwhile caches are dropped and files are replaced.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_tests::reply::find;

use crate::tree::{self, Tree};

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) found: AtomicU64,
    pub(crate) not_found: AtomicU64,
    pub(crate) drops: AtomicU64,
    pub(crate) replaced: AtomicU64,
}

const CLIENTS: u64 = 64;
/// Of a hundred requests, those for any file, for a large one, and for names that do not exist. The rest are for the hot
/// file.
const COLD_PERCENT: u64 = 69;
const LARGE_PERCENT: u64 = 1;
const MISSING_PERCENT: u64 = 20;
const HOT_FILE: usize = 0;
/// How often memory is forgotten while a run lasts, however fast the server is.
const DROPS: u64 = 6;
const REPLACE_EVERY: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(5);

impl Load {
    /// Asks this many requests, checks every byte of every answer, and says how long it took.
    pub(crate) fn run(&self, server: SocketAddr, tree: &Tree, requests: u64, seed: u64) -> Duration {
        let (begun, over) = (Instant::now(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| self.forget(&over, requests / DROPS));
            scope.spawn(|| {
                let mut dice = Dice::new(seed);
                repeat(&over, REPLACE_EVERY, || {
                    tree.replace(dice.below(tree.files as u64) as usize).expect("a file can be replaced");
                    self.replaced.fetch_add(1, Ordering::Relaxed);
                });
            });
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let share = requests / CLIENTS + u64::from(client < requests % CLIENTS);
                    let dice = Dice::new(seed + 1 + client);
                    scope.spawn(move || self.ask(server, tree.files, share, dice))
                })
                .collect();
            let failed: Vec<_> = clients.into_iter().filter_map(|client| client.join().err()).collect();
            over.store(true, Ordering::Relaxed);
            assert!(failed.is_empty(), "{} of {CLIENTS} clients got wrong answers", failed.len());
        });
        begun.elapsed()
    }

    /// Empties the kernel's caches each time that so many more requests were answered.
    fn forget(&self, over: &AtomicBool, every: u64) {
        let mut next = 0;
        while !over.load(Ordering::Relaxed) {
            let answered = self.found.load(Ordering::Relaxed) + self.not_found.load(Ordering::Relaxed);
            if answered >= next {
                tree::drop_caches();
                self.drops.fetch_add(1, Ordering::Relaxed);
                next += every;
            }
            thread::sleep(LOOK);
        }
    }

    fn ask(&self, server: SocketAddr, files: usize, requests: u64, mut dice: Dice) {
        let mut stream = flash_tests::connect(server);
        let mut buffer = Vec::new();
        for _ in 0..requests {
            let file = dice.below(files as u64) as usize;
            match dice.below(100) {
                kind if kind < COLD_PERCENT => self.ask_file(&mut stream, &mut buffer, file),
                kind if kind < COLD_PERCENT + LARGE_PERCENT => {
                    self.ask_file(&mut stream, &mut buffer, tree::large_beside(file, files));
                }
                kind if kind < COLD_PERCENT + LARGE_PERCENT + MISSING_PERCENT => {
                    // A name that nobody has asked for before, in a folder that exists.
                    let path = format!("{}.{:x}", tree::path(file), dice.next());
                    let (status, body) = get(&mut stream, &mut buffer, &path);
                    assert!(status == 404, "{path}: {status} {}", body.escape_ascii());
                    self.not_found.fetch_add(1, Ordering::Relaxed);
                }
                _ => self.ask_file(&mut stream, &mut buffer, HOT_FILE),
            }
        }
    }

    fn ask_file(&self, stream: &mut TcpStream, buffer: &mut Vec<u8>, file: usize) {
        let path = tree::path(file);
        let (status, body) = get(stream, buffer, &path);
        let right = status == 200 && body == tree::content(file);
        assert!(right, "{path}: {status} {}", body[..body.len().min(200)].escape_ascii());
        self.found.fetch_add(1, Ordering::Relaxed);
    }
}

fn repeat(over: &AtomicBool, every: Duration, mut what: impl FnMut()) {
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            what();
            next = Instant::now() + every;
        }
        thread::sleep(LOOK);
    }
}

/// One request and its whole answer: the status, and the body.
fn get<'b>(stream: &mut TcpStream, buffer: &'b mut Vec<u8>, path: &str) -> (u16, &'b [u8]) {
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes())
        .expect("a request is taken");
    buffer.clear();
    loop {
        let had = buffer.len();
        // Most answers are small.
        buffer.resize(had + if had == 0 { 4 << 10 } else { 256 << 10 }, 0);
        let count = stream.read(&mut buffer[had..]).expect("an answer in time");
        assert!(count > 0, "{path}: the connection ended");
        buffer.truncate(had + count);
        let Some(head) = find(buffer, b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&buffer[..head]).expect("heads are ASCII");
        let status = text.get(9..12).and_then(|status| status.parse().ok()).expect("a status");
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
        let body = head + 4..head + 4 + length.parse::<usize>().expect("a number");
        if buffer.len() >= body.end {
            assert_eq!(buffer.len(), body.end, "{path}: more than was asked for");
            return (status, &buffer[body]);
        }
    }
}

/// Numbers that look random, the same for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
