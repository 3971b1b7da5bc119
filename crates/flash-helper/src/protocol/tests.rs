//! The codec, with any message at all, and against the C header.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::*;

fn stamp() -> Stamp {
    Stamp { device: 0x0102, inode: 7, size: 1 << 40, modified_ns: -5, changed_ns: 9_000_000_000 }
}

fn question() -> Question {
    Question {
        kind: QuestionKind::Load,
        root: 3,
        id: 0x0807_0605_0403_0201,
        deadline_ms: 250,
        path: b"/a/b c".to_vec(),
        window: 4096..8192,
        known: Some(stamp()),
        accepts: accept::GZIP | accept::ZSTD,
        copy: true,
    }
}

fn answer() -> Answer {
    Answer {
        kind: AnswerKind::File,
        flags: flag::MEMORY | flag::INDEX,
        root: 3,
        id: 17,
        stamp: stamp(),
        window: 1..2,
        coding: Some(Coding::Br),
        etag: b"\"abc\"".to_vec(),
        media: b"text/html; charset=utf-8".to_vec(),
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    assert_eq!(Question::decode(&question().encode()), Ok(question()));
    let other = Question { kind: QuestionKind::Find, known: None, copy: false, accepts: 0, ..question() };
    assert_eq!(Question::decode(&other.encode()), Ok(other));
    assert_eq!(Answer::decode(&answer().encode()), Some(answer()));
    for kind in AnswerKind::ALL {
        let plain = Answer::plain(kind, 1, 2);
        assert_eq!(Answer::decode(&plain.encode()), Some(plain));
    }
    let root = Root { flags: flag::INLINE, number: 2, path: b"/srv/www".to_vec() };
    assert_eq!(Root::decode(&root.encode()), Some(root));
    let hello = Hello { roots: 2, questions_max: 99 };
    assert_eq!(Hello::decode(&hello.encode()), Some(hello));
}

#[test]
fn what_is_cut_or_too_long_or_unknown_is_no_question() {
    let whole = question().encode();
    for length in 0..whole.len() {
        assert_eq!(Question::decode(&whole[..length]), Err(Malformed::Length), "{length} bytes");
    }
    assert_eq!(Question::decode(&[&whole[..], b"x"].concat()), Err(Malformed::Length));
    let long = Question { path: vec![b'a'; PATH_BYTES_MAX + 1], ..question() };
    assert_eq!(Question::decode(&long.encode()), Err(Malformed::Length));
    let with = |at: usize, byte: u8| {
        let mut message = whole.clone();
        message[at] = byte;
        Question::decode(&message)
    };
    assert_eq!(with(0, 2), Err(Malformed::Version(2)));
    assert_eq!(with(1, 9), Err(Malformed::Kind(9)));
    assert_eq!(with(3, 1), Err(Malformed::Unknown), "a flag of a later version");
    assert_eq!(with(22, 1), Err(Malformed::Unknown), "a reserved byte");
    let mut message = whole.clone();
    message[24..40].fill(0xff);
    assert_eq!(Question::decode(&message), Err(Malformed::Window));
    assert_eq!(Question::id_of(&whole), question().id);
}

#[test]
fn text_that_does_not_fit_is_left_out() {
    let long = Answer { etag: vec![b'"'; ETAG_BYTES_MAX + 1], media: vec![b'm'; 300], ..answer() };
    let message = long.encode();
    assert_eq!(message.len(), ANSWER_BYTES);
    let read = Answer::decode(&message).unwrap();
    assert!(read.etag.is_empty() && read.media.is_empty());
}

proptest! {
    #[test]
    fn any_message_is_a_question_or_not(message in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(question) = Question::decode(&message) {
            prop_assert_eq!(Question::decode(&question.encode()), Ok(question));
        }
        let _ = (Answer::decode(&message), Root::decode(&message), Hello::decode(&message));
        let _ = (Question::id_of(&message), AnswerKind::of_message(&message));
    }

    #[test]
    fn a_question_with_any_byte_changed_is_decoded_or_refused(at in 0..86_usize, byte: u8) {
        let mut message = question().encode();
        message[at] = byte;
        if let Ok(question) = Question::decode(&message) {
            prop_assert!(question.window.start <= question.window.end);
        }
    }
}

/// A C program writes each structure with the header's layout, as the bytes that this codec writes.
#[test]
fn the_c_header_has_the_same_layout() {
    let folder = tempfile::tempdir().unwrap();
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../modules");
    let source = folder.path().join("layout.c");
    std::fs::write(&source, include_str!("layout.c")).unwrap();
    let program = folder.path().join("layout");
    let compiler = Command::new("cc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"])
        .args([&header, &source])
        .arg("-o")
        .arg(&program)
        .status()
        .expect("this test needs a C compiler, which `cargo xtask prepare` installs");
    assert!(compiler.success());
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    let root = Root { flags: flag::INLINE | flag::ACCESS_TIMES, number: 2, path: b"/srv".to_vec() };
    let hello = Hello { roots: 2, questions_max: 99 };
    let mut expected = String::new();
    for message in [question().encode(), answer().encode(), root.encode(), hello.encode()] {
        let hex = message.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        expected.push_str(&hex);
        expected.push('\n');
    }
    let kinds: Vec<String> = AnswerKind::ALL.iter().map(|kind| (*kind as u8).to_string()).collect();
    let sizes = [MESSAGE_BYTES_MAX as u64, PATH_BYTES_MAX as u64, WINDOW_BYTES_MAX];
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    let _ = writeln!(expected, "{}\n{}", kinds.join(" "), sizes.join(" "));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
