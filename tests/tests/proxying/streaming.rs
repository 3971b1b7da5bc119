//! Bodies of requests that pass to real applications as they come.

use std::io::{Read, Write};
use std::thread;

use flash_tests::reply;
use flash_tests::site::pattern;

use crate::app::App;
use crate::{ARCHITECTURES, curl, folder, read_until, server, told};

const STREAMS: &str = "--stream-requests";

#[test]
fn a_piece_is_with_the_application_before_the_next_one_is_sent() {
    let (folder, app) = (folder(), App::node());
    for arch in ARCHITECTURES {
        let server = server(arch, &folder, &[&app], &[STREAMS]);
        let mut client = server.connect();
        let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.write_all(format!("{head}5\r\nfirst\r\n").as_bytes()).expect("it is open");
        let mut got = Vec::new();
        read_until(&mut client, &mut got, b"first");
        client.write_all(b"4\r\nlast\r\n0\r\n\r\n").expect("it is open");
        read_until(&mut client, &mut got, b"last\r\n0\r\n\r\n");
        server.stop();
    }
}

#[test]
fn every_byte_arrives_whatever_says_the_length_and_whoever_is_slow() {
    let (folder, node, python) = (folder(), App::node(), App::python_upload());
    let (upload, body) = (folder.path().join("upload"), pattern(8 << 20));
    std::fs::write(&upload, &body).expect("a file");
    let path = upload.to_str().expect("UTF-8");
    for arch in ARCHITECTURES {
        let to_node = server(arch, &folder, &[&node], &[STREAMS, "--body-bytes-max", "16M"]);
        let to_python = server(arch, &folder, &[&python], &[STREAMS, "--body-bytes-max", "16M"]);
        let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 8388608\r\n\r\n";
        let raw = to_node.raw(&[head.as_bytes(), &body].concat());
        let expected = told(&reply::only(&raw))["digest"].clone();
        for words in [
            vec!["--http1.1", "-T", path],
            vec!["--http1.1", "-T", path, "-H", "Expect: 100-continue"],
            vec!["--http1.1", "-T", path, "-H", "Transfer-Encoding: chunked"],
            vec!["--http2-prior-knowledge", "-T", path],
        ] {
            let words: Vec<&str> = words.into_iter().chain(["--limit-rate", "80M"]).collect();
            let said = curl(&to_node, &words, "/a");
            let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
            assert_eq!((&said["bytes"], &said["digest"]), (&(8 << 20).into(), &expected), "{arch} {words:?}");
            // Python's server takes no chunks.
            if !words.contains(&"Transfer-Encoding: chunked") {
                assert_eq!(curl(&to_python, &words, "/a"), expected.as_str().expect("text").as_bytes());
            }
        }
        to_node.stop();
        to_python.stop();
    }
}

#[test]
fn trailers_pass_in_both_directions() {
    let (folder, app) = (folder(), App::node());
    for arch in ARCHITECTURES {
        let server = server(arch, &folder, &[&app], &[STREAMS]);
        let mut client = server.connect();
        let head = "POST /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTrailer: X-End\r\nTransfer-Encoding: chunked\r\n\r\n";
        client
            .write_all(format!("{head}1\r\na\r\n0\r\nX-End: seven \r\n\r\n").as_bytes())
            .expect("it is open");
        read_until(&mut client, &mut Vec::new(), b"ok\r\n0\r\nX-Sum: seventrailers\r\n\r\n");
        server.stop();
    }
}

/// The application refuses what it has not read.
#[test]
fn an_early_answer_arrives() {
    let (folder, node, python) = (folder(), App::node(), App::python_upload());
    for (arch, app) in ARCHITECTURES.iter().flat_map(|arch| [(arch, &node), (arch, &python)]) {
        let server = server(arch, &folder, &[app], &[STREAMS, "--body-bytes-max", "1G"]);
        for expect in ["", "Expect: 100-continue\r\n"] {
            let mut client = server.connect();
            let head =
                format!("POST /early HTTP/1.1\r\nHost: a\r\n{expect}Content-Length: 100000000\r\n\r\n");
            client.write_all(head.as_bytes()).expect("it is open");
            let mut got = Vec::new();
            // One without an expectation sends, whatever it hears.
            let sends = expect.is_empty().then(|| {
                let mut client = client.try_clone().expect("a descriptor");
                thread::spawn(move || while client.write_all(&[b'x'; 64 << 10]).is_ok() {})
            });
            read_until(&mut client, &mut got, b"too large");
            // The connection ends, and nothing of the body was taken for a request.
            let _ = client.read_to_end(&mut got);
            drop(client);
            if let Some(sends) = sends {
                sends.join().expect("it ends with the connection");
            }
            assert_eq!(reply::only(&got).status, 413, "{arch}");
        }
        assert_eq!(server.get("/a").status, 200);
        server.stop();
    }
}
