//! Whole files: which sites there are, who comes in, and what is not understood.

use std::path::Path;

use super::*;

fn imported(text: &str) -> Imported {
    let nothing = |_: &Path| Err("no such file".to_owned());
    import(Path::new("Caddyfile"), text, &nothing).expect("its syntax is right")
}

#[test]
fn addresses_have_their_ports_and_certificates() {
    for (text, parts) in [
        (
            "a.example {\nroot * /srv\nfile_server\n}",
            &[
                "listen = [\":443\", \":80\"]",
                "tls = \"acme\"",
                "https = \"required\"",
                "[site.\"a.example\"]",
            ][..],
        ),
        ("http://a.example {\nroot * /srv\nfile_server\n}", &["listen = \":80\""]),
        (":8080\nroot * /srv\nfile_server", &["listen = \":8080\"", "[site.\"*\"]"]),
        ("localhost\nroot * /srv\nfile_server", &["tls = true"]),
        ("10.1.2.3\nroot * /srv\nfile_server", &["tls = true"]),
        ("https://[::1]:8443\nroot * /srv\nfile_server", &["tls = true"]),
        ("a.home.arpa\nroot * /srv\nfile_server", &["tls = true"]),
        ("\u{feff}http://a.example\nrespond ok", &["listen = \":80\"", "[site.\"a.example\"]"]),
        (
            "a.example {\ntls /c.pem /k.pem\nroot * /srv\nfile_server\n}",
            &["tls = { certificate = \"/c.pem\", key = \"/k.pem\" }"],
        ),
        (
            "{\nemail a@b.example\nhttp_port 8080\n}\na.example {\nrespond ok\n}",
            &["acme-email = \"a@b.example\"", ":8080"],
        ),
    ] {
        let text = (text, imported(text).text);
        for part in parts {
            assert!(text.1.contains(part), "{}: {part}: {}", text.0, text.1);
        }
    }
}

#[test]
fn a_policy_for_tls_never_becomes_plain_http() {
    let policy =
        "tls c.pem k.pem {\nclient_auth {\nmode require_and_verify\ntrusted_ca_cert_file ca.pem\n}\n}";
    for (text, listen) in [
        (format!(":18981 {{\n{policy}\nrespond a\n}}"), "listen = \"https://:18981\""),
        (format!("{{\nauto_https off\n}}\na.example {{\n{policy}\nrespond a\n}}"), "listen = \":443\""),
        // TLS belongs to the address.
        (
            format!("a.example:8443 {{\n{policy}\nrespond a\n}}\n:8443 {{\nrespond b\n}}"),
            "listen = [\"https://:8443\", \":80\"]",
        ),
        (
            format!(":8443 {{\nrespond b\n}}\na.example:8443 {{\n{policy}\nrespond a\n}}"),
            "listen = [\"https://:8443\", \":80\"]",
        ),
    ] {
        let text = (&text, imported(&text).text);
        assert!(text.1.contains(listen), "{}: {}", text.0, text.1);
        assert!(text.1.contains("client-certificate = \"required\""), "{}: {}", text.0, text.1);
        assert!(text.1.contains("tls = { certificate = \"c.pem\""), "{}: {}", text.0, text.1);
    }
    // No port of these speaks TLS.
    for address in [":80", "http://a.example", "http://:8080"] {
        let imported = imported(&format!("{address} {{\n{policy}\nrespond a\n}}"));
        assert!(imported.text.contains("deny = [\"0.0.0.0/0\", \"::/0\"]"), "{address}: {}", imported.text);
    }
    let text = imported(":8080 {\ntls internal\nrespond a\n}").text;
    assert!(text.contains("listen = \":8080\"") && !text.contains("deny"), "{text}");
}

