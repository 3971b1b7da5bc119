//! Looks for what is known already, in a queue with new names.

use super::*;

#[test]
fn second_looks_take_the_place_of_new_names_in_a_full_queue() {
    let mut bench = Bench::new(1, 4);
    let (file, has_begun, let_go) = gated();
    assert!(bench.submit(&load(&file, 0, false), 0));
    has_begun.recv_timeout(PATIENCE).unwrap();
    for token in 1..5 {
        assert!(bench.submit(&find(&format!("/{token}")), token));
    }
    assert!(!bench.submit(&find("/5"), 5), "the client that fills the queue is refused");
    assert!(bench.submit_for_nobody(look("/known")).is_ok());
    assert_eq!(bench.completed(1), [4], "the newest was given up");
    assert!(matches!(bench.results[0].1.done, Done::Failed(Failure::Overloaded)));
    let other = Waiter {
        completions: Arc::clone(&bench.completions),
        token: 6,
        exchange: ExchangeId::default(),
        client: client(2),
    };
    let submission = Submission { job: find("/6"), waiter: Some(other), came: Instant::now() };
    assert!(bench.pool.submit(submission).is_ok(), "another client has its place");
    assert_eq!(bench.completed(2), [3, 4]);
    let_go.send(()).unwrap();
    bench.completed(6);
    let order: Vec<u64> = bench.results.iter().map(|(token, _)| *token).collect();
    let place = |token| order.iter().position(|other| *other == token);
    assert_eq!(order[..3], [4, 3, 0]);
    // Which of both clients is next follows from the time that the first job took.
    assert!(place(1) < place(2) && place(6) < place(2), "and does not wait behind the others: {order:?}");
}

#[test]
fn looks_that_nobody_waits_for_leave_half_of_the_queue_to_others() {
    let mut bench = Bench::new(1, 4);
    let (file, has_begun, let_go) = gated();
    assert!(bench.submit(&load(&file, 0, false), 0));
    has_begun.recv_timeout(PATIENCE).unwrap();
    for number in 0..10 {
        let _ = bench.submit_for_nobody(look(&format!("/known{number}")));
    }
    for token in 1..3 {
        assert!(bench.submit(&find(&format!("/{token}")), token), "{token}");
    }
    let_go.send(()).unwrap();
    assert_eq!(bench.completed(3), [0, 1, 2]);
    assert_eq!(bench.metrics().2, 0, "none was refused");
}
