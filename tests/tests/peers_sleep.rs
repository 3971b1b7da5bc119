//! What `flash why` says of other servers that serve cold files from a slow disk.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flash_rig::{Cpus, Dynamic, Machine, ServerSpec, Setup};
use flash_sleep::Cause;
use flash_slowdisk::SlowImage;
use flash_tests::{PATIENCE, open_folder};
use flash_why::{Block, Level, Target, Watch};

const FILES: usize = 400;
const CLIENTS: usize = 8;
/// So many sleeps over files say what a server sleeps for.
const SLEEPS: usize = 200;
/// Between two times that the kernel's caches are emptied.
const COLD_EVERY: Duration = Duration::from_millis(300);

fn path(number: usize, suffix: &str) -> String {
    format!("/d{}/f{number}.{suffix}", number % 40)
}

/// Clients that request all files again and again.
fn ask(port: u16, suffix: &str, next: &AtomicUsize, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let path = path(next.fetch_add(7, Ordering::Relaxed) % FILES, suffix);
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let mut said = Vec::new();
        // A server at its limit refuses; that is not what is tested.
        let asked = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
            stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut said))
        });
        if asked.is_ok() {
            assert!(said.starts_with(b"HTTP/1.1 200"), "{path}: {}", said.escape_ascii());
        }
    }
}

/// The sleeps of a server meanwhile.
fn watch(pid: u32, port: u16, suffix: &str) -> Vec<Block> {
    let mut watch = Watch::begin(&Target::Pid(pid), Some(Level::Ebpf)).expect("it could begin before");
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut blocks = Vec::new();
    thread::scope(|scope| {
        (0..CLIENTS).for_each(|_| _ = scope.spawn(|| ask(port, suffix, &next, &over)));
        let (begun, mut cold) = (Instant::now(), Instant::now());
        let enough =
            |blocks: &[Block]| blocks.iter().filter(|block| block.cause.is_of_files()).count() >= SLEEPS;
        while !enough(&blocks) && begun.elapsed() < PATIENCE {
            if cold.elapsed() > COLD_EVERY {
                fs::write("/proc/sys/vm/drop_caches", "3").expect("root may");
                cold = Instant::now();
            }
            watch.poll(&mut |block| blocks.push(block)).expect("the kernel tells");
            thread::sleep(watch.interval());
        }
        over.store(true, Ordering::Relaxed);
    });
    let loops: Vec<u32> =
        watch.threads().iter().filter(|thread| thread.is_loop).map(|thread| thread.thread).collect();
    // Of a server with loops, theirs count.
    if blocks.iter().any(|block| loops.contains(&block.thread)) {
        blocks.retain(|block| loops.contains(&block.thread));
    }
    blocks
}

/// How many sleeps each cause has, without those of a worker that waits for work.
fn causes(blocks: &[Block]) -> BTreeMap<&'static str, usize> {
    let mut causes = BTreeMap::new();
    // Workers of php-fpm take turns with a lock of a file.
    let is_idle = |cause: Cause| cause.is_idle() || cause == Cause::FileLock;
    for block in blocks.iter().filter(|block| !is_idle(block.cause)) {
        *causes.entry(block.cause.name()).or_default() += 1;
    }
    causes
}

#[test]
fn other_servers_sleep_for_what_they_read() {
    let missing = Watch::begin(&Target::Pid(std::process::id()), Some(Level::Ebpf)).err();
    if let Some(missing) = missing.map(|error| error.to_string()).or_else(flash_slowdisk::missing) {
        return eprintln!("NOT TESTED, sleeps of other servers: {missing}");
    }
    let (site, point, work) = (open_folder(), open_folder(), open_folder());
    for number in 0..FILES {
        for (suffix, content) in [("html", &[b'x'; 8192][..]), ("php", b"<?php echo 'hello';\n")] {
            let file = site.path().join(&path(number, suffix)[1..]);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, content).expect("a file");
        }
    }
    let image = SlowImage::mount(site.path(), point.path(), 32, "read delay fixed:500us").expect("an image");
    let machine = Machine::take_with(&work.path().join("journal")).expect("a journal of our own");
    let cpus = Cpus::shared().expect("processors");
    let setup = Setup { threads: Some(CLIENTS), ..Setup::new(image.mountpoint(), work.path(), &cpus) };
    for name in ["nginx", "lighttpd", "apache-prefork", "caddy"] {
        let spec: ServerSpec = name.parse().expect("a server");
        if let Err(missing) = spec.find() {
            eprintln!("NOT TESTED, sleeps of {name}: {missing}");
            continue;
        }
        let server = machine.start(&spec, &setup).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        let blocks = watch(pid(&server.process), server.port, "html");
        judge(name, &blocks, image.mountpoint());
    }
    match flash_rig::Php::find() {
        Err(missing) => eprintln!("NOT TESTED, sleeps of php-fpm: {missing}"),
        Ok(_) => {
            let php = machine.start_php(&setup).unwrap_or_else(|error| panic!("{error:#}"));
            let dynamic = Some(Dynamic { php: Some(&php.socket) });
            let spec: ServerSpec = "nginx".parse().expect("a server");
            if spec.find().is_err() {
                return eprintln!("NOT TESTED, sleeps of php-fpm: nginx is not installed");
            }
            let server = machine.start(&spec, &Setup { dynamic, ..setup.clone() });
            let server = server.unwrap_or_else(|error| panic!("nginx: {error:#}"));
            judge("php-fpm", &watch(pid(&php.process), server.port, "php"), image.mountpoint());
        }
    }
}

fn judge(name: &str, blocks: &[Block], site: &Path) {
    let causes = causes(blocks);
    let of_files: Vec<_> = blocks.iter().filter(|block| block.cause.is_of_files()).collect();
    eprintln!("{name}: {causes:?}");
    let sum: usize = causes.values().sum();
    assert!(of_files.len() > 20 && of_files.len() * 100 > sum * 90, "{name}: {causes:?}");
    assert!(causes.get("unknown").is_none_or(|&unknown| unknown * 20 < sum), "{name}: {causes:?}");
    let site = site.to_str().expect("temporary paths are UTF-8");
    let named =
        of_files.iter().filter(|block| block.path.as_deref().is_some_and(|path| path.starts_with(site)));
    assert!(named.count() * 10 > of_files.len() * 5, "{name}: few paths lie below {site}");
    if name == "nginx" {
        let reads = causes.get("page-cache read").copied().unwrap_or(0);
        assert!(
            causes.values().all(|&count| count <= reads),
            "{name}: page-cache reads come first: {causes:?}"
        );
        assert!(blocks.iter().any(|block| &*block.call == "openat"), "{name}: no openat");
    }
}

fn pid(process: &flash_rig::Process) -> u32 {
    process.pid().as_raw_nonzero().get().unsigned_abs()
}
