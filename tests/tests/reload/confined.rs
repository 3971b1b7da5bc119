//! Reloads of a server in its sandbox. It opens no folder itself: the supervisor process of each configuration does.

use flash_tests::family::{self, Process};
use flash_tests::{PROCESSES, reply, wait_for};
use rustix::process::{Pid, Signal, kill_process};

use crate::setup::Setup;

/// Sites by their hosts and folders, with more settings.
fn sites(sites: &[(&str, &str, &str)]) -> String {
    let site = |(host, root, more): &(&str, &str, &str)| {
        format!("[site.'{host}.example']\nroot = '{root}'\nlist = true\n{more}")
    };
    let sites: Vec<String> = sites.iter().map(site).collect();
    format!("# root = none\nhelpers-max = 2\nsandbox = 'required'\nrevalidate = '0s'\n{}", sites.concat())
}

fn ask(setup: &Setup, host: &str, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}.example\r\nConnection: close\r\n\r\n");
    let reply = reply::only(&setup.server.raw(request.as_bytes()));
    (reply.status, String::from_utf8_lossy(&reply.body).into_owned())
}

fn named(setup: &Setup, name: &str) -> Vec<Process> {
    let all = family::of(&setup.server).into_iter();
    all.filter(|process| process.name().starts_with(name) && process.lives()).collect()
}

#[test]
fn sites_have_helpers_of_their_own_and_configurations_a_supervisor() {
    let setup = Setup::start(PROCESSES, &sites(&[("a", "old", ""), ("b", "new", ""), ("c", "new", "")]));
    let [old, new] = ["old", "new"].map(|text| (200, text.to_owned()));
    // A place denies what the site of the same folder shows, so the two have different helpers.
    setup.change(&sites(&[("a", "old", ""), ("b", "new", "deny = '/a.txt'\n"), ("c", "new", "")]));
    for _ in 0..3 {
        assert_eq!((ask(&setup, "a", "/a.txt"), ask(&setup, "c", "/a.txt")), (old.clone(), new.clone()));
        assert_eq!(ask(&setup, "b", "/a.txt").0, 404);
        assert!(ask(&setup, "a", "/").1.contains("a.txt") && !ask(&setup, "b", "/").1.contains("a.txt"));
    }
    for number in 0..10 {
        let more = format!("dotfiles = {}\n", number % 2 == 0);
        setup.change(&sites(&[("a", "old", ""), ("b", "new", &more), ("d", "old", &more)]));
        assert_eq!((ask(&setup, "b", "/a.txt"), ask(&setup, "d", "/a.txt")), (new.clone(), old.clone()));
        assert_eq!((ask(&setup, "a", "/a.txt"), ask(&setup, "c", "/a.txt").0), (old.clone(), 421));
    }
    // The start's, the present one, and those whose helpers still serve a site that has not changed.
    wait_for("earlier supervisors to end", || named(&setup, "flash-supervise").len() <= 4);
    wait_for("no more helpers than those of two threads", || named(&setup, "helper-").len() <= 4);
    setup.server.stop();
}

#[test]
fn without_its_supervisor_a_configuration_gets_no_helpers_until_the_next_reload() {
    let setup = Setup::start(PROCESSES, &sites(&[("a", "old", "")]));
    let changed = |more: &str| sites(&[("a", "new", more)]);
    setup.change(&changed(""));
    assert_eq!(ask(&setup, "a", "/a.txt"), (200, "new".into()));
    let supervisors = named(&setup, "flash-supervise");
    assert_eq!(supervisors.len(), 2, "the start's, and that of the configuration");
    for process in named(&setup, "helper-").iter().chain(supervisors.last()) {
        kill_process(Pid::from_raw(process.pid as i32).expect("a process"), Signal::KILL)
            .expect("it is there");
    }
    assert_eq!(ask(&setup, "a", "/none.txt").0, 503);
    setup.change(&changed("dotfiles = true\n"));
    assert_eq!((ask(&setup, "a", "/a.txt"), ask(&setup, "a", "/none.txt").0), ((200, "new".into()), 404));
    let said = setup.server.stop();
    assert!(said.contains("cannot start a helper: the supervisor of this configuration has ended"), "{said}");
}
