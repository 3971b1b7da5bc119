//! Which helpers a job goes to.

use std::time::Duration;

use flash_core::ExchangeId;
use flash_core::hosts::Hosts;
use flash_core::job::{Done, List, Load};
use flash_core::listing::Order;
use flash_core::path::SitePath;
use flash_core::site::{Site, SiteSettings};
use flash_core::site_id::SiteId;
use tempfile::TempDir;

use super::pool::tests::{PATIENCE, gated};
use super::*;
use crate::completion_queue::CompletionQueue;
use crate::{Limits, testing};

/// A reload comes while the only helper waits for the disk.
#[test]
fn pools_grow_at_once_and_shrink_with_each_job() {
    let folder = TempDir::new().unwrap();
    let shared = testing::shared(
        folder.path(),
        Limits { connections_max: 1, handshakes_max: 1, drain: Duration::ZERO },
        10_000,
    );
    let limits = HelperLimits { helpers_max: 1, queue_max: 8, single_flight: true, offload: Offload::Needed };
    let helpers = Helpers::start(limits, shared).unwrap();
    let gates: Vec<_> = (0..4).map(|_| gated()).collect();
    for (file, ..) in &gates {
        let job = Job::Load(Load {
            site: None,
            file: Arc::clone(file),
            window: 0..10,
            copy: false,
            completes: None,
        });
        helpers.submit(job, None).unwrap();
    }
    let (_, has_begun, _) = &gates[0];
    has_begun.recv_timeout(PATIENCE).unwrap();
    let files = || helpers.devices().swap_remove(0);
    assert_eq!((files().helpers, files().queued), (1, 3));
    helpers.set_helpers_max(3);
    for (_, has_begun, _) in &gates[1..3] {
        has_begun.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!((files().helpers, files().helpers_max, files().queued), (3, 3, 1));
    helpers.set_helpers_max(1);
    gates.iter().for_each(|(.., let_go)| let_go.send(()).unwrap());
    let give_up = Instant::now() + PATIENCE;
    while files().helpers > 1 || files().in_flight > 0 || files().queued > 0 {
        assert!(Instant::now() < give_up, "{:?}", files());
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(files().idle, 1);
}

#[test]
fn a_listing_does_not_wait_for_the_helpers_of_files() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("a.txt"), "a").unwrap();
    let mut parts = testing::parts(folder.path(), 10_000);
    let settings = SiteSettings { list: true, ..SiteSettings::default() };
    parts.server.hosts = Hosts::one(Site { settings: settings.into(), ..Site::default() });
    let shared =
        ServerState::new(parts, Limits { connections_max: 1, handshakes_max: 100, drain: Duration::ZERO });
    let limits = HelperLimits { helpers_max: 1, queue_max: 8, single_flight: true, offload: Offload::Needed };
    let helpers = Helpers::start(limits, shared).unwrap();
    let completions = Arc::new(CompletionQueue::new().unwrap());
    let submit = |job, token| {
        helpers
            .submit(
                job,
                Some(Waiter {
                    completions: Arc::clone(&completions),
                    token,
                    exchange: ExchangeId::default(),
                    client: Client::default(),
                }),
            )
            .unwrap()
    };
    let (file, has_begun, let_go) = gated();
    submit(Job::Load(Load { site: None, file, window: 0..10, copy: false, completes: None }), 0);
    has_begun.recv_timeout(PATIENCE).unwrap();
    let path = SitePath::parse(b"/").unwrap().into_owned();
    submit(
        Job::List(List {
            site: SiteId(0),
            path,
            order: Order::default(),
            asked_ms: 0,
            listing: None,
            page: 0,
        }),
        1,
    );
    let give_up = Instant::now() + PATIENCE;
    let (token, completion) = loop {
        if let Some(completion) = completions.drain().next() {
            break completion;
        }
        assert!(Instant::now() < give_up, "nobody lists while the only helper of files waits");
        thread::sleep(Duration::from_millis(1));
    };
    let done = completion.outcome().done;
    assert!(token == 1 && matches!(done, Done::Listed(_)), "{token}: {done:?}");
    let_go.send(()).unwrap();
}
