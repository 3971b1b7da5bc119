//! Requests as the request path makes them.
#![allow(dead_code)] // Two programs of tests use this, each its part.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flash_cgi::Variables;
use flash_cgi::fastcgi::{Decoder, Encoder, Event};
use flash_core::path::SitePath;
use flash_core::upstream::{self, Lease, Open, OpenError, Opened, ReleaseMode, Upstream};
use flash_process::{Limits, Reporter};
use flash_upstream::{DirectLimits, LogDetached, RouteUpstreams, Settings};

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Asked {
    now: Option<Opened>,
    later: Receiver<Opened>,
}

/// An exchange that has begun.
pub(crate) struct Request {
    pub(crate) used: bool,
    pub(crate) lease: Box<dyn Lease>,
    stream: UnixStream,
}

/// A reporter that keeps all that it is told.
pub(crate) fn reporter() -> (Arc<Reporter>, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let (one, other) = (Arc::clone(&said), Arc::clone(&said));
    let reporter = Reporter {
        stderr_line: Box::new(move |name, line| {
            one.lock().unwrap().push(format!("{name}: {}", String::from_utf8_lossy(line)));
        }),
        log: Box::new(move |what| other.lock().unwrap().push(what.to_string())),
    };
    (Arc::new(reporter), said)
}

pub(crate) fn log_detached() -> LogDetached {
    Arc::new(|_, _| panic!("no request is detached here"))
}

pub(crate) fn settings() -> Settings {
    Settings {
        kept_max: 32,
        connect: PATIENCE,
        queue_max: 100,
        queue_wait: PATIENCE,
        direct: DirectLimits { silence_max: PATIENCE, fin_max: PATIENCE, send_max: PATIENCE },
        monitor: Limits { pending_max: 100, linger: PATIENCE },
    }
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Asked {
    pub(crate) fn of(programs: &RouteUpstreams, variables: Variables, again: bool) -> Self {
        let (reply, later) = channel();
        let begin = Open {
            route: 0,
            path: SitePath::parse(b"/x").unwrap().into_owned(),
            variables: Arc::new(variables),
            name: "GET /x".into(),
            again,
            may_be_repeated: true,
            failed: None,
            hash: None,
            sticky: None,
            direct: None,
            upstreams: None,
        };
        // A test may have lost interest.
        let reply = Box::new(move |begun| drop(reply.send(begun)));
        let now = upstream::Upstreams::begin(programs, begin, reply);
        Self { now, later }
    }

    #[track_caller]
    pub(crate) fn at_once(self) -> Opened {
        self.now.expect("this needs nobody's help")
    }

    #[track_caller]
    pub(crate) fn answer_at_once(self) -> Request {
        Request::of(self.at_once())
    }

    #[track_caller]
    pub(crate) fn answer(self) -> Request {
        Request::of(self.begun())
    }

    /// What there is instead of a request, if there is none.
    #[track_caller]
    pub(crate) fn answered(self) -> Result<Request, Opened> {
        match self.begun() {
            begun @ Opened::Running(..) => Ok(Request::of(begun)),
            begun => Err(begun),
        }
    }

    #[track_caller]
    pub(crate) fn refusal(self) -> OpenError {
        match self.begun() {
            Opened::Failed(why) => why,
            begun => panic!("{begun:?}"),
        }
    }

    #[track_caller]
    fn begun(self) -> Opened {
        self.now.unwrap_or_else(|| self.later.recv_timeout(PATIENCE).expect("every request is answered"))
    }

    pub(crate) fn is_answered(&self, within: Duration) -> bool {
        self.now.is_some() || self.later.recv_timeout(within).is_ok()
    }
}

impl Request {
    #[track_caller]
    fn of(begun: Opened) -> Self {
        let Opened::Running(stream, Upstream { lease, used, .. }) = begun else { panic!("{begun:?}") };
        // TCP or not, it is read and written alike.
        let stream = UnixStream::from(stream);
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { used, lease, stream }
    }

    pub(crate) fn send(&mut self) {
        self.send_with(&Variables::default());
    }

    pub(crate) fn send_with(&mut self, variables: &Variables) {
        self.lease.begins();
        let mut bytes = Vec::new();
        Encoder.begin(variables, true, &mut bytes);
        Encoder.end_body(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// What the server says in answer.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> String {
        let (mut decoder, mut said, mut buffer) = (Decoder::new(), Vec::new(), [0; 4096]);
        loop {
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "it ended before its answer did: {}", String::from_utf8_lossy(&said));
            let mut rest = &buffer[..count];
            while let Some(event) = decoder.next(&mut rest).unwrap() {
                match event {
                    Event::Stdout(bytes) => said.extend_from_slice(bytes),
                    Event::Stderr(bytes) => self.lease.stderr(bytes),
                    Event::End(_) => return String::from_utf8(said).unwrap(),
                }
            }
        }
    }

    /// Sees that there is no answer, only an end.
    #[track_caller]
    pub(crate) fn fail(&mut self) {
        // It may be known already.
        let mut bytes = Vec::new();
        Encoder.begin(&Variables::default(), true, &mut bytes);
        let _ = self.stream.write_all(&bytes);
        assert!(!matches!(self.stream.read(&mut [0]), Ok(1)));
    }

    #[track_caller]
    pub(crate) fn exchange(&mut self) -> String {
        self.send();
        self.receive()
    }

    #[track_caller]
    pub(crate) fn wait_for_end(&mut self) {
        assert_eq!(self.stream.read(&mut [0]).unwrap(), 0);
    }

    pub(crate) fn finish(self, how: ReleaseMode) {
        self.stream.set_nonblocking(true).unwrap();
        self.lease.finish(OwnedFd::from(self.stream), how);
    }
}
