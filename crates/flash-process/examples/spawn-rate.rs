//! How fast programs are begun, and what memory and descriptors of the server cost: `spawn-rate [PROGRAM] [COUNT]`.
//!
//! Each line is a server of another size; for each the fork helper and, beside it, plain `fork()` in the server.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use flash_cgi::Variables;
use flash_core::upstream::OpenError;
use flash_process::{
    ExitStatus, Folder, ForkHelper, Limits, ProcessMonitor, ProcessObserver, ProgramRef, Reporter, Setup,
    SpawnRequest, Started, Stdio,
};

/// Programs that run at once.
const AT_ONCE: usize = 4;

struct Told(Sender<bool>, Option<Started>);

impl ProcessObserver for Told {
    fn started(&mut self, begun: Result<Started, OpenError>) {
        self.1 = Some(begun.expect("it can be begun"));
        let _ = self.0.send(false);
    }

    fn exited(&mut self, _: ExitStatus) {
        if let Some(started) = self.1.take() {
            started.handle.finish();
        }
        let _ = self.0.send(true);
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().unwrap_or_else(|| "/bin/true".into());
    let count: usize = arguments.next().map_or(2000, |count| count.parse().expect("COUNT is a number"));
    let folder = std::env::temp_dir().join(format!("flash-spawn-rate-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder can be made");
    fs::copy(&program, folder.join("program")).expect("PROGRAM can be copied");
    let setup = || Setup {
        folders: vec![Folder { prefix: b"/cgi".to_vec(), path: folder.clone() }],
        commands: Vec::new(),
        commands_folder: None,
        running_max: AT_ONCE,
        queue_max: AT_ONCE,
        queue_wait: Duration::from_secs(10),
        grace: Duration::from_secs(1),
        limits: Vec::new(),
        nice: 0,
    };
    let apart = ForkHelper::start(setup(), &|| Ok(())).expect("there is a fork helper");
    let inside = ForkHelper::in_thread(setup()).expect("there is another");
    println!("{:34} {:>12} {:>12}", "", "programs/s", "begun in µs");
    let mut memory = Vec::new();
    let mut files = Vec::new();
    for (memory_bytes, descriptors) in [(0, 0), (1 << 30, 0), (1 << 30, 10_000)] {
        memory.resize(memory_bytes, 1u8);
        while files.len() < descriptors {
            files.push(File::open("/dev/null").expect("there is room for descriptors (ulimit -n)"));
        }
        for (name, helper) in [("helper", &apart), ("fork", &inside)] {
            let (per_second, median) = measure(helper, count, Path::new("/cgi/program"));
            let server = format!("{name}, {} MiB, {descriptors} descriptors", memory_bytes >> 20);
            println!("{server:34} {per_second:>12.0} {median:>12.0}");
        }
    }
    fs::remove_dir_all(&folder).expect("the folder can be removed");
}

/// Programs per second with some at once, and then the median time to begin one alone.
fn measure(helper: &ForkHelper, count: usize, path: &Path) -> (f64, f64) {
    let reporter = Reporter { stderr_line: Box::new(|_, _| ()), log: Box::new(|what| eprintln!("{what}")) };
    let limits = Limits { pending_max: 2 * AT_ONCE, linger: Duration::from_secs(10) };
    let monitor = ProcessMonitor::start(helper, limits, Arc::new(reporter)).expect("there is a monitor");
    let (told, tells) = channel();
    let begin = || {
        monitor.spawn(SpawnRequest {
            what: ProgramRef::Script { folder: 0, path: path.as_os_str().as_encoded_bytes().to_vec() },
            variables: Arc::new(Variables::default()),
            stdio: Stdio::Stream,
            name: "rate".into(),
            observer: Box::new(Told(told.clone(), None)),
        });
    };
    let start = Instant::now();
    (0..AT_ONCE).for_each(|_| begin());
    let mut ended = 0;
    for has_ended in tells.iter() {
        ended += usize::from(has_ended);
        match ended {
            _ if ended == count => break,
            _ if has_ended && ended + AT_ONCE <= count => begin(),
            _ => {}
        }
    }
    let per_second = count as f64 / start.elapsed().as_secs_f64();
    let mut times: Vec<f64> = (0..count / 4)
        .map(|_| {
            let start = Instant::now();
            begin();
            while tells.recv().expect("it is begun") {}
            let took = start.elapsed().as_secs_f64() * 1e6;
            while !tells.recv().expect("it ends") {}
            took
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (per_second, times[times.len() / 2])
}
