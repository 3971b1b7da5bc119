//! The first certificate, by each kind of challenge, while the server serves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use flash_tests::{ARCHITECTURES, Server, set_mode, wait_for};
use rustls::RootCertStore;

use crate::pebble::Pebble;
use crate::{Site, files_in, get, stream};

#[test]
fn a_new_site_gets_its_certificate_without_a_closed_connection() {
    let pebble = Pebble::start();
    thread::scope(|scope| {
        for (number, arch) in (1..).zip(ARCHITECTURES) {
            let pebble = &pebble;
            scope.spawn(move || first_certificate(pebble, arch, number));
        }
    });
}

fn first_certificate(pebble: &Pebble, arch: &'static str, number: u8) {
    let site = Site::new(arch, number);
    let (host, other) = (&*format!("www{number}.example"), &*format!("other{number}.example"));
    let server = site.start(pebble, &[host, other]);
    let own = "clients get a certificate that they do not trust until";
    wait_for("its certificate to be named", || server.said().contains(own));
    // Nobody trusts the first one, and it has the right names.
    let error = get(&mut stream(site.tls_address(pebble), &RootCertStore::empty(), host), host, "/a.txt");
    assert!(error.is_err_and(|error| error.to_string().contains("UnknownIssuer")), "{arch}");
    // What comes without TLS is redirected all the same.
    let mut plain = server.connect();
    assert_eq!(get(&mut plain, host, "/.well-known/acme-challenge/none").expect("an answer"), 308, "{arch}");
    let first = site.wait_for_certificate(pebble, host);
    assert_eq!(get(&mut plain, host, "/a.txt").expect("the connection is kept"), 308, "{arch}");
    assert_eq!(site.trusted(pebble, &pebble.roots(), other).as_ref(), Some(&first), "{arch}");
    let mode =
        |name: &str| fs::metadata(site.store().join(name)).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&format!("certificates/{host}.pem")), 0o600, "{arch}");
    assert_eq!(mode("accounts"), 0o700, "{arch}");
    assert!(files_in(&site.store().join("challenges")).is_empty(), "{arch}");

    // The site gets another host with a reload. Connections that have begun go on.
    let mut kept = stream(site.tls_address(pebble), &pebble.roots(), host);
    assert_eq!(get(&mut kept, host, "/a.txt").expect("an answer"), 200, "{arch}");
    let new = &*format!("new{number}.example");
    pebble.put(new, site.address);
    site.write(pebble, &site.table(&[host, other, new]));
    let (code, said) = site.flash(&["reload"]);
    assert_eq!(code, Some(0), "{arch}: {said}");
    assert_ne!(site.wait_for_certificate(pebble, new), first, "{arch}");
    if arch != "mp" {
        // Its processes end with the configuration that they began with.
        assert_eq!(get(&mut kept, host, "/a.txt").expect("an answer"), 200, "{arch}");
    }
    let expected = format!("{host}, {other}, {new}: expires in 89 days, is renewed in ");
    wait_for(&format!("{arch}: {expected}"), || {
        let (code, said) = site.flash(&["acme", "status"]);
        code == Some(0) && said.starts_with(&expected)
    });
    let issued = "has issued a certificate, which expires in 89 days";
    wait_for("two lines", || server.said().matches(issued).count() == 2);
    server.stop();
    wait_for("the lease to be released", || !site.store().join("lease").exists());
}

#[test]
fn a_server_with_tls_alone_answers_in_the_handshake() {
    let pebble = Pebble::start();
    let mut site = Site::new("amped", 20);
    site.settings = "http2 = 'off'\n".into();
    pebble.put("tls.example", site.address);
    site.write(&pebble, &site.table(&["tls.example"]));
    site.listen_with_tls_alone(&pebble);
    let server = Server::start_configured(&site.config(), &[]);
    site.wait_for_certificate(&pebble, "tls.example");
    server.stop();
    assert!(!pebble.log().contains("http-01 for"), "{}", pebble.log());
}

