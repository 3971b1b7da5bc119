//! A reload lowers the limits of heads: a request under way has been checked, and gets its answer.

use flash_h2::frame::flag;
use flash_http::head::Limits;

use super::programs::{manner, running, world_of_programs};
use super::*;
use crate::testing::H2Client;
use crate::upstream::UpstreamProtocol;

const LOW: Limits = Limits { target_bytes_max: 8, head_bytes_max: 40, fields_max: 1 };
const CGI: &str = "GET /cgi/a?longer-than-eight HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n";

/// What a program says before it ends, and the status that its client gets. Each is recorded.
const WORDS: [(&str, u16); 3] = [("", 502), ("A: b\n\nx", 200), ("Location: /none\n\n", 404)];

#[test]
fn programs_over_http_1() {
    for (word, status) in WORDS {
        let mut world = world_of_programs();
        let mut client = running(&mut world, CGI, UpstreamProtocol::Cgi);
        world.server.settings.head = Limits { fields_max: 2, head_bytes_max: 60, ..LOW };
        world.hear(&mut client, |program| {
            program.say(word);
            program.ended = true;
        });
        assert_eq!(statuses(&client.got), [status], "{word}");
        assert_eq!(world.tally.records.len(), 1, "{word}");
    }
}

#[test]
fn programs_over_http_2() {
    for (word, status) in WORDS {
        let mut world = world_of_programs();
        world.manner = Some(manner(UpstreamProtocol::Cgi));
        let mut client = H2Client::connect(&mut world, 65_535);
        client.get(&mut world, 1, "/cgi/a?longer-than-eight");
        world.server.settings.head = Limits { fields_max: 2, head_bytes_max: 60, ..LOW };
        client.hear(&mut world, 1, |program| {
            program.say(word);
            program.ended = true;
        });
        while !client.jobs.is_empty() {
            client.complete(&mut world, 0);
        }
        assert_eq!(client.answer(1).status(), status.to_string(), "{word}");
        assert_eq!(world.tally.records.len(), 1, "{word}");
    }
}

#[test]
fn a_look_up_over_http_2() {
    let mut world = world();
    world.jobs = Jobs::Later;
    let mut client = H2Client::connect(&mut world, 65_535);
    let fields = [("a", "b"), ("c", "d")];
    client.send(&mut world, &H2Client::request(1, "GET", "/small.txt?longer", &fields, flag::END_STREAM));
    world.server.settings.head = LOW;
    client.complete(&mut world, 0);
    assert_eq!(client.answer(1).body, text(100));
}
