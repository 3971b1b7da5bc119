//! Several servers with one folder: one of them asks, and each answers the authority.

use std::fs;

use flash_tests::{Server, wait_for};

use crate::Site;
use crate::pebble::Pebble;

#[test]
fn one_of_two_servers_asks_and_the_other_one_answers() {
    let pebble = Pebble::start();
    let folder = tempfile::tempdir().expect("a folder");
    let site = |number| {
        let mut site = Site::new("amped", number);
        site.settings = format!("acme-folder = '{}'\n", folder.path().display());
        site
    };
    let (asks, answers) = (site(50), site(51));
    pebble.put("shared.example", answers.address);
    // Until the second one serves, there is nothing to ask for.
    asks.write(&pebble, &asks.table(&["early.example"]));
    pebble.put("early.example", asks.address);
    let first = Server::start_configured(&asks.config(), &[]);
    asks.wait_for_certificate(&pebble, "early.example");
    pebble.put("second.example", answers.address);
    answers.write(&pebble, &(answers.table(&["shared.example"]) + &answers.table(&["second.example"])));
    let second = Server::start_configured(&answers.config(), &[]);
    asks.write(&pebble, &asks.table(&["shared.example"]));
    assert_eq!(asks.flash(&["reload"]).0, Some(0));
    let shown = asks.wait_for_certificate(&pebble, "shared.example");
    wait_for("the other server has it, too", || {
        answers.trusted(&pebble, &pebble.roots(), "shared.example").as_ref() == Some(&shown)
    });
    // The first one asks for what the second one alone wants, too.
    answers.wait_for_certificate(&pebble, "second.example");
    assert_eq!(pebble.orders(), 3, "{}", pebble.log());
    let holder = || fs::read_to_string(folder.path().join("lease")).unwrap_or_default();
    let before = holder();
    first.stop();
    wait_for("the other one holds the lease", || !holder().is_empty() && holder() != before);
    second.stop();
}