#[test]
fn nobody_comes_in_where_something_is_not_understood() {
    for guard in [
        "basicauth /admin/* {\nbob JDJhJDE0\n}",
        "forward_auth /admin/* localhost:9091 {\nuri /verify\n}",
        "@a {\npath /admin/*\nnot header X-Key secret\n}\nrespond @a 403",
        "@a expression `path('/admin/*')`\nabort @a",
        "@a path_regexp ^/admin\nerror @a 403",
        "handle /admin/* {\nfrobnicate\n}",
        "rewrite /admin/* /login.html",
        "redir /admin/* https://login.example/{re.a.1}",
        "reverse_proxy /admin/* {\ndynamic srv a.example\n}",
        "root * /srv/{host}",
        "respond /Admin/* 403",
        "@a path */s.txt\nrespond @a 403",
        "route /admin/* {\nbasic_auth {\nbob JDJ\n}\nfile_server\n}",
    ] {
        let imported = imported(&format!("http://a.example {{\nroot * /srv\n{guard}\nfile_server\n}}"));
        let is_answered =
            guard.contains("Admin") && imported.text.contains("\"/admin\"]\nrespond = { status = 403");
        let is_closed = imported.text.contains("deny = [\"0.0.0.0/0\", \"::/0\"]");
        assert!(is_closed || is_answered, "{guard}: {}", imported.text);
        assert!(
            is_answered || imported.notes.iter().any(|note| note.is_left && note.source.is_some()),
            "{guard}"
        );
    }
}

#[test]
fn a_refusal_with_a_condition_comes_before_an_answer_without_one() {
    let text =
        imported("http://a.example {\nrespond hello\n@a remote_ip 192.0.2.0/24\nrespond @a 403\n}").text;
    assert!(text.contains("deny = \"192.0.2.0/24\"") && text.contains("body = \"hello\""), "{text}");
    let text = imported(
        "http://a.example {\nroot * /srv\nhandle_path /a/* {\n@a not path *.html\nrespond @a 403\nfile_server\n}\nfile_server\n}",
    );
    assert!(text.text.contains("\"0.0.0.0/0\""), "{}", text.text);
}

#[test]
fn an_end_of_names_opens_nothing_below_a_refused_prefix() {
    let text = imported(
        "http://a.example {\nroot * /srv\nrespond /private/* 403\n@pages path *.html\nfile_server @pages\n}",
    )
    .text;
    assert!(text.contains("deny = \"/private\""), "{text}");
}

#[test]
fn paths_of_several_lines_are_all_refused() {
    let site = "root * /srv\n@g {\npath /b/*\npath /private/* /c/*\n}\nrespond @g 403\nfile_server";
    let text = imported(&format!("http://a.example {{\n{site}\n}}")).text;
    for name in ["/b", "/c", "/private"] {
        assert!(place(&text, name).contains("status = 403"), "{name}: {text}");
    }
    // Lines whose networks would have to be joined close.
    for lines in ["remote_ip 192.0.2.0/24\nremote_ip ::1", "not remote_ip ::1\nclient_ip 192.0.2.1"] {
        let site = format!("root * /srv\n@g {{\n{lines}\n}}\nrespond @g 403\nfile_server");
        let text = imported(&format!("http://a.example {{\n{site}\n}}")).text;
        assert!(text.contains("deny = [\"0.0.0.0/0\", \"::/0\"]"), "{lines}: {text}");
    }
}

#[test]
fn names_that_begin_as_a_refused_prefix_are_said_to_stay_open() {
    for (guard, is_open) in [
        ("respond /q* 403", true),
        ("basic_auth /q* {\nbob JDJ\n}", true),
        ("handle_path /q* {\nabort\n}", true),
        ("@g {\npath /q*\nnot remote_ip 192.0.2.0/24\n}\nabort @g", true),
        ("header /q* X-A b", false),
        ("@g not path /q*\nrespond @g 403", false),
        ("respond /q/* 403", false),
    ] {
        let imported = imported(&format!("http://a.example {{\nroot * /srv\n{guard}\nfile_server\n}}"));
        let open = imported.notes.iter().find(|note| note.text.contains("begin with /q stay open"));
        assert_eq!(open.is_some_and(|note| note.is_left), is_open, "{guard}: {}", imported.file());
    }
}

