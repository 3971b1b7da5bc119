//! What programs find, and how what is no program is refused.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use flash_core::upstream::OpenError;
use flash_process::{ExitStatus, ProgramRef, Stdio};

use crate::Test;
use crate::bench::{Bench, command};

pub(crate) const TESTS: &[Test] = &[
    ("a_script_finds_its_variables", || a_script_finds_its_variables(&Bench::new(|_| ()))),
    (
        "a_script_finds_its_variables_forked_from_the_server",
        || a_script_finds_its_variables(&Bench::inside()),
    ),
    ("a_script_reads_its_input", || a_script_reads_its_input(&Bench::new(|_| ()))),
    ("a_script_reads_its_input_forked_from_the_server", || a_script_reads_its_input(&Bench::inside())),
    ("programs_in_other_languages", programs_in_other_languages),
    ("what_is_no_script_is_refused", || what_is_no_script_is_refused(&Bench::new(|_| ()))),
    ("what_is_no_script_is_refused_by_the_server", || what_is_no_script_is_refused(&Bench::inside())),
    ("straight_to_the_client", straight_to_the_client),
    ("an_application_accepts_at_its_input", an_application_accepts_at_its_input),
    ("a_missing_folder_is_said_at_the_start", a_missing_folder_is_said_at_the_start),
];

fn a_script_finds_its_variables(bench: &Bench) {
    bench.script(
        "look.cgi",
        "echo \"$REQUEST_METHOD|$SCRIPT_NAME|$PATH_INFO|$PATH_TRANSLATED|$SCRIPT_FILENAME|$PWD|$0\"",
    );
    let mut program = bench.begin("/cgi/look.cgi/more/of it");
    let folder = bench.folder.path().canonicalize().unwrap();
    let folder = folder.display();
    let expected = format!(
        "GET|/cgi/look.cgi|/more/of it|/srv/site/more/of it|{folder}/look.cgi|{folder}|{folder}/look.cgi\n"
    );
    assert_eq!((program.read(), program.name_bytes), (expected, "/cgi/look.cgi".len()));
    assert_eq!(program.ended(), ExitStatus::Code(0));
    bench.script("bare.cgi", "env | cut -d= -f1 | sort | tr '\\n' ' '");
    assert_eq!(
        bench.begin("/cgi/bare.cgi").read(),
        "DOCUMENT_ROOT PATH PWD REQUEST_METHOD SCRIPT_FILENAME SCRIPT_NAME "
    );
}

fn a_script_reads_its_input(bench: &Bench) {
    bench.script("echo.cgi", "wc -c; exit 7");
    let mut program = bench.begin("/cgi/echo.cgi");
    program.write_all(&[b'x'; 1_000_000]);
    assert_eq!(program.read().trim(), "1000000");
    assert_eq!(program.ended(), ExitStatus::Code(7));
}

