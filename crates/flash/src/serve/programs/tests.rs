//! Flags as people write them, and what is wrong with them.

use std::fs::{self, File};

use clap::Parser;
use flash_process::Resource;
use tempfile::TempDir;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    serve: flags::Serve,
}

fn flags(words: &[&str]) -> flags::Serve {
    Line::try_parse_from(["flash"].iter().chain(words)).unwrap().serve
}

fn prepare_with(words: &[&str], runnable: &mut Runnable) -> Result<Programs, Failure> {
    Programs::prepare(&flags(words), 0, runnable, (&|path| File::open(path), true))
        .map_err(|(_, failure)| failure)
}

fn prepare(words: &[&str]) -> Result<Programs, Failure> {
    prepare_with(words, &mut Runnable::new())
}

fn fails(words: &[&str]) -> String {
    match prepare(words) {
        Ok(_) => panic!("{words:?} is accepted"),
        Err(failure) => failure.to_string(),
    }
}

#[test]
fn every_flag_becomes_a_route() {
    let site = TempDir::new().unwrap();
    let folder = site.path().join("bin");
    fs::create_dir(&folder).unwrap();
    let folder = folder.display();
    let mut runnable = Runnable::new();
    let words = [
        "--cgi",
        &format!("/cgi={folder}"),
        "--cgi-direct",
        &format!("/direct={folder}"),
        "--fastcgi",
        ".php=unix:php.sock",
        "--fastcgi",
        "/tcp=localhost:9000",
        "--app",
        "/app=sh -c 'exit 0'",
        "--app-requests-max",
        "0",
    ];
    let programs = prepare_with(&words, &mut runnable).unwrap();
    let shown: Vec<_> = programs
        .list
        .iter()
        .map(|(route, service)| {
            let what = match service {
                UpstreamConfig::Cgi { folder } => format!("folder {folder}"),
                UpstreamConfig::FastCgi(server) => match &server.address {
                    Address::Unix(_) => "unix".to_owned(),
                    Address::Inet(all) => format!("port {}", all[0].port()),
                },
                UpstreamConfig::Http(_) => "proxy".into(),
                UpstreamConfig::Application(Application { command, name, requests_max, .. }) => {
                    format!("command {command} {name} {}", *requests_max == usize::MAX)
                }
            };
            format!("{} {} {:?} {} {what}", route.number, Shown(&route.matches), route.protocol, route.direct)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "0 /cgi Cgi false folder 0",
            "1 /direct Cgi true folder 1",
            "2 .php FastCgi false unix",
            "3 /tcp FastCgi false port 9000",
            "4 /app FastCgi false command 0 sh -c exit 0 true",
        ]
    );
    assert!(runnable.setup(&flags(&[]).programs).is_some());
    assert!(programs.routes(b"/srv", &ResponseBudgets::nothing()).is_some());
    let real = site.path().join("bin").canonicalize().unwrap();
    assert_eq!(
        (programs.suffixes(), &**programs.folders()),
        (vec![b".php".to_vec()], &[real.clone(), real][..])
    );
}

#[test]
fn without_flags_there_is_nothing() {
    let mut runnable = Runnable::new();
    let programs = prepare_with(&[], &mut runnable).unwrap();
    assert!(programs.is_empty() && programs.routes(b"/srv", &ResponseBudgets::nothing()).is_none());
    assert!(!prepare_with(&["--fastcgi", ".php=127.0.0.1:9000"], &mut runnable).unwrap().is_empty());
    assert!(runnable.setup(&flags(&[]).programs).is_none(), "a server that is there needs no fork helper");
}