#[test]
fn clients_of_some_networks_are_refused() {
    let guarded =
        |guard: &str| imported(&format!("http://a.example {{\nroot * /srv\n{guard}\nfile_server\n}}")).text;
    let closed = "\"0.0.0.0/0\", \"::/0\"";
    for (guard, expected) in [
        ("@a not remote_ip 192.0.2.0/24 ::1\nabort @a", "allow = [\"192.0.2.0/24\", \"::1\"]"),
        ("@a remote_ip 192.0.2.0/24\nrespond @a 403", "deny = \"192.0.2.0/24\""),
        // What has a condition comes first.
        ("file_server\n@a remote_ip 192.0.2.0/24\nabort @a", "deny = \"192.0.2.0/24\""),
        (
            "@a not remote_ip 192.0.2.0/24\nhandle @a {\nabort\n}\nhandle {\nfile_server\n}",
            "allow = \"192.0.2.0/24\"",
        ),
        ("@a not remote_ip 192.0.2.0/24\nabort @a\n@b not remote_ip 10.0.0.0/8\nabort @b", closed),
        ("@a remote_ip 192.0.2.0/24\nhandle @a {\nrespond /x 403\n}", closed),
        ("@a remote_ip 192.0.2.0/24\nbasic_auth @a {\nbob JDJ\n}", closed),
    ] {
        let text = guarded(guard);
        assert!(text.contains(expected), "{guard}: {text}");
        assert!(!text.contains("respond = "), "{guard}: {text}");
    }
}

#[test]
fn servers_have_their_addresses() {
    for (line, expected) in [
        ("reverse_proxy unix//run/a.sock", "proxy = \"unix:/run/a.sock\""),
        ("reverse_proxy :9000", "proxy = \"http://127.0.0.1:9000\""),
        ("reverse_proxy b.internal", "proxy = \"http://b.internal:80\""),
        ("reverse_proxy https://b.internal/", "proxy = \"https://b.internal\""),
        ("reverse_proxy https://unix//run/a.sock", "deny = [\"0.0.0.0/0\", \"::/0\"]"),
        ("php_fastcgi unix//run/php.sock", "fastcgi = { \".php\" = \"unix:/run/php.sock\" }"),
        ("php_fastcgi :9000", "fastcgi = { \".php\" = \"127.0.0.1:9000\" }"),
        ("php_fastcgi php", "deny = [\"0.0.0.0/0\", \"::/0\"]"),
    ] {
        let text = imported(&format!("http://a.example {{\nroot * /srv\n{line}\nfile_server\n}}")).text;
        assert!(text.contains(expected), "{line}: {text}");
    }
}

#[test]
fn what_a_line_has_for_several_places_is_listed_once() {
    let places: String = (0..5).map(|n| format!("respond /p{n}/* 404\n")).collect();
    let file = imported(&format!("http://a.example {{\nvars a b\n{places}}}")).file();
    assert_eq!(file.matches("# Caddyfile:2: vars a b").count(), 1, "{file}");
}

#[test]
fn every_line_is_taken_or_named() {
    let text = "http://a.example {\nroot * /srv\nheader X-A b\nencode gzip zstd\ntry_files {path} {path}.html /index.html\nfile_server {\nhide *.sql\nfrob\n}\nfrobnicate\n}";
    let imported = imported(text);
    let lines: Vec<usize> = imported
        .notes
        .iter()
        .filter(|note| note.is_left)
        .filter_map(|note| Some(note.source.as_ref()?.line))
        .collect();
    assert!(lines.contains(&8) || lines.contains(&10), "{lines:?}");
    for part in [
        "header = { \"X-A\" = \"b\" }",
        "compress = \"gzip,zstd\"",
        "extensions = \".html\"",
        "fallback = \"/index.html\"",
    ] {
        assert!(imported.text.contains(part), "{part}: {}", imported.text);
    }
}

