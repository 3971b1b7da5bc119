//! Tests of every flag: its help, its errors, and that pages and completions name it.

use std::time::Duration;

use flash_observe::Destination;

use super::*;

fn read(words: &[&str]) -> Result<Flags, Failure> {
    Flags::read(["flash"].iter().chain(words).map(OsString::from))
}

fn serve(words: &[&str]) -> Serve {
    let words: Vec<&str> = ["serve"].iter().chain(words).copied().collect();
    match read(&words).expect("the flags are right").command {
        Some(Command::Serve(flags)) => *flags,
        other => panic!("{other:?}"),
    }
}

/// What is said about a wrong command line.
fn complaint(words: &[&str]) -> String {
    match read(words) {
        Err(Failure::Usage(text)) => text,
        other => panic!("{words:?}: {other:?}"),
    }
}

#[test]
fn clap_finds_the_definition_sound() {
    command().debug_assert();
}

#[test]
fn every_flag_has_help_and_serves_are_grouped() {
    let flash = Flags::command();
    for command in flash.get_subcommands() {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for flag in command.get_arguments() {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "{} {}", command.get_name(), flag.get_id());
            assert!(!help.ends_with('.') || command.get_name() != "serve", "{}: {help}", flag.get_id());
        }
    }
    let serve = flash.find_subcommand("serve").expect("there is flash serve");
    for flag in serve.get_arguments().filter(|flag| flag.get_long().is_some()) {
        assert!(flag.get_help_heading().is_some(), "{}", flag.get_id());
    }
}

