//! Threads as each level sees them, and which of them are loops. The process is this one, so that it is there.

use flash_sleep::Cause;

use super::*;

const SECOND: Sight = Sight { watched_us: 1_000_000, sees_calls: true };
const ASLEEP_ONLY: Sight = Sight { sees_calls: false, ..SECOND };

fn block(thread: u32, cause: Cause, us: u64) -> Block {
    Block { cause, us, ..Block::of_thread(thread) }
}

fn thread(thread: u32) -> ThreadTotals {
    ThreadTotals { pid: std::process::id(), thread, blocks: 1, ..ThreadTotals::default() }
}

/// One that waited so often in an epoll instance.
fn waiter(number: u32, epoll: u32, waits: u64) -> ThreadTotals {
    let poller = Some(Poller::Epoll(epoll));
    ThreadTotals { is_loop: true, poller, waits, wait_us: waits * 1000, ..thread(number) }
}

fn settled<const N: usize>(loops: &mut Loops, sight: Sight, mut threads: [ThreadTotals; N]) -> [bool; N] {
    loops.settle(&mut threads, sight);
    threads.map(|thread| thread.is_loop)
}

#[test]
fn workers_of_a_pool_have_no_loop() {
    let mut loops = Loops::default();
    for _ in 0..200 {
        loops.note(&block(1, Cause::PipeOrSocket, 9));
        loops.note(&block(2, Cause::PipeOrSocket, 9));
    }
    let poll = |number, waits| ThreadTotals { is_loop: true, waits, ..thread(number) };
    let threads = [poll(1, 10), poll(2, 300), poll(3, 0)];
    assert_eq!(settled(&mut loops, SECOND, threads), [false, true, true]);
}

#[test]
fn one_client_makes_no_loop() {
    let mut loops = Loops::default();
    let own = std::process::id();
    loops.clients.extend([((own, 4_000_005), false), ((own, 4_000_006), true)]);
    let threads = [waiter(1, 4_000_005, 9), waiter(2, 4_000_006, 9), waiter(3, 4_000_007, 9)];
    assert_eq!(settled(&mut loops, SECOND, threads), [false, true, true], "of the last nothing is known");
    let gone = ThreadTotals { pid: u32::MAX, ..waiter(4, 7, 9) };
    assert_eq!(settled(&mut loops, SECOND, [gone]), [false], "it ended before anybody could look");
}

#[test]
fn a_pool_s_thread_is_a_loop_only_when_no_other_is_spare() {
    let mut loops = Loops::default();
    let threads = [waiter(1, 5, 300), waiter(2, 5, 300), waiter(3, 6, 0)];
    assert_eq!(settled(&mut loops, SECOND, threads), [false, false, true]);
    let busy = |number| ThreadTotals { block_us: 900_000, ..waiter(number, 5, 0) };
    assert_eq!(settled(&mut loops, SECOND, [busy(1), busy(2), busy(3)]), [true, true, true]);
    // One has nothing to do now and then, and another has just come.
    loops.note(&block(1, Cause::UserLock, 300_000));
    let new = ThreadTotals { block_us: 100, ..waiter(3, 5, 0) };
    assert_eq!(settled(&mut loops, SECOND, [busy(1), busy(2), new]), [false, false, false]);
}

#[test]
fn an_instance_that_none_waits_in_belongs_to_who_always_has_something_to_do() {
    // A process that is gone, so that what it had is what was seen last.
    let at = |thread: ThreadTotals| ThreadTotals { pid: u32::MAX, ..thread };
    let mut loops = Loops {
        instances: HashMap::from([(u32::MAX, (vec![5, 6, 7], 0))]),
        clients: HashMap::from([5, 6, 7].map(|epoll| ((u32::MAX, epoll), true))),
        ..Loops::default()
    };
    // Thread 3 had nothing to do for a while, and 4 waits in an instance of its own.
    loops.note(&block(3, Cause::UserLock, 400_000));
    let of = |loops: &mut Loops, sight, blocks| {
        let other = ThreadTotals { blocks, ..thread(8) };
        settled(loops, sight, [thread(1), thread(2), thread(3), waiter(4, 7, 9), other].map(at))
    };
    assert_eq!(of(&mut loops, ASLEEP_ONLY, 0), [true, true, false, true, false]);
    assert_eq!(of(&mut loops, ASLEEP_ONLY, 1), [false, false, false, true, false], "three for two");
    assert_eq!(of(&mut loops, SECOND, 0), [false, false, false, true, false], "calls would have been seen");
    // An instance with one client, or one that is claimed, is nobody's.
    loops.clients.insert((u32::MAX, 5), false);
    let threads = [thread(1), waiter(4, 6, 9), waiter(5, 7, 9)].map(at);
    assert_eq!(settled(&mut loops, ASLEEP_ONLY, threads), [false, true, true]);
}
