//! *sped*: a single process, event-driven. The loop does each job itself, and all its connections wait meanwhile.

use std::io;
use std::mem;
use std::sync::Arc;

use flash_core::ExchangeId;
use flash_core::job::{Job, Outcome};

use flash_observe::metrics::LoopMetrics;
use flash_process::Child;

use crate::background;
use crate::blocking_call;
use crate::control::Control;
use crate::dispatch::Dispatch;
use crate::epoll::Epoll;
use crate::helpers::Client;
use crate::limits::Limits;
use crate::listener::Listener;
use crate::loops;
use crate::root_watch;
use crate::server_state::ServerState;
use crate::warm_up;

pub(crate) struct Inline(pub(crate) Arc<ServerState>);

impl Dispatch for Inline {
    fn dispatch(
        &mut self,
        job: Job,
        _: u64,
        _: ExchangeId,
        _: Client,
        metrics: &LoopMetrics,
    ) -> Option<Outcome> {
        Some(metrics.watch_blocking(|| self.0.run(&job), || blocking_call::of_job(&job)))
    }
}

pub(crate) fn serve(
    loops: usize,
    limits: Limits,
    listeners: Vec<Arc<Listener>>,
    needed: &[Child],
    mut control: Control,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let shared = ServerState::new(control.parts()?, limits);
    root_watch::start(&shared, true, true)?;
    background::start(&shared)?;
    let hot_paths = mem::take(&mut control.hot_paths);
    let ready = || {
        warm_up::with_a_thread(&shared, hot_paths);
        ready()
    };
    loops::serve::<Epoll, _>(
        loops,
        &shared,
        listeners,
        needed,
        control,
        |_| Inline(Arc::clone(&shared)),
        ready,
    )
}
