//! Laws: it changes nothing how bytes are cut on their way in or out, and where a file's bytes are.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

/// Requests after which the connection stays open.
static GOING_ON: LazyLock<Vec<String>> = LazyLock::new(|| {
    let window = WINDOW_BYTES;
    let across = format!("bytes={}-{}", window - 50, window + 50);
    let several = format!("bytes=5-9,{}-{},-7", window - 5_000, window + 5_000);
    let ranges = [across, several]
        .map(|range| format!("GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: {range}\r\n\r\n"));
    PLAIN.iter().copied().map(str::to_owned).chain(ranges).collect()
});

const PLAIN: &[&str] = &[
    "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nGET /middle.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /one-window.bin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /middle.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=1-1,100-199\r\n\r\n",
    "GET /empty.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD /large.bin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /missing HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /closed HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /folder HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /folder/?sort=size HTTP/1.1\r\nHost: a\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /small.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /small.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /small.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /",
    "GET /large.bin HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n0\r\nT: v\r\n\r\n",
    "GET /small.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
];

/// Requests that may come last.
const LAST: &[&str] = &[
    "",
    "GET /small.txt HTTP/1.1\r\nHo",
    "GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /folder/ HTTP/1.0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nGET / HTT",
    "GET /small.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "GET /small.txt HTTP/1.1\r\nHost : a\r\n\r\nGET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    "what is this?\r\n\r\n",
];

fn input() -> impl Strategy<Value = Vec<u8>> {
    (vec(select(GOING_ON.as_slice()), 0..6), select(LAST))
        .prop_map(|(requests, last)| (requests.concat() + last).into_bytes())
}

/// What a client gets, and what the log says about it.
#[derive(PartialEq, Eq)]
struct Outcome {
    got: Vec<u8>,
    log: Vec<(String, u16, u64)>,
}

impl std::fmt::Debug for Outcome {
    /// Short enough to be read: whole bodies would fill the screen.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let got = String::from_utf8_lossy(&self.got);
        let lines: Vec<&str> = got.lines().filter(|line| line.starts_with("HTTP/1.1 ")).collect();
        f.debug_struct("Outcome")
            .field("bytes", &self.got.len())
            .field("lines", &lines)
            .field("log", &self.log)
            .finish()
    }
}

fn outcome(mut world: World, input: &[u8], pieces: &[usize], rooms: &[usize]) -> Outcome {
    let client = world.exchange(input, pieces, rooms);
    let line = |record: &Record| {
        // How much of a refused request was read depends on its pieces; why it was refused does not.
        let line = match record.reason {
            "" => String::from_utf8_lossy(&record.request_line).into_owned(),
            reason => reason.to_owned(),
        };
        (line, record.status, record.body_bytes)
    };
    Outcome { got: client.got, log: world.tally.records.iter().map(line).collect() }
}

/// All at once, everything resident, a wire that takes everything.
fn plain_outcome(input: &[u8]) -> Outcome {
    outcome(world(), input, &[], &[])
}

fn looks() -> impl Strategy<Value = Vec<Look>> {
    vec(
        select(
            &[Look::Resident, Look::ResidentUpTo(1), Look::ResidentUpTo(7_000), Look::Absent, Look::Copied][..],
        ),
        0..20,
    )
}

proptest! {
    // A case that fails becomes a test with a name: no seeds are kept.
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_of_the_input_gives_the_same_output(input in input(), pieces in vec(1usize..60, 1..8)) {
        prop_assert_eq!(outcome(world(), &input, &pieces, &[]), plain_outcome(&input));
    }

    #[test]
    fn any_acceptance_of_the_output_gives_the_same_bytes(input in input(), rooms in vec(1usize..200_000, 4..8)) {
        prop_assert_eq!(outcome(world(), &input, &[], &rooms), plain_outcome(&input));
    }

    #[test]
    fn wherever_the_bytes_of_a_file_are_they_are_the_same(
        input in input(),
        looks in looks(),
        rooms in vec(2_000usize..500_000, 1..4),
    ) {
        let world = world();
        world.disk.script(looks);
        prop_assert_eq!(outcome(world, &input, &[], &rooms), plain_outcome(&input));
    }

    #[test]
    fn whoever_does_the_jobs_the_bytes_are_the_same(
        input in input(),
        jobs in select(&[Jobs::Later, Jobs::AtOnce][..]),
        pieces in vec(1usize..200, 1..4),
        rooms in vec(2_000usize..100_000, 1..4),
    ) {
        let mut world = world();
        world.jobs = jobs;
        prop_assert_eq!(outcome(world, &input, &pieces, &rooms), plain_outcome(&input));
    }

    #[test]
    fn files_found_apart_are_the_same(
        input in input(),
        jobs in select(&[Jobs::Later, Jobs::AtOnce][..]),
        pieces in vec(1usize..200, 1..4),
        rooms in vec(2_000usize..100_000, 1..4),
    ) {
        let mut world = world();
        (world.jobs, world.local) = (jobs, None);
        prop_assert_eq!(outcome(world, &input, &pieces, &rooms), plain_outcome(&input));
    }
}

#[test]
fn a_split_at_every_byte() {
    let input = [PLAIN.concat().replace("large", "one-window").as_bytes(), LAST[6].as_bytes()].concat();
    let whole = plain_outcome(&input);
    assert_eq!(outcome(world(), &input, &[1], &[]), whole, "one byte at a time");
    for at in 1..input.len() {
        assert_eq!(outcome(world(), &input, &[at, input.len()], &[]), whole, "split at {at}");
    }
}

#[test]
fn a_wire_that_takes_one_byte_at_a_time() {
    let input =
        [get("/small.txt"), get("/one-window.bin"), get("/folder/"), get("/missing")].concat().into_bytes();
    assert_eq!(outcome(world(), &input, &[], &[1]), plain_outcome(&input));
}
