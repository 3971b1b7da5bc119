//! A pool of log-ins without its threads: a test performs the checks.

use std::sync::mpsc::channel;

use flash_core::record::Peer;
use flash_observe::{Destination, Limits};

use flash_observe::metrics::MetricsMemory;

use super::*;
use crate::completion_queue::Completion;

/// Right if its number is even. It counts how often it ran, and breaks for 13.
#[derive(Debug)]
struct Even(u64, Arc<AtomicUsize>);

impl Check for Even {
    fn key(&self) -> CheckKey {
        let mut key = CheckKey::default();
        key[..8].copy_from_slice(&self.0.to_le_bytes());
        key
    }

    fn run(&self, _: u64) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        assert_ne!(self.0, 13, "it breaks");
        self.0.is_multiple_of(2)
    }
}

/// A pool without threads, whose checks a test performs.
struct World {
    pool: Arc<LoginPool>,
    completions: Arc<CompletionQueue>,
    runs: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        let error_log = ErrorLog::open(Destination::Stderr, Limits::default()).unwrap();
        let metrics = Metrics::new(MetricsMemory::for_loops(0).unwrap().into()).into();
        let pool = LoginPool::new(metrics, error_log);
        Self { pool, completions: Arc::new(CompletionQueue::new().unwrap()), runs: Arc::default() }
    }

    /// The check of this number, from a client with this address.
    fn submit(&self, number: u64, client: u8, token: u64) -> Result<(), Failure> {
        let client = ClientNetwork::of(Peer::Inet(([192, 0, 2, client], 1).into()));
        let (completions, exchange) = (Arc::clone(&self.completions), ExchangeId::default());
        let waiter = Waiter { completions, token, exchange, client };
        self.pool.submit(Box::new(Even(number, Arc::clone(&self.runs))), waiter)
    }

    fn perform_all(&self) {
        while let Some(task) = self.pool.take() {
            self.pool.perform(&task);
        }
    }

    /// The results that have come: their tokens, and `None` for failures.
    fn results(&self) -> Vec<(u64, Option<bool>)> {
        let result = |(token, completion): (u64, Completion)| match completion.outcome().done {
            Done::Checked(is_right) => (token, Some(is_right)),
            Done::Failed(_) => (token, None),
            other => panic!("{other:?}"),
        };
        self.completions.drain().map(result).collect()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

#[test]
fn equal_checks_are_made_once() {
    let world = World::new();
    for (number, client, token) in [(2, 1, 10), (3, 1, 11), (2, 2, 12), (2, 1, 13)] {
        world.submit(number, client, token).unwrap();
    }
    world.perform_all();
    let mut results = world.results();
    results.sort_unstable();
    assert_eq!(results, [(10, Some(true)), (11, Some(false)), (12, Some(true)), (13, Some(true))]);
    assert_eq!(world.runs(), 2);
    // What was checked is not remembered here.
    world.submit(2, 1, 14).unwrap();
    world.perform_all();
    assert_eq!((world.results(), world.runs()), (vec![(14, Some(true))], 3));
}

#[test]
fn a_flood_sheds_its_own_and_other_clients_have_their_turn() {
    let world = World::new();
    (0..200).for_each(|number| world.submit(100 + number, 1, number).unwrap());
    let refused = world.results();
    assert!(refused.iter().all(|(_, result)| result.is_none()), "{refused:?}");
    // The other client comes when the queue is full.
    world.submit(2, 2, 1000).unwrap();
    let first = [world.pool.take().unwrap(), world.pool.take().unwrap()];
    first.iter().for_each(|task| world.pool.perform(task));
    let told = world.results();
    assert!(told.contains(&(1000, Some(true))), "it waits behind one other: {told:?}");
    world.perform_all();
    assert_eq!(world.runs(), QUEUE_MAX);
    let all = refused.len() + told.len() + world.results().len();
    assert_eq!(all, 201, "each client is told");
    assert_eq!(world.pool.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn a_flood_while_the_queue_is_held_is_refused_unseen() {
    let world = World::new();
    let held = world.pool.state.lock();
    let refused = (0..2 * UNSORTED_MAX as u64).filter(|number| world.submit(*number, 1, *number).is_err());
    assert_eq!(refused.count(), UNSORTED_MAX);
    drop(held);
    world.perform_all();
    assert_eq!((world.runs(), world.results().len()), (QUEUE_MAX, UNSORTED_MAX));
}

#[test]
fn a_check_that_waited_too_long_or_breaks_fails_alone() {
    let world = World::new();
    for number in [13, 2] {
        world.submit(number, 1, number).unwrap();
    }
    world.perform_all();
    assert_eq!(world.results(), [(13, None), (2, Some(true))]);
    let came =
        Instant::now().checked_sub(PATIENCE + Duration::from_secs(1)).expect("the machine runs for longer");
    world.submit(4, 1, 4).unwrap();
    let task = Task { came, ..world.pool.take().unwrap() };
    world.pool.perform(&task);
    assert_eq!((world.results(), world.runs()), (vec![(4, None)], 2));
}

#[test]
fn threads_are_there_for_users_alone_and_check() {
    let folder = tempfile::tempdir().unwrap();
    let server = crate::testing::parts(folder.path(), 1000).server;
    let world = World::new();
    world.pool.start_for(&server, None).unwrap();
    assert_eq!(*world.pool.threads.lock(), 0, "nobody logs in");
    let gates = ProcessGates::new(1).unwrap();
    let (sender, receiver) = channel();
    let pool = Arc::clone(&world.pool);
    thread::spawn(move || {
        let passed = gates.pass();
        sender.send(()).unwrap();
        drop(passed);
        pool.run(Some(&gates));
    });
    receiver.recv().unwrap();
    world.submit(2, 1, 1).unwrap();
    let begun = Instant::now();
    let mut results = world.results();
    while results.is_empty() && begun.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(1));
        results = world.results();
    }
    assert_eq!(results, [(1, Some(true))]);
}