/// The settings of a place, as they are written.
fn place<'t>(text: &'t str, name: &str) -> &'t str {
    let head = format!(".\"{name}\"]\n");
    text.split_once(&head).map_or("", |(_, rest)| rest.split("\n[").next().unwrap_or_default())
}

#[test]
fn lines_are_matched_once_for_each_block() {
    let text = "a.example {\nhandle /a/* {\nrespond /a/b/* 403\n}\nhandle {\nrespond 404\n}\n}";
    let nothing = |_: &Path| Err("no such file".to_owned());
    let tree = read::file(Path::new("Caddyfile"), text, &nothing).expect("its syntax is right");
    let context = Context::new("", ("", Of::Everything));
    let scope = Scope { levels: Vec::new(), context: &context, hosts: Vec::new() };
    let site = lines::Lines::of_site(&scope, &tree[0]);
    let inner = || site.inner(&site.block[0]);
    let once = inner().matched(|_| {});
    assert!(std::rc::Rc::ptr_eq(&once, &inner().matched(|_| unreachable!("they are known"))));
    assert_eq!((once.len(), site.matched(|_| {}).len()), (1, 2));
}

#[test]
fn a_matcher_is_that_of_its_block_or_of_one_around_it() {
    let guard = "@secret path {args.0}/secret/*\nrespond @secret 403\nfile_server";
    let text = format!(
        "(guard) {{\n{guard}\n}}\nhttp://a.example {{\nroot * /srv\n@x path /x/*\nhandle /a/* {{\nimport guard /a\n}}\nhandle /b/* {{\nimport guard /b\nrespond @x 404\n}}\nhandle /x/* {{\nrespond @x 410\n}}\n}}"
    );
    let text = imported(&text).text;
    for name in ["/a/secret", "/b/secret"] {
        assert!(place(&text, name).contains("status = 403"), "{name}: {text}");
    }
    assert!(place(&text, "/x").contains("status = 410"), "{text}");
    // One of another block is none.
    let text = imported("http://a.example {\nroot * /srv\nhandle /a/* {\n@k remote_ip 192.0.2.0/24\nfile_server\n}\nhandle {\nrespond @k 403\nfile_server\n}\n}").text;
    assert!(!text.contains("192.0.2.0/24") && text.contains("\"0.0.0.0/0\""), "{text}");
}

#[test]
fn matchers_behind_a_prefix_that_is_stripped_have_their_places() {
    for (guard, expected) in [
        ("handle /app/* {\nuri strip_prefix /app\nrespond /secret/* 403\nfile_server\n}", "status = 403"),
        ("uri /app/* strip_prefix /app\nrespond /secret/* 403\nfile_server", "status = 403"),
        (
            "handle /app/* {\nuri strip_prefix /app\nhandle_path /secret/* {\nabort\n}\nfile_server\n}",
            "status = 403",
        ),
    ] {
        let text = imported(&format!("http://a.example {{\nroot * /srv\n{guard}\n}}")).text;
        assert!(place(&text, "/app/secret").contains(expected), "{guard}: {text}");
    }
    // Two of them are no single one of Flash's, and ends of names have no place below a prefix.
    for guard in [
        "handle_path /app/* {\nuri strip_prefix /b\nrespond /secret/* 403\nfile_server\n}",
        "handle /app/* {\n@bak path *.bak\nrespond @bak 403\nfile_server\n}",
    ] {
        let text = imported(&format!("http://a.example {{\nroot * /srv\n{guard}\n}}")).text;
        assert!(text.contains("\"0.0.0.0/0\"") || text.contains("deny = \"/app\""), "{guard}: {text}");
    }
}

