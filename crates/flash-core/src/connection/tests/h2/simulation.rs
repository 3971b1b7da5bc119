//! A connection with many streams, from a seed. Jobs end late and in any order, the socket blocks anywhere, windows open in
//! drops, clients reset. Whatever happens, each stream that was not reset gets its answer.

use std::collections::BTreeSet;

use super::*;
use crate::connection::tests::programs::{manner, world_of_programs};
use crate::testing::{Random, each_seed};
use crate::upstream::UpstreamProtocol;

const PATHS: [&str; 7] =
    ["/small.txt", "/middle.txt", "/large.bin", "/one-window.bin", "/empty.txt", "/nothing", "/cgi/a"];
const STREAMS: u32 = 60;

#[test]
fn whatever_happens_each_stream_gets_its_answer() {
    each_seed(1..20, simulate);
}

fn simulate(seed: u64) {
    let mut random = Random::new(seed);
    let mut world = world_of_programs();
    world.jobs = Jobs::Later;
    world.manner = Some(manner(UpstreamProtocol::Cgi));
    world.server.settings.jobs_in_turn = random.chance(30);
    let window = *random.pick(&[0, 1, 1_000, 65_535, 1 << 20]);
    let mut client = H2Client::connect(&mut world, window);
    client.room = 0;
    let mut asked: Vec<(u32, &str, bool)> = Vec::new();
    let (mut reset, mut begun) = (BTreeSet::new(), BTreeSet::new());
    let mut next = 1;
    for step in 0..200_000 {
        let is_over = next > 2 * STREAMS && client.connection().is_idle();
        if is_over {
            break;
        }
        assert!(step < 199_999, "seed {seed} never ends: {:?}", client.connection());
        if random.chance(2) {
            // A driver may look at a connection without a reason.
            client.turn(&mut world);
        }
        match random.within(0..100) {
            0..10 if next < 2 * STREAMS => {
                let (path, is_head) = (*random.pick(&PATHS), random.chance(10));
                let method = if is_head { "HEAD" } else { "GET" };
                let urgency = format!("u={}", random.within(0..8));
                let fields = [("priority", &*urgency)];
                let request = H2Client::request(next, method, path, &fields, flag::END_STREAM);
                let cut = random.within(0..request.len() as u64) as usize;
                client.send(&mut world, &request[..cut]);
                client.send(&mut world, &request[cut..]);
                asked.push((next, path, is_head));
                next += 2;
            }
            10..40 => {
                let room = *random.pick(&[1, 9, 100, 5_000, 50_000, 500_000]);
                let room = random.within(0..room + 1) as usize;
                client.make_room(&mut world, room);
            }
            40..60 => {
                let increment = *random.pick(&[1, 100, 20_000, 2_000_000]);
                let stream = match asked.is_empty() || random.chance(40) {
                    true => 0,
                    false => random.pick(&asked).0,
                };
                if client.granted(stream) < (1 << 30) {
                    client.grant(&mut world, stream, increment);
                }
            }
            60..63 if !asked.is_empty() => {
                let stream = random.pick(&asked).0;
                if reset.len() < 5 && reset.insert(stream) {
                    client.send(&mut world, &raw(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8]));
                }
            }
            63..85 if !client.jobs.is_empty() => {
                let place = random.within(0..client.jobs.len() as u64) as usize;
                if random.chance(30) {
                    let looks = [Look::Resident, Look::ResidentUpTo(random.within(1..90_000)), Look::Copied];
                    world.disk.script([*random.pick(&looks)]);
                    let (id, job) = client.jobs.swap_remove(place);
                    let done = world.disk.try_now(&job).unwrap_or_else(|| world.disk.help(&job));
                    world.server.cache_result(&job, &done);
                    client.finish(&mut world, id, done.clone());
                    // The result for a stream that is over comes once more, and changes nothing.
                    if client.answers.get(&id.stream()).is_some_and(|answer| answer.has_ended) {
                        client.finish(&mut world, id, done);
                    }
                } else {
                    client.complete(&mut world, place);
                }
            }
            85..97 => {
                let runs = |program: &&crate::testing::Program| program.stream.is_some();
                let running: Vec<u32> =
                    client.programs.iter().filter(runs).map(|program| program.exchange.stream()).collect();
                if !running.is_empty() {
                    let stream = *random.pick(&running);
                    let (ends, bytes) = (random.chance(30), random.within(1..30_000) as usize);
                    let head: &[u8] = if begun.insert(stream) { b"A: b\n\n" } else { b"" };
                    client.hear(&mut world, stream, |program| {
                        if !program.ended {
                            program.say([head, &vec![b'p'; bytes][..]].concat());
                            program.ended = ends;
                        }
                    });
                }
            }
            _ => {
                world.now.advance(world.now.us + random.within(0..20_000));
            }
        }
        assert!(client.memory_bytes() < 8 << 20);
    }
    for (stream, path, is_head) in asked {
        if reset.contains(&stream) {
            continue;
        }
        let answer = client.answer(stream);
        let expected: Option<&[u8]> = match path {
            _ if is_head => Some(b""),
            "/small.txt" => Some(text(100)),
            "/middle.txt" => Some(text(6_000)),
            "/large.bin" => Some(&TEXT),
            "/one-window.bin" => Some(text(10_000)),
            "/empty.txt" => Some(b""),
            _ => None,
        };
        let status = if path == "/nothing" { "404" } else { "200" };
        assert_eq!(answer.status(), status, "seed {seed}, {path}");
        if let Some(expected) = expected {
            let differs = answer.body.iter().zip(expected).position(|(got, expected)| got != expected);
            assert_eq!((differs, answer.body.len()), (None, expected.len()), "seed {seed}, {stream} {path}");
        }
        assert!(path != "/cgi/a" || answer.body.iter().all(|&byte| byte == b'p'));
    }
    drop(client);
    let World { server, local, disk, tally, .. } = world;
    let ended = tally.records.iter().filter(|record| !record.cut).count();
    assert!(ended + reset.len() >= STREAMS as usize, "each has its record");
    drop((server, local));
    assert_eq!(disk.open_files(), 0, "something still holds a file");
}
