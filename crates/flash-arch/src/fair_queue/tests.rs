//! Who has the next job, and what it is charged to.

use std::iter;

use super::newcomers::KNOWN_FROM;
use super::*;

const A: Lane = Lane::Client(ClientNetwork::V4(1 << 8));
const B: Lane = Lane::Client(ClientNetwork::V4(2 << 8));
const HALF: u8 = 50;
const MS: u64 = 1_000_000;

fn queue(jobs: &[(u64, Lane)]) -> FairQueue<u64> {
    let mut queue = FairQueue::default();
    jobs.iter().for_each(|&(number, lane)| queue.push(number, number, lane));
    queue
}

fn rest(queue: &mut FairQueue<u64>) -> Vec<u64> {
    iter::from_fn(|| queue.pop(HALF)).map(|(task, _)| task).collect()
}

/// Has a network known, with nothing that waits.
fn make_known(queue: &mut FairQueue<u64>, lane: Lane) {
    (0..KNOWN_FROM.into()).for_each(|number| queue.push(1_000_000 + number, 0, lane));
    while let Some((_, charge)) = queue.pop(HALF) {
        queue.charge(charge, 0);
    }
}

/// Takes jobs of so long in all.
fn serve(queue: &mut FairQueue<u64>, lane: Lane, spent_ns: u64) {
    queue.push(2_000_000, 0, lane);
    let (_, charge) = queue.pop(HALF).unwrap();
    queue.charge(charge, spent_ns);
}

fn stranger(number: u64) -> Lane {
    Lane::Client(ClientNetwork::V6(number << 16))
}

#[test]
fn a_flood_of_one_client_waits_behind_the_first_job_of_another() {
    let mut queue = queue(&[(1, A), (2, A), (3, A), (4, A), (5, B), (6, B)]);
    assert_eq!(rest(&mut queue), [1, 5, 2, 6, 3, 4]);
    assert!(queue.len() == 0 && queue.new.is_empty() && queue.known.is_empty());
}

#[test]
fn second_looks_take_turns_with_everything_else() {
    let mut queue = queue(&[(1, A), (2, A), (3, A), (4, Lane::Looks), (5, Lane::Looks)]);
    assert_eq!(rest(&mut queue), [4, 1, 5, 2, 3]);
}

#[test]
fn a_job_that_two_ask_for_is_done_when_the_first_line_reaches_it() {
    let mut queue = queue(&[(1, A), (2, A), (3, A)]);
    queue.stand(3, B);
    queue.stand(3, B);
    queue.stand(9, B);
    assert_eq!(rest(&mut queue), [1, 3, 2]);
    assert!(queue.new.is_empty());
}

#[test]
fn the_devices_time_is_shared_and_not_the_number_of_jobs() {
    let mut queue = FairQueue::default();
    make_known(&mut queue, A);
    make_known(&mut queue, B);
    let mut served = HashMap::from([(1, 0), (2, 0)]);
    for number in 1..=2000 {
        // Each has always one more.
        queue.push(2 * number, 1, A);
        queue.push(2 * number + 1, 2, B);
        let (whose, charge) = queue.pop(HALF).unwrap();
        let spent_ns = if whose == 1 { 9 * MS } else { MS };
        queue.charge(charge, spent_ns);
        *served.get_mut(&whose).unwrap() += spent_ns;
    }
    let of_first = served[&1] as f64 / (served[&1] + served[&2]) as f64;
    assert!((0.49..0.51).contains(&of_first), "{of_first}");
}

/// A job that takes long is paid for by who had it, also if nothing else of it waits meanwhile.
#[test]
fn a_client_that_asks_one_at_a_time_pays_too() {
    let mut queue = FairQueue::default();
    make_known(&mut queue, A);
    make_known(&mut queue, B);
    queue.push(1, 1, A);
    let (_, charge) = queue.pop(HALF).unwrap();
    queue.charge(charge, 10 * MS);
    queue.push(2, 2, B);
    let (_, charge) = queue.pop(HALF).unwrap();
    queue.charge(charge, MS);
    queue.push(3, 3, A);
    (4..9).for_each(|number| queue.push(number, number, B));
    assert_eq!(rest(&mut queue)[..3], [4, 5, 6]);
}

/// The time that known networks had among those that come once, with this share for these.
fn share_of_known(percent: u8) -> f64 {
    let mut queue = FairQueue::default();
    let known: Vec<Lane> = (0..20).map(|number| Lane::Client(ClientNetwork::V6(number << 16))).collect();
    known.iter().for_each(|lane| make_known(&mut queue, *lane));
    let (mut number, mut counts) = (0, [0_u64; 2]);
    let mut push = |queue: &mut FairQueue<u64>, whose, lane| {
        number += 1;
        queue.push(number, whose, lane);
    };
    (0_u64..).zip(&known).for_each(|(whose, lane)| push(&mut queue, whose, *lane));
    for stranger in 0..10_000_u32 {
        // They come faster than anybody can serve them; a known one asks again as soon as it has its answer.
        (0..2).for_each(|_| push(&mut queue, 99, Lane::Client(ClientNetwork::V4(stranger << 8))));
        let (whose, charge) = queue.pop(percent).unwrap();
        queue.charge(charge, 5 * MS);
        counts[usize::from(whose != 99)] += 1;
        if let Some(lane) = known.get(whose as usize) {
            push(&mut queue, whose, *lane);
        }
    }
    counts[1] as f64 / (counts[0] + counts[1]) as f64
}

