//! Each example of docs/from-nginx.md is a right configuration file.

#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::process::Command;

use flash_tests::{program, site};

/// The examples of the page, and the line on which each begins.
fn examples(page: &str) -> Vec<(usize, String)> {
    let mut examples = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line == "```toml" {
            let text = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```");
            examples.push((number + 2, text.map(|line| format!("{line}\n")).collect()));
        }
    }
    examples
}

/// Makes the folders that an example names below `/srv`, with the files that fallbacks need.
fn make_folders(example: &str, srv: &Path) {
    for name in example.split('"').filter_map(|text| text.strip_prefix("/srv/")) {
        let folder = srv.join(name);
        fs::create_dir_all(&folder).expect("a folder");
        for file in ["index.php", "index.html"] {
            site::write(&folder.join(file), b"found");
        }
    }
}

#[test]
fn each_example_is_checked() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/from-nginx.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let examples = examples(&page);
    assert!(examples.len() >= 5, "{}", examples.len());
    for (line, example) in examples {
        let folder = tempfile::tempdir().expect("a temporary folder");
        make_folders(&example, &folder.path().join("srv"));
        let path = folder.path().join("flash.toml");
        let text = example.replace("\"/srv/", &format!("\"{}/srv/", folder.path().display()));
        fs::write(&path, text).expect("the file is written");
        let output =
            Command::new(program()).args(["check", "--config"]).arg(&path).output().expect("flash runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "the example at line {line} of docs/from-nginx.md:\n{said}");
    }
}

/// The page names the directives that people use most, once in a table or an example.
#[test]
fn the_page_has_the_directives_that_people_use_most() {
    let page = include_str!("../../docs/from-nginx.md");
    for directive in [
        "listen",
        "server_name",
        "location",
        "root",
        "alias",
        "index",
        "try_files",
        "return",
        "rewrite",
        "if",
        "add_header",
        "expires",
        "autoindex",
        "error_page",
        "charset",
        "types",
        "client_max_body_size",
        "limit_except",
        "deny",
        "allow",
        "auth_basic",
        "limit_req",
        "limit_conn",
        "limit_rate",
        "secure_link",
        "gzip",
        "gzip_static",
        "fastcgi_pass",
        "fastcgi_param",
        "fastcgi_index",
        "fastcgi_read_timeout",
        "proxy_pass",
        "access_log",
        "error_log",
        "log_format",
        "include",
        "user",
        "worker_processes",
        "worker_connections",
        "keepalive_timeout",
        "sendfile",
        "set_real_ip_from",
        "ssl_certificate",
        "server_tokens",
    ] {
        let is_named = page
            .split('`')
            .skip(1)
            .step_by(2)
            .any(|code| code.split([' ', ',']).any(|word| word == directive));
        assert!(is_named, "{directive} is not on the page");
    }
}
