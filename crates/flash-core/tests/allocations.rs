//! Look-ups of hosts and places do not allocate, however many there are.

#![forbid(unsafe_code)]

use std::sync::Arc;

use flash_core::site::Site;
use flash_core::site::hosts::{HostName, Hosts, View};
use flash_core::site::id::SiteId;
use flash_core::site::places::{PlaceNames, Places};
use flash_http::head::{self, Limits, Parsed};

const SITES: u32 = 1_000;

/// Sites with ten places each, made for their first requests as the server makes them.
fn hosts() -> Hosts {
    let name = |site| match site % 2 {
        0 => HostName::Exact(format!("h{site}.example").into_bytes().into()),
        _ => HostName::Below(format!("h{site}.example").into_bytes().into()),
    };
    let hosts: Vec<_> = (0..SITES).map(|site| [name(site)]).collect();
    let prefixes = (0..8).map(|place| format!("/place/{place}").into_bytes().into());
    let names = Arc::new(PlaceNames::new([], prefixes, [b".css"[..].into()]));
    let views = (0..SITES).map(|id| View { id: SiteId(id), generation: Arc::default(), routes: None });
    let make = move |position, _: &_| {
        let site = || Site { id: SiteId(position as u32), ..Site::default() };
        let places = names.pairs().map(|_| Arc::new(site())).collect();
        Site { places: Some(Places::new(Arc::clone(&names), places)), ..site() }
    };
    Hosts::on_demand(hosts.iter().map(|names| &names[..]), views.collect(), false, make)
}

#[test]
fn a_look_up_of_a_host_and_a_place_does_not_allocate() {
    let hosts = hosts();
    let requests: Vec<String> = (0..SITES)
        .flat_map(|site| {
            let below = if site % 2 == 0 { "" } else { "www." };
            ["/", "/place/3/a.css", "/placebo/a.txt?q=/place/3"]
                .map(|target| format!("GET {target} HTTP/1.1\r\nHost: {below}H{site}.Example.:8080\r\n\r\n"))
        })
        .chain(["GET / HTTP/1.1\r\nHost: nowhere.example\r\n\r\n".to_owned()])
        .collect();
    let limits = Limits::default();
    let look_up = || {
        let heads = requests.iter().map(|request| head::parse(request.as_bytes(), &limits));
        let answered = heads.filter(|parsed| match parsed {
            Ok(Parsed::Complete { head, .. }) => hosts.answering(head).is_some(),
            _ => panic!("it is a request"),
        });
        answered.count()
    };
    let mut answered = 0;
    let first = allocation_counter::measure(|| answered = look_up());
    assert_eq!(answered, 3 * SITES as usize);
    assert!(first.count_total >= u64::from(SITES), "the first request for a site makes it: {first:?}");
    let again = allocation_counter::measure(|| answered = look_up());
    assert_eq!((answered, again.count_total), (3 * SITES as usize, 0));
}