#[test]
fn a_program_sets_records_of_dns_for_all_hosts_below_a_name() {
    let pebble = Pebble::start();
    let mut site = Site::new("amped --helpers process", 21);
    let hook = site.path("hook");
    fs::write(&hook, pebble.dns_hook()).expect("a file");
    set_mode(&hook, 0o755);
    let hosts = ["*.wild.example", "wild.example"];
    site.write(&pebble, &site.table(&hosts));
    let (code, said) = site.flash(&["check"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("for *.wild.example to those only who set a record of DNS"), "{said}");
    site.settings = format!("acme-dns = '{}'\n", hook.display());
    let server = site.start(&pebble, &hosts);
    site.wait_for_certificate(&pebble, "any.wild.example");
    server.stop();
}

#[test]
fn an_account_elsewhere_a_profile_and_rsa() {
    let key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";
    let pebble = Pebble::start_with(&[], |config| {
        config["externalAccountBindingRequired"] = true.into();
        config["externalAccountMACKeys"] = serde_json::json!({ "kid-1": key });
        config["profiles"]["short"] = serde_json::json!({ "description": "", "validityPeriod": 518_400 });
    });
    let mut site = Site::new("uring", 22);
    let account = site.path("account");
    fs::write(&account, format!("kid-1 {key}\n")).expect("a file");
    site.settings = format!(
        "acme-account = '{}'\nacme-profile = 'short'\nacme-key = 'rsa'\nacme-email = 'a@bound.example'\n",
        account.display()
    );
    let server = site.start(&pebble, &["bound.example"]);
    let certificate = site.wait_for_certificate(&pebble, "bound.example");
    // rsaEncryption: 1.2.840.113549.1.1.1.
    let rsa = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    assert!(certificate.windows(rsa.len()).any(|bytes| bytes == rsa));
    let said = || site.flash(&["acme", "status"]).1;
    wait_for("the status", || said().contains("bound.example: expires in 5 days, is renewed in 2 days"));
    server.stop();
}

#[test]
fn a_check_says_what_would_be_asked_and_asks_nothing() {
    let pebble = Pebble::start();
    let site = Site::new("amped", 23);
    site.write(&pebble, &site.table(&["www.example", "example"]));
    let (code, said) = site.flash(&["check"]);
    assert_eq!(code, Some(0), "{said}");
    let asked = format!("{} would be asked for a certificate for www.example, example", pebble.directory);
    assert!(said.contains(&asked), "{said}");
    assert!(!pebble.log().contains("GET /dir"), "{}", pebble.log());
    // A certificate that cannot be used is said, and so is who can read the keys.
    fs::create_dir_all(site.store().join("certificates")).expect("a folder");
    fs::write(site.store().join("certificates/www.example.pem"), "no certificate").expect("a file");
    let programs = format!("cgi = {{ '/cgi' = '{}' }}\n", site.path("www").display());
    site.write(&pebble, &(site.table(&["www.example", "example"]) + &programs));
    let (_, said) = site.flash(&["check"]);
    for why in [
        "there is no certificate in it",
        "programs run as the server's user, and can read and change the keys",
    ] {
        assert!(said.contains(why), "{said}");
    }
    for (wrong, why) in [
        (
            "[site.'*']\nroot = '/'\ntls = 'acme'\n",
            "an authority issues a certificate for hosts, and none is named",
        ),
        (
            "[site.'a_b.example']\nroot = '/'\ntls = 'acme'\n",
            "no authority issues a certificate for a_b.example",
        ),
        ("[site.'12345']\nroot = '/'\ntls = 'acme'\n", "it ends with a number, as addresses do"),
        ("[site.'a.example']\nroot = '/'\ntls = 'acne'\n", "`tls` takes true or false, \"acme\", or a table"),
    ] {
        site.write(&pebble, wrong);
        let (code, said) = site.flash(&["check"]);
        assert!(code == Some(2) && said.contains(why), "{said}");
    }
}

#[test]
fn a_command_line_is_enough() {
    let pebble = Pebble::start();
    let site = Site::new("amped", 24);
    let [plain, tls] = [("http", pebble.http_port), ("https", pebble.tls_port)]
        .map(|(scheme, port)| format!("{scheme}://{}:{port}", site.address));
    let (store, ca) = (site.store(), pebble.ca());
    let [store, ca] = [&store, &ca].map(|path| path.to_str().expect("UTF-8"));
    pebble.put("line.example", site.address);
    let flags = ["--acme", "line.example", "--acme-folder", store, "--acme-directory", &pebble.directory];
    let flags = [&flags[..], &["--acme-ca", ca, "--listen", &plain, "--listen", &tls]].concat();
    let server = Server::start("amped", &site.path("www"), &flags);
    site.wait_for_certificate(&pebble, "line.example");
    server.stop();
}

#[test]
fn an_address_has_a_certificate_for_six_days() {
    let pebble = Pebble::start_with(&[], |config| {
        config["profiles"]["shortlived"] =
            serde_json::json!({ "description": "", "validityPeriod": 518_400 });
    });
    let mut site = Site::new("uring", 25);
    // It has no record that this could set.
    site.settings = "acme-dns = '/bin/false'\n".into();
    let address = site.address.to_string();
    site.write(&pebble, &site.table(&[&address]));
    let (_, said) = site.flash(&["check"]);
    assert!(said.contains("an authority asks at the ports 80 and 443"), "{said}");
    let server = site.start(&pebble, &[&address]);
    site.wait_for_certificate(&pebble, &address);
    let expected = format!("{address}: expires in 5 days, is renewed in 2 days");
    wait_for(&expected, || site.flash(&["acme", "status"]).1.contains(&expected));
    server.stop();
}

#[test]
fn an_address_is_asked_for_in_the_handshake_by_its_reverse_name() {
    let pebble = Pebble::start();
    let site = Site::new("amped", 26);
    let address = site.address.to_string();
    site.write(&pebble, &site.table(&[&address]));
    site.listen_with_tls_alone(&pebble);
    let server = Server::start_configured(&site.config(), &[]);
    site.wait_for_certificate(&pebble, &address);
    server.stop();
    assert!(!pebble.log().contains("http-01 for"), "{}", pebble.log());
}
