//! Which helpers a job goes to, and which devices have helpers of their own.

use flash_observe::AccessLogs;
use std::time::Duration;

use flash_core::ExchangeId;
use flash_core::job::{Done, List, Load};
use flash_core::listing::Order;
use flash_core::path::SitePath;
use flash_core::site::hosts::Hosts;
use flash_core::site::id::SiteId;
use flash_core::site::{Site, SiteSettings};
use flash_disk::DeviceClass;
use tempfile::TempDir;

use super::pool::tests::{PATIENCE, gated};
use super::*;
use crate::completion_queue::CompletionQueue;
use crate::fair_queue::ClientNetwork;
use crate::service::configuration::Configuration;
use crate::{Limits, testing};

const LIMITS: Limits =
    Limits { connections_max: 1, handshakes_max: 1, drain: Duration::ZERO, upgrade_drain: Duration::ZERO };

fn one_helper() -> HelperLimits {
    HelperLimits { helpers_max: 1, queue_max: 8 }
}

/// Jobs have named these devices, and all of them are mounted.
fn name(helpers: &Helpers, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        let _ = helpers.met.push(Device { number: number as u32, class: DeviceClass::Remote });
    }
    helpers.update_pools(|_| true);
}

fn has_pool(helpers: &Helpers, number: usize) -> bool {
    helpers.pools.load().iter().any(|pools| pools.files.device.number == number as u32)
}

#[test]
fn pools_end_with_their_devices_and_idle_ones_give_way() {
    let folder = TempDir::new().unwrap();
    let helpers = Helpers::new(one_helper(), testing::shared(folder.path(), LIMITS, 10_000)).unwrap();
    name(&helpers, 1..DEVICES_MAX + 1);
    assert_eq!(helpers.devices().len(), DEVICES_MAX + 1);
    let (file, has_begun, let_go) = gated();
    let job = Job::Load(Load { site: None, file, window: 0..10, goes_to: 10, copy: false, completes: None });
    let first = Arc::clone(&helpers.pools.load()[1].files);
    first.submit(Submission { job, waiter: None, came: Instant::now() }).unwrap();
    has_begun.recv_timeout(PATIENCE).unwrap();
    name(&helpers, DEVICES_MAX + 1..DEVICES_MAX + 3);
    assert_eq!(helpers.devices().len(), DEVICES_MAX + 1);
    assert_eq!(
        [1, 2, 3, 4, DEVICES_MAX + 1, DEVICES_MAX + 2].map(|number| has_pool(&helpers, number)),
        [true, false, false, true, true, true],
        "the first device hangs, and the next two were idle"
    );
    let all: Vec<_> = helpers.pools.load().iter().map(|pools| Arc::downgrade(&pools.files)).collect();
    helpers.update_pools(|device| device == Device::ELSEWHERE);
    drop(first);
    let_go.send(()).unwrap();
    let give_up = Instant::now() + PATIENCE;
    while all.iter().filter(|pool| pool.strong_count() > 0).count() > 1 {
        assert!(Instant::now() < give_up, "helpers of devices that are gone stay");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(helpers.devices().len(), 1);
}

#[test]
fn listings_that_a_reload_allows_get_helpers_of_their_own() {
    let folder = TempDir::new().unwrap();
    let shared = testing::shared(folder.path(), LIMITS, 10_000);
    let helpers = Helpers::start(one_helper(), Arc::clone(&shared)).unwrap();
    let kinds = || -> Vec<String> { helpers.devices().into_iter().map(|device| device.kind).collect() };
    helpers.reloaded(1);
    assert_eq!(kinds(), ["files"]);
    let mut server = testing::parts(folder.path(), 10_000).server;
    let settings = SiteSettings { list: true, ..SiteSettings::default() };
    server.hosts = Hosts::one(Site { settings: settings.into(), ..Site::default() });
    let endpoints = Arc::default();
    shared.replace_configuration(Configuration {
        server,
        access_logs: AccessLogs::default(),
        limits: LIMITS,
        endpoints,
    });
    helpers.reloaded(1);
    let give_up = Instant::now() + PATIENCE;
    while kinds() != ["files", "listings"] {
        assert!(Instant::now() < give_up, "{:?}", kinds());
        thread::sleep(Duration::from_millis(1));
    }
}

/// A reload comes while the only helper waits for the disk.
#[test]
fn pools_grow_at_once_and_shrink_with_each_job() {
    let folder = TempDir::new().unwrap();
    let shared = testing::shared(
        folder.path(),
        Limits { connections_max: 1, handshakes_max: 1, ..Limits::default() },
        10_000,
    );
    let limits = HelperLimits { helpers_max: 1, queue_max: 8 };
    let helpers = Helpers::start(limits, shared).unwrap();
    let gates: Vec<_> = (0..4).map(|_| gated()).collect();
    for (file, ..) in &gates {
        let job = Job::Load(Load {
            site: None,
            file: Arc::clone(file),
            window: 0..10,
            goes_to: 10,
            copy: false,
            completes: None,
        });
        helpers.submit(job, None).unwrap();
    }
    let (_, has_begun, _) = &gates[0];
    has_begun.recv_timeout(PATIENCE).unwrap();
    let files = || helpers.devices().swap_remove(0);
    assert_eq!((files().helpers, files().queued), (1, 3));
    helpers.reloaded(3);
    for (_, has_begun, _) in &gates[1..3] {
        has_begun.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!((files().helpers, files().helpers_max, files().queued), (3, 3, 1));
    helpers.reloaded(1);
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
        ServerState::new(parts, Limits { connections_max: 1, handshakes_max: 100, ..Limits::default() });
    let limits = HelperLimits { helpers_max: 1, queue_max: 8 };
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
                    client: ClientNetwork::default(),
                }),
            )
            .unwrap()
    };
    let (file, has_begun, let_go) = gated();
    submit(Job::Load(Load { site: None, file, window: 0..10, goes_to: 10, copy: false, completes: None }), 0);
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
