//! Password files, line by line, and whom they let in.

use std::fs;

use flash_core::clients::login::Known;

use super::*;
use crate::successes::tests::of_sets;

// Of htpasswd -B and crypt(3), and of argon2's reference implementation, whose password is "password".
const BCRYPT: &str = "$2b$04$abcdefghijklmnopqrstuuuz8dLDKHdaIkqWTeEJl8dWScfl4UwcG";
const SHA256: &str = "$5$rounds=1000$saltstring$8Sxg4kFtLpnhyLb1JKNtANKHvK8c2hLHIjyWj1FVKi9";
const SHA256_PLAIN: &str = "$5$saltstring$3XpRDXppgTMrQZAncVO6dmbVzGyBcV2hEznb6iRP0C9";
const SHA512: &str = "$6$rounds=1000$saltstring$An/0zH4nmrm.YXFn0aFinLBLPMhyGXp1nDyVfJKJ0rC4i0Xd1u1bGcWe2d51ePTC6x5sHy1R6sFtg0dgQCkJJ/";
const ARGON2ID: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

fn parse(text: &str) -> Result<PasswordFile, Vec<Wrong>> {
    parse_at("/etc/flash/staff.htpasswd", text, of_sets(4))
}

fn parse_at(path: &str, text: &str, successes: Successes) -> Result<PasswordFile, Vec<Wrong>> {
    let file = PasswordFile::new(Path::new(path), successes);
    Entries::parse(text.as_bytes(), &file.path)
        .map(|entries| PasswordFile { entries: entries.into(), ..file })
}

fn credentials(user: &str, password: &str) -> Credentials {
    let token = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("{user}:{password}"));
    Credentials::parse(format!("Basic {token}").as_bytes()).expect("they are")
}

fn check(file: &PasswordFile, user: &str, password: &str, now_ms: u64) -> Option<Box<dyn Check>> {
    match file.ask(&credentials(user, password), now_ms) {
        Known::Right => None,
        Known::Unchecked(check) => Some(check),
    }
}

fn is_right(file: &PasswordFile, user: &str, password: &str) -> bool {
    check(file, user, password, 0).expect("it is not remembered").run(0)
}

#[test]
fn a_mark_of_the_byte_order_is_no_part_of_a_name() {
    assert!(is_right(&parse(&format!("\u{feff}bob:{BCRYPT}\n")).unwrap(), "bob", "bee"));
}

#[test]
fn the_hashes_of_the_field_are_understood() {
    for (hash, password) in [
        (BCRYPT, "bee"),
        (&BCRYPT.replace("$2b$", "$2y$"), "bee"),
        (&BCRYPT.replace("$2b$", "$2a$"), "bee"),
        (SHA256, "bee"),
        (SHA256_PLAIN, "bee"),
        (SHA512, "bee"),
        (ARGON2ID, "password"),
    ] {
        let file = parse(&format!("# Staff\n\nbob:{hash}:a comment\r\n")).expect(hash);
        for wrong in ["", "Bee", "bees", "Password"] {
            assert!(!is_right(&file, "bob", wrong), "{hash} {wrong}");
        }
        assert!(!is_right(&file, "Bob", password) && !is_right(&file, "bob ", password));
        assert!(is_right(&file, "bob", password), "{hash}");
    }
}

#[test]
fn each_wrong_line_is_named_with_what_to_write_and_without_its_secret() {
    let short_bcrypt = &BCRYPT[..59];
    let lines = [
        ("md5:$apr1$salt$hashhashhashhashhashha", "an MD5 hash is too weak"),
        ("old:$1$salt$hashhashhashhashhashha", "an MD5 hash is too weak"),
        ("sha:{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=", "a SHA-1 hash is too weak"),
        ("des:rl.3StKT.4T8M", "this is no hash of"),
        ("plain:opensesame", "this is no hash of"),
        ("tagged:{PLAIN}opensesame", "this is no hash of"),
        ("empty:", "this is no hash of"),
        (
            "i:$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
            "this is no hash of",
        ),
        ("yes:$y$j9T$salt$hash", "this is no hash of"),
        ("x:$2x$04$abcdefghijklmnopqrstuuuz8dLDKHdaIkqWTeEJl8dWScfl4UwcG", "this is no hash of"),
        (&format!("short:{short_bcrypt}"), "the bcrypt hash is incomplete"),
        (&format!("slow:{}", BCRYPT.replace("$04$", "$16$")), "longer than two seconds"),
        ("bare:$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ", "the argon2id hash is incomplete"),
        (&format!("wide:{}", ARGON2ID.replace("m=256", "m=1000000")), "longer than two seconds"),
        (&format!("long:{}", ARGON2ID.replace("t=2", "t=9000")), "longer than two seconds"),
        (&format!("few:{}", SHA256.replace("1000", "10")), "the SHA-crypt hash is incomplete"),
        (&format!("many:{}", SHA512.replace("1000", "9999999")), "longer than two seconds"),
        (&format!("cut:{}", &SHA512[..80]), "the SHA-crypt hash is incomplete"),
        (&format!("more:{SHA256}$x"), "the SHA-crypt hash is incomplete"),
    ];
    for (line, why) in lines {
        let wrong = parse(&format!("good:{BCRYPT}\n{line}\n")).expect_err(line);
        let user = line.split(':').next().unwrap();
        assert!(wrong[0].line == 2 && wrong.len() == 1, "{line}: {wrong:?}");
        let what = &wrong[0].what;
        assert!(what.starts_with(&format!("{user}: ")) && what.contains(why), "{line}: {what}");
        assert!(what.ends_with(&format!("write htpasswd -B /etc/flash/staff.htpasswd {user}")), "{what}");
        assert!(!what.contains("sesame") && !what.contains("hashhash"), "{what}");
    }
    let wrong = parse(&format!("nothing\n:{BCRYPT}\na:{BCRYPT}\n\na:{SHA256}\n")).unwrap_err();
    assert_eq!(wrong.iter().map(|wrong| wrong.line).collect::<Vec<_>>(), [1, 2, 5]);
    assert_eq!(wrong[2].what, "a is here twice");
}

