//! Cache-Control by rules.

#![forbid(unsafe_code)]

use std::fs;

use flash_tests::{ARCHITECTURES, Server, site};

#[test]
fn each_file_has_the_value_of_the_first_rule_that_covers_it() {
    let site = site::make();
    fs::create_dir(site.path().join("assets")).unwrap();
    for name in ["assets/app.js", "main.js", "main.js.gz", "assetsx.txt"] {
        site::write(&site.path().join(name), b"text");
    }
    // The value without a rule comes last, wherever it stands.
    let rules = ["max-age=60", "*.html=no-cache", "/assets/=max-age=31536000, immutable", "*.js=max-age=600"];
    let flags: Vec<&str> = rules.iter().flat_map(|rule| ["--cache-control", rule]).collect();
    for arch in ARCHITECTURES {
        for experiment in [&[][..], &["--header-cache", "off"]] {
            let server = Server::start(arch, site.path(), &[&flags[..], experiment].concat());
            for (path, value) in [
                ("/assets/app.js", "max-age=31536000, immutable"),
                ("/main.js", "max-age=600"),
                ("/", "no-cache"),
                ("/page.html", "no-cache"),
                ("/a.txt", "max-age=60"),
                ("/assetsx.txt", "max-age=60"),
                ("/3000000.bin", "max-age=60"),
            ] {
                for _ in 0..2 {
                    assert_eq!(server.get(path).field("Cache-Control"), Some(value), "{arch} {path}");
                }
            }
            assert_eq!(server.get("/none").field("Cache-Control"), None, "{arch}");
            server.stop();
        }
    }
}