#[test]
fn defaults() {
    let flags = serve(&[]);
    assert_eq!(flags.dir.as_os_str(), ".");
    assert_eq!(flags.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert_eq!((flags.arch, flags.loops), (Arch::Amped, None));
    assert!(flags.index.is_empty() && flags.programs.cgi.is_empty());
    assert_eq!(flags.programs.indexes(), ["index.html"]);
    assert_eq!(flags.follow_links, FollowLinks::Inside);
    assert_eq!((flags.path_cache, flags.file_cache_bytes), (None, None));
    assert_eq!(flags.revalidate, Duration::from_secs(1));
    assert_eq!((flags.access_log, flags.log_format, flags.verbose), (None, None, false));
    assert!(!flags.list && !flags.dotfiles && !flags.user_dirs && !flags.no_precompressed);
}

#[test]
fn what_is_given_replaces_defaults() {
    let flags = serve(&[
        "/srv",
        "--listen=:80",
        "--listen",
        "unix:/run/f",
        "--index=a.html",
        "--index=b.html",
        "--header",
        "X-A: 1",
        "--revalidate=0",
        "--file-cache-bytes=1G",
        "--access-log=-",
        "--arch=mt",
    ]);
    assert_eq!(flags.dir.as_os_str(), "/srv");
    assert_eq!(flags.listen, [ListenAddress::EveryAddress(80).into(), "unix:/run/f".parse().unwrap()]);
    assert_eq!(flags.index, ["a.html", "b.html"]);
    assert_eq!(flags.header, ["X-A: 1".parse().unwrap()]);
    assert_eq!((flags.revalidate, flags.file_cache_bytes), (Duration::ZERO, Some(1 << 30)));
    assert_eq!((flags.access_log, flags.arch), (Some(LogTo::To(Destination::Stdout)), Arch::Mt));
}

#[test]
fn a_complaint_is_one_line_and_says_where_to_read() {
    for (words, says) in [
        (
            &["serve", "--lisen", ":80"][..],
            "unexpected argument '--lisen' found; a similar argument exists: '--listen'",
        ),
        (&["serve", "--listen", "127.0.0.1"], "add the port: 127.0.0.1:8080"),
        (&["serve", "--arch", "apmed"], "[possible values: amped, uring, sped, pipelined, mt, mp]"),
        (&["serve", "--threads", "0"], "a number from 1 to 10000"),
        (&["serve", "--threads", "7x"], "invalid value '7x' for '--threads <N>'"),
        (&["serve", "--idle-timeout", "60"], "add the unit, as in 60s or 60ms"),
        (&["serve", "--header", "Date: now"], "Date is not yours to set"),
        (&["serve", "--header", "X: a\r\nY: b"], "no control characters"),
        (&["serve", "--arch", "mp", "--arch", "mt"], "cannot be used multiple times"),
        (&["serve", "a", "b"], "unexpected argument 'b' found"),
        (&["serve", "--loops"], "a value is required for '--loops <N>'"),
    ] {
        let text = complaint(words);
        assert!(text.contains(says), "{words:?}: {text}");
        assert!(text.ends_with(" (see flash serve --help)"), "{text}");
        assert!(!text.contains(['\n', '\r']) && !text.contains("  "), "{text}");
        assert!(!text.contains("error:") && !text.contains("Usage"), "{text}");
    }
    let text = complaint(&["--bogus"]);
    assert_eq!(text, "unexpected argument '--bogus' found (see flash --help)");
    let text = complaint(&["completions"]);
    assert!(text.starts_with("the following required arguments were not provided: <SHELL>"), "{text}");
    assert!(text.ends_with(" (see flash completions --help)"), "{text}");
}

#[test]
fn another_word_is_a_siblings_name() {
    match read(&["load", "--rate", "7"]).unwrap().command {
        Some(Command::Sibling(words)) => assert_eq!(words, ["load", "--rate", "7"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn programs_and_where_they_stand() {
    let flags = serve(&[
        "--cgi",
        "/cgi-bin/=/usr/lib/cgi-bin",
        "--fastcgi=.php=unix:/run/php.sock",
        "--app",
        "/a=b c",
    ]);
    let programs = flags.programs;
    assert_eq!(programs.cgi[0].what.as_os_str(), "/usr/lib/cgi-bin");
    assert_eq!(programs.app[0].what.0, ["b", "c"]);
    assert_eq!(programs.indexes(), ["index.php", "index.html"]);
    for (flag, why) in [
        ("--cgi=/cgi-bin", "write PREFIX=DIR"),
        ("--cgi=.cgi=/usr/lib", "begins with a slash"),
        ("--cgi=cgi=/usr/lib", "neither a prefix"),
        ("--fastcgi=/a=localhost", "no address"),
        ("--app=/a=", "missing"),
        ("--cgi-cpu=5", "unit"),
    ] {
        let said = complaint(&["serve", flag]);
        assert!(said.contains(why), "{flag}: {said}");
    }
}

#[test]
fn the_short_help_has_the_sixteen_flags_of_most_people() {
    let mut flash = command();
    flash.build();
    let serve = flash.find_subcommand_mut("serve").expect("there is flash serve");
    let (short, long) = (serve.render_help().to_string(), serve.render_long_help().to_string());
    let flags = |help: &str| {
        help.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --")).count()
    };
    // And --help and --version.
    assert_eq!(flags(&short), 16 + 2, "{short}");
    assert!(flags(&long) > 50, "{long}");
    assert!(short.lines().count() < 100, "{short}");
    let at =
        |help: &str, heading: &str| help.find(&format!("\n{heading}")).unwrap_or_else(|| panic!("{heading}"));
    assert!(at(&short, "Content:") < at(&short, "Listening:"));
    let headings = [
        "Configuration:",
        "Content:",
        "Listening:",
        "Logs:",
        "Programs:",
        "Rights:",
        "Limits:",
        "Caches:",
        "Architecture:",
        "Experiments",
    ];
    for pair in headings.windows(2) {
        assert!(at(&long, pair[0]) < at(&long, pair[1]), "{pair:?}");
    }
}

#[test]
fn help_has_eighty_columns_at_least() {
    for line in command()
        .find_subcommand("serve")
        .unwrap()
        .clone()
        .term_width(80)
        .render_long_help()
        .to_string()
        .lines()
    {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn ports_and_hosts() {
    let at = |words: &[&str]| serve(words).listen;
    assert_eq!(at(&["-p", "3000"]), ["127.0.0.1:3000".parse().unwrap()]);
    assert_eq!(at(&["-p3000", "--host", "0.0.0.0"]), ["0.0.0.0:3000".parse().unwrap()]);
    assert_eq!(at(&["--bind=::1"]), ["[::1]:8080".parse().unwrap()]);
    assert!(serve(&["--open"]).open);
    assert!(complaint(&["serve", "--port", "80", "--listen", ":80"]).contains("cannot be used with"));
    assert!(complaint(&["serve", "--port", "70000"]).contains("70000 is not in 0..=65535"));
}

#[test]
fn what_people_write_who_know_other_servers() {
    for (flag, instead) in [
        ("--cors", "Access-Control-Allow-Origin"),
        ("--gzip", "--compress"),
        ("--ssl", "--tls-certificate FILE"),
        ("--root=/srv", "flash serve DIR"),
        ("--single", "--spa index.html"),
        ("--try-files", "--fallback /index.php"),
        ("--browse", "--list"),
        ("--workers", "--loops N"),
        ("-d", "flash serve DIR"),
    ] {
        for words in [&["serve", flag][..], &[flag], &["serve", ".", flag, "4"]] {
            let said = complaint(words);
            assert!(
                said.contains(" is not a flag of flash serve: ") && said.contains(instead),
                "{words:?}: {said}"
            );
            assert!(!said.contains("similar"), "{said}");
            assert!(said.ends_with(" (see flash serve --help)"), "{said}");
        }
    }
}

#[test]
fn a_count_that_is_none_is_answered_with_its_range() {
    for count in ["many", "0", "-1", "1025", "1.5"] {
        let said = complaint(&["serve", &format!("--loops={count}")]);
        assert!(said.contains("for '--loops <N>': write a number from 1 to 1024 "), "{said}");
    }
}

#[test]
fn serve_may_be_left_out_before_a_folder_or_a_flag() {
    let served = |words: &[&str]| match read(words).unwrap().command {
        Some(Command::Serve(flags)) => *flags,
        other => panic!("{words:?}: {other:?}"),
    };
    assert_eq!(served(&["."]).dir.as_os_str(), ".");
    assert_eq!(served(&["src", "--list"]).dir.as_os_str(), "src");
    let flags = served(&["--port=1", "--list", "/"]);
    assert_eq!(
        (flags.dir.as_os_str().to_str(), &flags.listen[..]),
        (Some("/"), &["127.0.0.1:1".parse().unwrap()][..])
    );
    // A program's name comes before a folder's.
    assert!(matches!(read(&["sim"]).unwrap().command, Some(Command::Sibling(_))));
}