#[test]
fn a_success_is_remembered_until_the_password_changes() {
    let (file, now_ms) = (parse(&format!("bob:{BCRYPT}\nann:{SHA256}\n")).unwrap(), 5_000);
    assert!(check(&file, "bob", "bee", now_ms).unwrap().run(now_ms));
    assert!(check(&file, "bob", "bee", now_ms).is_none(), "it is remembered");
    for (user, password) in [("bob", "wasp"), ("ann", "bee"), ("eve", "bee")] {
        assert!(check(&file, user, password, now_ms).is_some(), "{user} {password}");
    }
    assert!(check(&file, "bob", "bee", now_ms + 60_000).is_some(), "for a minute");
    // The same memory serves after a reload.
    let again = |text: &str| parse_at("/other", text, file.successes.clone()).unwrap();
    assert!(check(&again(&format!("bob:{BCRYPT}")), "bob", "bee", now_ms).is_none());
    assert!(check(&again(&format!("bob:{SHA256}")), "bob", "bee", now_ms).is_some(), "another hash");
    assert!(check(&again(""), "bob", "bee", now_ms).is_some(), "he has left");
}

#[test]
fn an_unknown_user_costs_as_much_as_a_known_one_and_is_refused() {
    let file = parse(&format!("bob:{BCRYPT}\n")).unwrap();
    let check_of = |user| {
        let Known::Unchecked(check) = file.ask(&credentials(user, "bee"), 0) else { panic!("{user}") };
        check
    };
    assert_ne!(check_of("eve").key(), check_of("mallory").key());
    let shown = format!("{:?} {file:?}", check_of("bob"));
    assert!(!shown.contains("bee") && !shown.contains("$2b"), "{shown}");
    // The password is that of Bob's hash, and nobody is let in with it under another name.
    for user in ["eve", "mallory", "bo", "bobb"] {
        assert!(!check_of(user).run(0) && !check_of(user).run(0), "{user}");
    }
    // The check takes the time of a hash: far more than that of a file without users, which has none to hide.
    let none = parse("").unwrap();
    assert!(!is_right(&none, "eve", "bee"));
    let time = |file: &PasswordFile| {
        let check = check(file, "eve", "bee", 0).unwrap();
        let begun = std::time::Instant::now();
        (0..20).for_each(|_| assert!(!check.run(0)));
        begun.elapsed()
    };
    assert!(time(&file) > 20 * time(&none));
}

#[test]
fn the_realm_is_the_files_name() {
    for (path, realm) in [
        ("/etc/flash/staff.htpasswd", "staff"),
        ("users", "users"),
        ("/srv/.htpasswd", "restricted"),
        ("/a\"b.htpasswd", "restricted"),
        ("/é", "restricted"),
    ] {
        let expected = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
        assert_eq!(challenge(Path::new(path)), expected.into_bytes().into(), "{path}");
    }
}

#[test]
fn nobody_logs_in_before_the_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    fs::write(&path, format!("bob:{BCRYPT}\n")).unwrap();
    let file = PasswordFile::new(&path, of_sets(1));
    assert!(!is_right(&file, "bob", "bee"));
    file.read(|path| File::open(path)).unwrap();
    assert!(is_right(&file, "bob", "bee"));
}

#[test]
fn a_file_that_is_wrong_is_named_with_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("users");
    let read = || PasswordFile::new(&path, of_sets(1)).read(|path| File::open(path)).unwrap_err();
    assert!(read().starts_with(&format!("cannot read {}: No such file", path.display())));
    fs::write(&path, "a:b\nc\n").unwrap();
    let shown = path.display();
    assert!(read().starts_with(&format!("{shown}:1: a: this is no hash")), "{}", read());
    assert!(read().contains(&format!("; {shown}:2: this is not USER:HASH")), "{}", read());
}
