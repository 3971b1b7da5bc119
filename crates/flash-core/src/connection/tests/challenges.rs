//! What a certificate authority asks is answered before any rule of a site, while it is pending.

use std::sync::Mutex;

use super::*;
use crate::challenges::Challenges;
use crate::site::redirect::Redirect;

const TOKEN: &str = "/.well-known/acme-challenge/evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA";
const AUTHORIZATION: &[u8] = b"evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA.thumbprint";

#[derive(Debug, Default)]
struct Pending(Mutex<bool>);

impl Challenges for Pending {
    fn of_token(&self, token: &[u8]) -> Option<Vec<u8>> {
        let is_it = *self.0.lock().unwrap() && TOKEN.as_bytes().ends_with(&[b"/", token].concat());
        is_it.then(|| AUTHORIZATION.into())
    }

    fn of_host(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn a_pending_token_is_answered_whatever_the_site_does_with_other_requests() {
    let pending = Arc::new(Pending::default());
    let mut world = world_with(Settings { challenges: Some(pending.clone()), ..Settings::default() });
    world.site().https_port = Some(443);
    let ask = |world: &mut World, method: &str, path: &str| {
        reply(&world.ask(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n")))
    };
    assert_eq!(ask(&mut world, "GET", TOKEN).status, 308, "nothing is pending");
    *pending.0.lock().unwrap() = true;
    for path in ["/small.txt", "/.well-known/acme-challenge/", "/.well-known/acme-challenge/other"] {
        assert_eq!(ask(&mut world, "GET", path).status, 308, "{path}");
    }
    assert_eq!(ask(&mut world, "POST", TOKEN).status, 308);
    let answers = |world: &mut World| {
        let answer = ask(world, "GET", TOKEN);
        assert_eq!((answer.status, &answer.body[..]), (200, AUTHORIZATION));
        assert_eq!(answer.field("cache-control"), Some("no-store"));
    };
    answers(&mut world);
    world.site().https_port = None;
    world.rules().redirect = Some(Redirect::parse("https://elsewhere.example{path}").unwrap());
    answers(&mut world);
    *pending.0.lock().unwrap() = false;
    assert_eq!(ask(&mut world, "GET", TOKEN).status, 308);
}
