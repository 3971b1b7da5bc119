//! What unit tests of servers share: a background thread, settings without hurry, and a request.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flash_cgi::Variables;
use flash_core::path::SitePath;
use flash_core::upstream::Open;
use flash_process::{Limits, Reporter};

use crate::background::{BackgroundThread, CommandChannel};
use crate::settings::{DirectLimits, Settings};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The way to a thread that runs.
pub(crate) fn background(reporter: &Arc<Reporter>) -> Arc<CommandChannel> {
    let background = Arc::new(CommandChannel::new().unwrap());
    let mut waiting = BackgroundThread::new(Arc::clone(&background), Arc::clone(reporter)).unwrap();
    thread::spawn(move || waiting.run());
    background
}

pub(crate) fn settings(kept_max: usize, queue_max: usize) -> Settings {
    Settings {
        kept_max,
        connect: PATIENCE,
        queue_max,
        queue_wait: PATIENCE,
        direct: DirectLimits { silence_max: PATIENCE, fin_max: PATIENCE, send_max: PATIENCE },
        monitor: Limits { pending_max: queue_max, linger: PATIENCE },
    }
}

pub(crate) fn request() -> Open {
    Open {
        route: 0,
        path: SitePath::parse(b"/x").unwrap().into_owned(),
        variables: Arc::new(Variables::default()),
        name: "GET /x".into(),
        again: false,
        may_be_repeated: true,
        failed: None,
        sticky: None,
        hash: None,
        direct: None,
        upstreams: None,
    }
}