fn programs_in_other_languages() {
    let bench = Bench::new(|_| ());
    let python = "#!/usr/bin/env python3\nimport os, sys\nsys.stdout.write(os.environ['SCRIPT_NAME'] + sys.stdin.read())\n";
    let perl = "#!/usr/bin/env perl\nprint $ENV{SCRIPT_NAME}, <STDIN>;\n";
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|run| run.status.success());
    for (name, content) in [("python3", python), ("perl", perl)] {
        // As a program finds it, which has not this test's PATH.
        if !has(&format!("/usr/bin/{name}")) {
            eprintln!("MISSING: /usr/bin/{name}, so that no script of its language is run");
            continue;
        }
        bench.write(name, content, 0o755);
        let mut program = bench.begin(&format!("/cgi/{name}"));
        program.write_all(b" read");
        assert_eq!(program.read(), format!("/cgi/{name} read"));
        assert_eq!(program.ended(), ExitStatus::Code(0));
    }
    if !has("cc") {
        return eprintln!("MISSING: cc, so that no program in C is run");
    }
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        int main(void) { printf(\"%s %d\", getenv(\"SCRIPT_NAME\"), dup(0)); return 3; }\n";
    bench.write("c.c", source, 0o644);
    let built = Command::new("cc").arg("-o").args([bench.path("c"), bench.path("c.c")]).status().unwrap();
    assert!(built.success());
    let mut program = bench.begin("/cgi/c");
    // Its first free descriptor is the fourth.
    assert_eq!((program.read().as_str(), program.ended()), ("/cgi/c 3", ExitStatus::Code(3)));
}

fn what_is_no_script_is_refused(bench: &Bench) {
    bench.write("plain", "#!/bin/sh\n", 0o644);
    bench.write("odd", "#!/no/such/interpreter\n", 0o755);
    symlink("/bin/true", bench.path("out")).unwrap();
    for (path, expected) in [
        ("/cgi/missing", OpenError::NotFound),
        ("/cgi", OpenError::NotFound),
        ("/elsewhere/x", OpenError::NotFound),
        ("/cgi/plain", OpenError::Forbidden),
        ("/cgi/out", OpenError::Forbidden),
        ("/cgi/odd", OpenError::Broken),
    ] {
        assert_eq!(bench.ask(path).refusal(), Some(expected), "{path}");
    }
    let nowhere = ProgramRef::Script { folder: 1, path: b"/cgi/plain".to_vec() };
    assert_eq!(bench.order(nowhere, Stdio::Stream, "x").refusal(), Some(OpenError::Broken));
    let nothing = ProgramRef::Command { command: 0 };
    assert_eq!(bench.order(nothing, Stdio::Stream, "x").refusal(), Some(OpenError::Broken));
    let said = bench.said().join("\n");
    assert!(
        said.contains("/cgi/odd: ") && said.contains("its interpreter /no/such/interpreter is not there"),
        "{said}"
    );
    // That has changed nothing.
    bench.script("good", "echo good");
    assert_eq!(bench.begin("/cgi/good").read(), "good\n");
}

fn straight_to_the_client() {
    let bench = Bench::new(|_| ());
    bench.script("direct", "read nothing; printf 'Content-Type: text/plain\\r\\n\\r\\nhello'");
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let direct = |path: &str| {
        let ours = listener.accept().unwrap().0;
        ours.set_nonblocking(true).unwrap();
        let stdio = Stdio::Direct { client: ours.into(), head: b"HTTP/1.1 200 OK\r\n".to_vec() };
        bench.order(ProgramRef::Script { folder: 0, path: path.into() }, stdio, path)
    };
    let asked = direct("/cgi/direct");
    let started = asked.answer().unwrap();
    assert!(started.stream.is_none());
    started.handle.finish();
    let mut got = String::new();
    client.read_to_string(&mut got).unwrap();
    assert_eq!(got, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello");
    assert_eq!(asked.ended(), ExitStatus::Code(0));

    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert_eq!(direct("/cgi/missing").answer().err(), Some(OpenError::NotFound));
    got.clear();
    client.read_to_string(&mut got).unwrap();
    assert_eq!(got, "", "nothing was said before the script was found");
}

fn an_application_accepts_at_its_input() {
    let python = "import os, socket, sys\ns = socket.socket(fileno=0)\nc = s.accept()[0]\n\
        print('a complaint', flush=True)\nc.sendall(b'served')\n";
    let bench = Bench::new(|setup| {
        setup.commands = vec![
            command("/usr/bin/python3", &["python3", "-c", python]),
            command("/bin/sh", &["sh", "-c", "exit 4"]),
        ];
    });
    let socket = bench.path("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let other = ProgramRef::Command { command: 1 };
    let listening = || Stdio::Listener(listener.try_clone().unwrap().into());
    let asked = bench.order_with(other, listening(), "app", &[]);
    let started = asked.answer().unwrap();
    assert_eq!(asked.ended(), ExitStatus::Code(4));
    drop(started);
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return eprintln!("MISSING: /usr/bin/python3, so that no application accepts a connection");
    }
    let asked = bench.order_with(ProgramRef::Command { command: 0 }, listening(), "app", &[]);
    let _started = asked.answer().unwrap();
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"x").unwrap();
    let mut got = String::new();
    // What it has not read makes the end abrupt.
    let _ = client.read_to_string(&mut got);
    assert_eq!((got.as_str(), asked.ended()), ("served", ExitStatus::Code(0)));
    bench.wait_for_word("app: a complaint");
}

fn a_missing_folder_is_said_at_the_start() {
    let missing = crate::bench::setup(std::path::Path::new("/no/such/folder"));
    let error = flash_process::ForkHelper::start(missing, &|| Ok(())).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
    let folder = crate::bench::folder();
    let refuse = || Err(std::io::Error::other("there is no such user"));
    let error = flash_process::ForkHelper::start(crate::bench::setup(folder.path()), &refuse).unwrap_err();
    assert_eq!(error.to_string(), "there is no such user");
}