#[test]
fn what_answers_some_requests_alone_closes_the_place() {
    let outside = "@ext not remote_ip 10.0.0.0/8";
    for guard in [
        "@ext not remote_ip 10.0.0.0/8\nhandle @ext {\nroot * /srv/public\nfile_server\n}\nhandle {\nfile_server\n}",
        "@ext not remote_ip 10.0.0.0/8\nredir @ext https://www.example/",
        "@ext not remote_ip 10.0.0.0/8\nroot @ext /srv/public",
        "@ext remote_ip {$OFFICE}\nrespond @ext 403",
        "@in header X-In yes\nroute @in {\nredir https://www.example/\n}",
        "@in header X-In yes\nrewrite @in /public{uri}",
        "@in header X-In yes\nrespond @in later 503",
        "@in header X-In yes\nfrobnicate @in",
        "frobnicate",
        "invoke guard",
    ] {
        let imported = imported(&format!("http://a.example {{\nroot * /srv\n{guard}\nfile_server\n}}"));
        assert!(imported.text.contains("\"0.0.0.0/0\", \"::/0\""), "{guard}: {}", imported.text);
        assert!(imported.notes.iter().any(|note| note.is_left && note.source.is_some()), "{guard}");
    }
    // A refusal with another status is one, too, and where a later line refuses all, nothing is open.
    let site = |lines: &str| imported(&format!("http://a.example {{\nroot * /srv\n{lines}\n}}")).text;
    let text = site(&format!("{outside}\nrespond @ext later 503\nfile_server"));
    assert!(text.contains("allow = \"10.0.0.0/8\""), "{text}");
    let text = site("@in header X-In yes\nfile_server @in\nrespond 404");
    assert!(text.contains("status = 404") && !text.contains("deny"), "{text}");
    // What opens nothing is left out.
    let text = site("@in header X-In yes\nheader @in X-A b\nencode @in gzip\nfile_server");
    assert!(!text.contains("deny"), "{text}");
}

#[test]
fn another_order_closes_all_sites_and_a_named_route_is_none() {
    let text = imported(
        "{\norder respond last\n}\nhttp://a.example {\nroot * /srv\nredir /b/* https://b.example/\nfile_server\n}",
    );
    assert!(text.text.contains("deny = [\"0.0.0.0/0\", \"::/0\"]"), "{}", text.text);
    assert_eq!(text.text.matches("deny = ").count(), 1, "{}", text.text);
    assert!(text.notes.iter().any(|note| note.source.as_ref().is_some_and(|of| of.line == 2)));
    let text = imported("&(name) {\nrespond 403\n}\nhttp://a.example {\nroot * /srv\nfile_server\n}");
    assert!(!text.text.contains("&("), "{}", text.text);
    assert!(
        text.notes.iter().any(|note| note.is_left && note.source.as_ref().is_some_and(|of| of.line == 1))
    );
}

#[test]
fn certificates_of_clients_are_asked_for_or_nobody_comes_in() {
    let site = |lines: &str| {
        imported(&format!(
            "a.example {{\ntls /c.pem /k.pem {{\n{lines}\n}}\nroot * /srv\nredir /b/* https://b.example/\nfile_server\n}}"
        ))
    };
    for (lines, how) in [
        ("client_auth {\ntrusted_ca_cert_file /ca.pem\n}", "required"),
        ("client_auth {\nmode require_and_verify\ntrust_pool file /ca.pem\n}", "required"),
        ("client_auth {\nmode verify_if_given\ntrust_pool file {\npem_file /ca.pem\n}\n}", "asked"),
    ] {
        let text = site(lines).text;
        assert!(text.contains("client-ca = \"/ca.pem\""), "{lines}: {text}");
        assert!(text.contains(&format!("client-certificate = \"{how}\"")), "{lines}: {text}");
        assert!(!text.contains("deny"), "{lines}: {text}");
    }
    for lines in [
        "client_auth {\nmode require\n}",
        "client_auth {\nmode request\ntrusted_ca_cert_file /ca.pem\n}",
        "client_auth {\ntrusted_ca_cert_file /ca.pem\ntrusted_ca_cert_file /cb.pem\n}",
        "client_auth {\ntrusted_ca_cert MIIB\n}",
        "client_auth {\ntrusted_leaf_cert_file /leaf.pem\ntrusted_ca_cert_file /ca.pem\n}",
        "client_auth {\ntrust_pool file /ca.pem {$MORE}\n}",
        "client_auth",
        "frobnicate",
    ] {
        let imported = site(lines);
        assert!(imported.text.contains("deny = [\"0.0.0.0/0\", \"::/0\"]"), "{lines}: {}", imported.text);
        assert_eq!(imported.text.matches("deny = ").count(), 1, "{lines}: {}", imported.text);
        assert!(imported.notes.iter().any(|note| note.is_left), "{lines}");
    }
    assert!(!site("protocols tls1.3\nciphers x").text.contains("deny"));
}