#[test]
fn sites_share_folders_and_commands_and_a_reload_adds_none() {
    let (one, two) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (one, two) = (format!("/cgi={}", one.path().display()), format!("/cgi={}", two.path().display()));
    let mut runnable = Runnable::new();
    let folder_of = |words: &[&str], runnable: &mut Runnable| match prepare_with(words, runnable)?.list[0].1 {
        UpstreamConfig::Cgi { folder } => Ok(folder),
        _ => panic!("{words:?}"),
    };
    for (words, number) in [(["--cgi", &one], 0), (["--cgi", &two], 1), (["--cgi", &one], 0)] {
        assert_eq!(folder_of(&words, &mut runnable).map_err(|why: Failure| why.to_string()), Ok(number));
    }
    prepare_with(&["--app", "/app=sh -c x"], &mut runnable).unwrap();
    let mut again = runnable.fixed();
    assert_eq!(folder_of(&["--cgi", &two], &mut again).map_err(|why| why.to_string()), Ok(1));
    assert!(prepare_with(&["--app", "/other=sh -c x"], &mut again).is_ok());
    let refused = |words: &[&str], again: &mut Runnable| {
        prepare_with(words, again).err().expect("it is new").to_string()
    };
    assert_eq!(
        refused(&["--app", "/a=sh -c y"], &mut again),
        "only `flash upgrade` or a restart lets the server run sh -c y"
    );
    let third = TempDir::new().unwrap();
    let third = format!("/cgi={}", third.path().canonicalize().unwrap().display());
    let expected =
        third.replace("/cgi=", "only `flash upgrade` or a restart lets the server run the programs in ");
    assert_eq!(refused(&["--cgi", &third], &mut again), expected);
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let there = TempDir::new().unwrap();
    let file = there.path().join("file");
    fs::write(&file, "").unwrap();
    let (there, file) = (there.path().display(), file.display());
    let twice = format!("/cgi={there}");
    let long = "x".repeat(120);
    for (words, expected) in [
        (
            &["--cgi", "/cgi=/no/such"][..],
            "cannot run the programs in /no/such: there is no such folder".to_owned(),
        ),
        (
            &["--cgi", &format!("/cgi={file}")],
            format!("cannot run the programs in {file}: it is not a folder"),
        ),
        (&["--cgi", &twice, "--cgi-direct", &twice], "/cgi is given twice (see flash serve --help)".into()),
        (
            &["--app", "/a=no-such-program x"],
            "cannot run no-such-program: there is no such program in PATH".into(),
        ),
        (&["--app", "/a=/no/such"], "cannot run /no/such: there is no such program".into()),
        (&["--app", &format!("/a={file}")], format!("cannot run {file}: it is no program")),
        (&["--app", &format!("/a={there}")], format!("cannot run {there}: it is no program")),
    ] {
        assert_eq!(fails(words), expected);
    }
    assert!(fails(&["--fastcgi", &format!("/a=unix:/{long}")]).contains("at most 108 bytes"));
    let unknown = fails(&["--fastcgi", "/a=name.invalid:9000"]);
    assert!(unknown.starts_with("cannot look up name.invalid:9000: "), "{unknown}");
}

#[test]
fn limits_are_those_of_the_flags() {
    let mut runnable = Runnable::new();
    prepare_with(&["--app", "/app=sh"], &mut runnable).unwrap();
    let flags =
        flags(&["--cgi-memory", "64m", "--cgi-cpu", "1500ms", "--cgi-max", "3", "--program-nice", "7"]);
    let setup = runnable.setup(&flags.programs).unwrap();
    let limits: Vec<_> = setup.limits.iter().map(|limit| (limit.resource, limit.soft, limit.hard)).collect();
    assert_eq!(limits, [(Resource::MemoryBytes, 64 << 20, 64 << 20), (Resource::CpuSeconds, 2, 2)]);
    assert_eq!((setup.running_max, setup.nice), (3, 7));
}

#[test]
fn what_programs_take_of_the_table_of_open_files() {
    let site = TempDir::new().unwrap();
    let flags = flags(&["--cgi-max", "10", "--cgi-queue-max", "15"]).programs;
    let taken = |words: &[&str]| {
        let programs = prepare(words).unwrap();
        // Of two sites: they share the scripts' places.
        Programs::descriptors([&programs, &programs].into_iter(), &flags)
    };
    let cgi = format!("/cgi={}", site.path().display());
    assert_eq!(taken(&[]), (0, 1));
    assert_eq!(taken(&["--cgi", &cgi]), (100, 1));
    assert_eq!(taken(&["--app", "/app=sh"]), (4 * 8 * 2, 1));
    assert_eq!(taken(&["--fastcgi", "/php=localhost:9000"]), (0, 2));
    assert_eq!(taken(&["--proxy", "http://localhost:9000"]), (0, 2));
    // Those of HTTP/2 share connections, and each request has a pair of sockets.
    assert_eq!(taken(&["--proxy", "h2c://localhost:9000"]), (0, 3));
}