#[test]
fn strangers_from_however_many_networks_have_one_share() {
    for (percent, of_known) in [(50, 0.5), (20, 0.8), (80, 0.2)] {
        let share = share_of_known(percent);
        assert!((share - of_known).abs() < 0.02, "{percent} %: {share}");
    }
}

#[test]
fn a_network_that_becomes_known_has_one_line() {
    let mut queue = queue(&[]);
    (0..100).for_each(|number| queue.push(number, number, A));
    let first: Vec<u64> = (0..KNOWN_FROM).filter_map(|_| queue.pop(HALF)).map(|(task, _)| task).collect();
    assert_eq!(first, (0..KNOWN_FROM.into()).collect::<Vec<_>>());
    queue.push(100, 100, B);
    assert!(queue.new.jobs == 1 && queue.known.jobs == 100 - KNOWN_FROM as usize);
    assert_eq!(rest(&mut queue)[..3].iter().filter(|task| **task == 100).count(), 1);
}

/// Eight who ask for one thing have made the disk work once.
#[test]
fn a_network_is_not_known_for_what_others_were_served() {
    let mut queue = queue(&[(1, B)]);
    (0..100).for_each(|_| queue.stand(1, A));
    assert_eq!(rest(&mut queue), [1]);
    assert!(!queue.known.knows(ClientNetwork::V4(1 << 8)) && queue.new.is_empty());
}

#[test]
fn while_no_known_network_waits_strangers_have_all_in_the_order_in_which_they_came() {
    let mut queue = FairQueue::default();
    make_known(&mut queue, A);
    (0..100).for_each(|number| queue.push(number, number, stranger(1000 - number)));
    assert_eq!(rest(&mut queue), (0..100).collect::<Vec<_>>());
    // What they had in its absence gives the known one no more than its turn.
    (100..110).for_each(|number| queue.push(number, 7, A));
    (110..120).for_each(|number| queue.push(number, 8, stranger(number)));
    let first = rest(&mut queue);
    assert!((4..=6).contains(&first[..10].iter().filter(|whose| **whose == 7).count()), "{first:?}");
}

/// Neither those who come first to their class nor those who come back to it have saved time up, also after a look at an empty queue.
#[test]
fn whoever_comes_later_has_no_more_than_its_turn() {
    let ten_of_each = |queue: &mut FairQueue<u64>, known| {
        (200..210).for_each(|number| queue.push(number, 8, stranger(number)));
        (210..220).for_each(|number| queue.push(number, 7, known));
        let first = rest(queue);
        assert!((4..=6).contains(&first[..10].iter().filter(|whose| **whose == 7).count()), "{first:?}");
    };
    let mut queue = FairQueue::default();
    make_known(&mut queue, A);
    (0..1000).for_each(|_| serve(&mut queue, A, 5 * MS));
    assert!(queue.pop(HALF).is_none());
    ten_of_each(&mut queue, A);
    let mut queue = FairQueue::default();
    (0..1000).for_each(|number| serve(&mut queue, stranger(number), 5 * MS));
    make_known(&mut queue, A);
    ten_of_each(&mut queue, A);
}

#[test]
fn a_full_queue_gives_up_the_newest_job_of_the_longest_line() {
    let mut queue = queue(&[(1, A), (2, A), (3, A), (4, B), (5, Lane::Looks)]);
    assert_eq!(queue.shed_for(A), None, "the client that floods is refused itself");
    assert_eq!(queue.shed_for(B), Some(3));
    assert_eq!(queue.shed_for(B), Some(2));
    assert_eq!(queue.shed_for(B), None, "the lines are equally long");
    assert!(queue.shed_for(Lane::Looks).is_some());
    assert!(queue.shed_for(Lane::Looks).is_some());
    assert_eq!(queue.shed_for(Lane::Looks), None, "second looks stay");
    assert_eq!(rest(&mut queue), [5]);
}

#[test]
fn what_another_client_waits_for_is_not_given_up() {
    let mut queue = queue(&[(1, A), (2, A), (3, A)]);
    queue.stand(3, B);
    assert_eq!(queue.shed_for(Lane::Client(ClientNetwork::V4(7 << 8))), Some(2));
    assert_eq!(rest(&mut queue), [1, 3]);
}

/// A queue that strangers have filled has room for those who are known, and a known one that floods it makes room for strangers.
#[test]
fn of_strangers_and_the_known_the_longer_line_gives_way() {
    let mut queue = FairQueue::default();
    make_known(&mut queue, A);
    (0..50).for_each(|number| queue.push(number, number, stranger(number)));
    queue.push(100, 100, A);
    assert!(queue.shed_for(A).is_some_and(|task| task < 50), "it gives way to the known one");
    queue.push(60, 60, B);
    assert_eq!(queue.shed_for(B), None, "and not to one more job of a stranger");
    (101..200).for_each(|number| queue.push(number, number, A));
    assert_eq!(queue.shed_for(B), Some(199));
    assert_eq!(queue.shed_for(A), None);
}