#[test]
fn a_field_that_is_not_sent_alike_is_named() {
    for (line, expected) in [
        ("reverse_proxy localhost:9 {\nheader_up X-Real-IP {http.request.header.CF-Connecting-IP}\n}", true),
        ("reverse_proxy localhost:9 {\nheader_up X-Forwarded-Proto {header.X-Forwarded-Proto}\n}", true),
        ("reverse_proxy localhost:9 {\nheader_up +X-Forwarded-For {remote_host}\n}", true),
        ("reverse_proxy localhost:9 {\nheader_up X-Real-IP {remote_host}\n}", false),
        ("reverse_proxy localhost:9 {\nheader_up X-Forwarded-Proto {scheme}\n}", false),
        ("header +X-A b\nheader +X-A c", true),
        ("header {\n+Link b\n+Link c\n}", true),
        ("header +X-A b\nheader +X-B c", false),
        ("header X-A {$A:b}", true),
    ] {
        let imported = imported(&format!("http://a.example {{\nroot * /srv\n{line}\nfile_server\n}}"));
        let is_named = imported.notes.iter().any(|note| {
            let of_line =
                note.source.as_ref().is_some_and(|of| of.text.contains("X-") || of.text.contains("Link"));
            of_line && matches!(note.concerns.of, Of::Everything)
        });
        assert_eq!(is_named, expected, "{line}: {:?}", imported.notes);
    }
}

#[test]
fn a_field_for_answers_without_one_leaves_those_of_other_lines() {
    for (lines, value) in [
        ("header X-A own\nheader ?X-A other", "own"),
        ("header ?X-A other\nheader x-a own", "own"),
        ("header Cache-Control own\nheader ?Cache-Control other", "own"),
        ("header ?X-A other\nheader ?X-A own", "own"),
        ("header ?X-A own", "own"),
    ] {
        let imported = imported(&format!("http://a.example {{\nroot * /srv\n{lines}\nfile_server\n}}"));
        assert!(imported.text.contains(&format!(" = \"{value}\"")), "{lines}: {}", imported.text);
        assert!(!imported.text.contains("\"other\""), "{lines}: {}", imported.text);
    }
    let named = |lines: &str| {
        let imported = imported(&format!("http://a.example {{\n{lines}\nreverse_proxy localhost:9\n}}"));
        imported.notes.iter().any(|note| note.text.contains("the field that a program sends"))
    };
    assert!(named("header ?X-A b"));
    assert!(!named("header X-A b") && !named("header ?X-A b\nheader X-A c"));
}

#[test]
fn a_site_with_an_unknown_scheme_is_left_out() {
    let imported = imported("ftp://a.example {\nrespond a\n}\nhttp://b.example {\nrespond b\n}");
    assert!(!imported.text.contains("body = \"a\""), "{}", imported.text);
    let is_named = |note: &Note| note.is_left && note.text.contains("http, https or no scheme");
    assert!(imported.notes.iter().any(is_named), "{:?}", imported.notes);
}

#[test]
fn networks_of_the_environment_close() {
    let text = imported(
        "http://a.example {\nroot * /srv\n@out not remote_ip {$OFFICE:0.0.0.0/0}\nabort @out\nfile_server\n}",
    );
    assert!(
        !text.text.contains("allow") && text.text.contains("deny = [\"0.0.0.0/0\", \"::/0\"]"),
        "{}",
        text.text
    );
}
