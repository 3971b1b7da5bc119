//! Pipelined requests are answered in order, however their jobs end (RFC 9112 §9.3.2).

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Calls `run` with every sequence of choices that it can make. `run` gets a function that chooses a number below a limit.
fn for_every_choice(mut run: impl FnMut(&mut dyn FnMut(usize) -> usize)) -> usize {
    let mut made: Vec<(usize, usize)> = Vec::new();
    let mut runs = 0;
    loop {
        let mut at = 0;
        run(&mut |of| {
            if at == made.len() {
                made.push((0, of));
            }
            at += 1;
            made[at - 1].0
        });
        runs += 1;
        while made.last().is_some_and(|(choice, of)| choice + 1 == *of) {
            made.pop();
        }
        match made.last_mut() {
            Some((choice, _)) => *choice += 1,
            None => return runs,
        }
    }
}

/// Serves these inputs at the same time, and ends jobs in the chosen order. Returns what each client got.
fn serve(mut world: World, inputs: &[String], choose: &mut dyn FnMut(usize) -> usize) -> Vec<Vec<u8>> {
    world.jobs = Jobs::Later;
    let mut clients: Vec<Client> = inputs.iter().map(|_| world.connect()).collect();
    for (client, input) in clients.iter_mut().zip(inputs) {
        world.receive(client, input.as_bytes());
    }
    loop {
        let mut waiting: Vec<&mut Client> =
            clients.iter_mut().filter(|client| client.pending.is_some()).collect();
        if waiting.is_empty() {
            return clients.into_iter().map(|client| client.got).collect();
        }
        let chosen = choose(waiting.len());
        world.complete(waiting[chosen]);
    }
}

#[test]
fn every_interleaving_of_completions_gives_the_same_bytes() {
    let inputs = [get("/small.txt") + &get("/one-window.bin"), get("/one-window.bin"), get("/folder/")];
    let expected: Vec<_> = inputs.iter().map(|input| world().ask(input)).collect();
    let schedules = for_every_choice(|choose| {
        assert!(serve(world(), &inputs, choose) == expected, "an interleaving gave other bytes");
    });
    assert!(schedules > 500, "{schedules} interleavings");
}

proptest! {
    // A case that fails becomes a test with a name: no seeds are kept.
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn many_connections_do_not_disturb_each_other(choices in vec(any::<prop::sample::Index>(), 1..64)) {
        let paths = ["/small.txt", "/large.bin", "/folder/", "/missing", "/one-window.bin"];
        let inputs: Vec<String> = (0..12).map(|n| get(paths[n % 5]) + &get(paths[(n * 3 + 1) % 5])).collect();
        let expected: Vec<_> = inputs.iter().map(|input| world().ask(input)).collect();
        let mut choices = choices.iter().cycle();
        let got = serve(world(), &inputs, &mut |of| choices.next().expect("there is at least one").index(of));
        prop_assert!(got == expected);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut world = world();
    let paths = ["/missing", "/large.bin", "/small.txt", "/one-window.bin", "/middle.txt"];
    let got = world.ask(paths.map(get).concat());
    let all = replies(&got, &[]);
    assert_eq!(all.iter().map(|reply| reply.status).collect::<Vec<_>>(), [404, 200, 200, 200, 200]);
    assert_eq!(all[1].body, text(LARGE_BYTES));
    assert_eq!(all[2].body, text(100));
    assert_eq!(all[3].body, text(10_000));
    assert_eq!(all[4].body, text(6_000));
}

#[test]
fn a_thousand_pipelined_requests_pass_through_a_bounded_output() {
    let mut world = world();
    let got = world.ask(get("/small.txt").repeat(1000));
    assert_eq!(statuses(&got), [200; 1000]);
    let got = world.ask(get("/missing").repeat(1000));
    assert_eq!(statuses(&got), [404; 1000]);
}

#[test]
fn a_hit_leaves_while_the_miss_behind_it_is_looked_for() {
    let mut world = world();
    world.ask(get("/small.txt"));
    world.jobs = Jobs::Later;
    let mut client = world.connect();
    let waits = world.receive(&mut client, (get("/small.txt") + &get("/middle.txt")).as_bytes());
    assert_eq!(waits, Waits::ForJob);
    assert_eq!(reply(&client.got).body, text(100));
    world.complete(&mut client);
    assert_eq!(statuses(&client.got), [200, 200]);
}

#[test]
fn a_head_leaves_while_its_body_is_loaded() {
    let mut world = world();
    world.disk.script([Look::Absent]);
    let mut client = world.connect();
    assert_eq!(world.receive(&mut client, get("/large.bin").as_bytes()), Waits::ForJob);
    assert!(client.got.starts_with(b"HTTP/1.1 200 OK\r\n") && client.got.ends_with(b"\r\n\r\n"));
}
