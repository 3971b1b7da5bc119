//! curl, OpenSSL and Python as clients.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use flash_tests::{each, need, site};

use crate::client::Secured;

pub(crate) fn run(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("it is piped");
    // A client may leave before it has read all.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

/// A file, and the version of HTTP that curl spoke.
pub(crate) fn curl(secured: &Secured, flags: &[&str], file: &str) -> (Vec<u8>, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--write-out", "%{stderr}%{http_version}", "--cacert"]);
    curl.arg(secured.authority.path("authority.pem")).args(flags);
    let port = secured.server.address.port();
    let output = run(curl.arg(format!("https://localhost:{port}/{file}")), b"");
    assert!(output.status.success(), "{flags:?}: {output:?}");
    (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn http2_can_be_turned_off() {
    need("curl", "curl");
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &["--http2", "off"]);
        let (body, spoken) = curl(&secured, &["--http2"], "a.txt");
        assert_eq!((&body[..], &*spoken), (&b"0123456789"[..], "1.1"), "{arch}");
        secured.server.stop();
    });
}

#[test]
fn curl_with_both_versions() {
    need("curl", "curl");
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        let file = std::fs::read(folder.path().join("3000000.bin")).expect("a file");
        for version in [&["--tlsv1.3"][..], &["--tlsv1.2", "--tls-max", "1.2"]] {
            for (protocol, expected) in [("--http2", "2"), ("--http1.1", "1.1")] {
                let flags = [version, &[protocol]].concat();
                let (body, spoken) = curl(&secured, &flags, "3000000.bin");
                assert!(body == file && spoken == expected, "{arch} {flags:?}: {spoken}");
            }
        }
        secured.server.stop();
    });
}

/// The output of `openssl s_client` with this input.
fn openssl(secured: &Secured, flags: &[&str], input: &[u8]) -> String {
    let mut openssl = Command::new("openssl");
    openssl
        .args(["s_client", "-servername", "localhost", "-CAfile"])
        .arg(secured.authority.path("authority.pem"));
    openssl.args(["-connect", &secured.server.address.to_string()]).args(flags);
    let output = run(&mut openssl, input);
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn openssl_finds_what_is_offered_and_nothing_older() {
    need("openssl", "openssl");
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let said = openssl(&secured, &["-alpn", "h2,http/1.1"], b"");
        assert!(said.contains("ALPN protocol: h2"), "{arch}: {said}");
        let said = openssl(&secured, &["-ign_eof", "-alpn", "http/1.1"], request);
        for word in ["Verify return code: 0 (ok)", "TLSv1.3", "ALPN protocol: http/1.1", "0123456789"] {
            assert!(said.contains(word), "{arch}: {word}: {said}");
        }
        let said = openssl(&secured, &["-ign_eof", "-tls1_2"], request);
        for word in
            ["Verify return code: 0 (ok)", "TLSv1.2", "Secure Renegotiation IS supported", "0123456789"]
        {
            assert!(said.contains(word), "{arch}: {word}: {said}");
        }
        for version in ["-tls1_1", "-tls1"] {
            let said = openssl(&secured, &[version, "-cipher", "ALL:@SECLEVEL=0"], b"");
            assert!(said.contains("Cipher is (NONE)") && said.contains("alert"), "{arch}: {version}: {said}");
        }
        // A line with R asks for a renegotiation.
        let said = openssl(&secured, &["-tls1_2"], b"R\n");
        assert!(said.contains("RENEGOTIATING") && said.contains("no renegotiation"), "{arch}: {said}");
        secured.server.stop();
    });
}

#[test]
fn openssl_resumes_its_session() {
    need("openssl", "openssl");
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        let request = b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let kept = secured.authority.path("session");
        let kept = kept.to_str().expect("UTF-8");
        for version in ["-tls1_2", "-tls1_3"] {
            let said = openssl(&secured, &[version, "-ign_eof", "-sess_out", kept], request);
            assert!(said.contains("New, TLSv1."), "{arch}: {said}");
            let said = openssl(&secured, &[version, "-ign_eof", "-sess_in", kept], request);
            assert!(said.contains("Reused, TLSv1.") && said.contains("0123456789"), "{arch}: {said}");
        }
        secured.server.stop();
    });
}

const PYTHON: &str = r#"
import http.client, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
connection = http.client.HTTPSConnection("localhost", int(sys.argv[2]), context=context)
total = 0
for path in ["/a.txt", "/3000000.bin", "/none", "/a.txt"]:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    total += len(body) if answer.status == 200 else 0
connection.close()
print(total)
"#;

#[test]
fn python_keeps_its_connection() {
    need("python3", "python3");
    let folder = site::make();
    each(|arch| {
        let secured = Secured::start(arch, folder.path(), &[]);
        let port = secured.server.address.port().to_string();
        let mut python = Command::new("python3");
        python.args(["-c", PYTHON]).arg(secured.authority.path("authority.pem")).arg(port);
        let output = run(&mut python, b"");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "3000020\n", "{arch}: {output:?}");
        secured.server.stop();
    });
}

/// `flash serve --tls`, without anything prepared.
#[test]
fn a_machine_has_an_authority_of_its_own() {
    need("curl", "curl");
    let (folder, home) = (site::make(), tempfile::tempdir().expect("a folder"));
    let data = format!("XDG_DATA_HOME={}", home.path().display());
    let authority = home.path().join("flash/tls/authority.pem");
    for (number, arch) in flash_tests::ARCHITECTURES.into_iter().enumerate() {
        let server = flash_tests::Server::start_under(&["env", &data], arch, folder.path(), &["--tls"]);
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--cacert"]).arg(&authority);
        curl.arg(format!("https://localhost:{}/a.txt", server.address.port()));
        let output = run(&mut curl, b"");
        assert!(output.stdout == b"0123456789", "{arch}: {output:?}");
        let said = server.stop();
        assert_eq!(said.contains("made a certificate authority"), number == 0, "{arch}: {said}");
        assert!(said.contains(authority.to_str().expect("UTF-8")), "{arch}: {said}");
    }
}
