//! The programs that answer a workload's dynamic requests, and the tables that they read. They are plain source. A synthetic
//! site gets them compiled, as `cgi-bin/…`, and as `….php`. Their first lines say what they do.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rand::RngExt;

use crate::sample::generator;
use crate::tree::SiteError;

/// By how much a page of the SPECweb99-like mix is longer than the file in it.
pub(crate) const PAGE_BYTES: u64 = 288;
/// Whose personality is known.
pub(crate) const VISITORS: u32 = 10_000;
pub(crate) const ADS: u32 = 360;

/// Name, source, and what the compiler is told beside.
const COMPILED: [(&str, &str, &[&str]); 3] = [
    ("specweb99", include_str!("../programs/specweb99.c"), &[]),
    ("answer", include_str!("../programs/answer.c"), &[]),
    ("bare", include_str!("../programs/bare.c"), &["-nostartfiles", "-static", "-fno-stack-protector"]),
];
const SCRIPTS: [(&str, &str); 2] = [
    ("specweb99.php", include_str!("../programs/specweb99.php")),
    ("answer.php", include_str!("../programs/answer.php")),
];

/// Puts programs and tables into a site.
pub(crate) fn install(folder: &Path, seed: u64) -> Result<(), SiteError> {
    let cgi = folder.join("cgi-bin");
    let tables = folder.join("specweb99");
    for folder in [&cgi, &tables] {
        tried(folder, fs::create_dir_all(folder))?;
    }
    for (name, source, flags) in COMPILED {
        compile(&cgi.join(name), source, flags)?;
    }
    let (visitors, ads) = tables_of(seed);
    let texts = SCRIPTS.map(|(name, text)| (folder.join(name), text.to_owned()));
    let tables_too = [(tables.join("User.Personality"), visitors), (tables.join("Custom.Ads"), ads)];
    for (path, text) in texts.into_iter().chain(tables_too) {
        tried(&path, fs::write(&path, text))?;
    }
    // Whoever answers is another user than he who makes the site, as a rule, and adds to it.
    let log = tables.join("Post.Log");
    tried(&log, fs::write(&log, "").and_then(|()| fs::set_permissions(&log, Permissions::from_mode(0o666))))
}

fn tried(path: &Path, done: io::Result<()>) -> Result<(), SiteError> {
    done.map_err(|source| SiteError::Write { path: path.into(), source })
}

/// Compiled beside and moved into place: one that runs at the moment cannot be written to.
fn compile(path: &Path, source: &str, flags: &[&str]) -> Result<(), SiteError> {
    let (text, fresh) = (path.with_extension("c"), path.with_extension("new"));
    tried(&text, fs::write(&text, source))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O2", "-Wall"]).args(flags).arg("-o").args([&fresh, &text]);
    let ran = compiler.output();
    let why = match ran {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            Some(String::from_utf8_lossy(&output.stderr).lines().take(3).collect::<Vec<_>>().join(" / "))
        }
        Err(error) => Some(format!("{error} (Debian's package gcc has it)")),
    };
    // Sources are not for visitors.
    tried(&text, fs::remove_file(&text))?;
    match why {
        Some(why) => Err(SiteError::Compile { path: path.into(), why }),
        None => tried(path, fs::rename(&fresh, path)),
    }
}

/// What visitors like, and what advertisements want of them: a bit for each interest, and how many must be common.
fn tables_of(seed: u64) -> (String, String) {
    let mut random = generator(seed, 0);
    let visitors = (0..VISITORS).map(|visitor| format!("{visitor:>6} {:08X}\n", random.random::<u32>()));
    let visitors = visitors.collect();
    let ads = (0..ADS).map(|ad| {
        let (wants, least) = (random.random::<u32>(), random.random_range(6..=10));
        format!("{ad:>6} {wants:08X} {least:>2} {:>12}\n", "")
    });
    (visitors, ads.collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Stdio;

    use super::*;
    use crate::content::Content;
    use crate::specweb::dynamic::Dynamic;
    use crate::specweb::{Sessions, SpecWeb};
    use crate::tree::{Progress, make_site};
    use crate::workload::Workload;

    struct Site(tempfile::TempDir);

    impl Site {
        fn make() -> Site {
            let folder = tempfile::tempdir().unwrap();
            let mix = Dynamic::new(SpecWeb::new(1, Sessions::Fixed(1)).unwrap(), None).unwrap();
            let made = make_site(folder.path(), mix.catalogue(), 3, "a test", &Progress::default());
            assert_eq!(made.unwrap().written, 36);
            Site(folder)
        }

        /// What a program says under these variables: its head's lines, and the body.
        fn run(&self, words: &[&str], variables: &[(&str, &str)], stdin: &str) -> (Vec<String>, Vec<u8>) {
            let root = self.0.path();
            let mut command = Command::new(words[0]);
            command.args(&words[1..]).current_dir(root).env_clear().env("PATH", "/usr/bin:/bin");
            command.env("DOCUMENT_ROOT", root).envs(variables.iter().copied());
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
            let said = child.wait_with_output().unwrap().stdout;
            let end = said.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            let head = String::from_utf8(said[..end].to_vec()).unwrap();
            (head.lines().map(str::to_owned).collect(), said[end + 4..].to_vec())
        }
    }

    fn is_page_of(body: &[u8], target: &str, bytes: u64) {
        assert_eq!(body.len() as u64, PAGE_BYTES + bytes);
        let from = body.windows(6).position(|six| six == b"<pre>\n").unwrap() + 6;
        assert_eq!(Content::new(3, target).first_difference(0, &body[from..from + bytes as usize]), None);
    }

    /// The same questions for every program that knows the mix.
    fn answers_the_mix(site: &Site, words: &[&str], more: &[(&str, &str)]) {
        let run = |variables: &[(&str, &str)], stdin: &str| {
            let all: Vec<_> = [more, variables].concat();
            site.run(words, &all, stdin)
        };
        let has = |head: &[String], start: &str| head.iter().any(|line| line.starts_with(start));
        let file = "/file_set/dir00000/class1_3";
        let get = [("REQUEST_METHOD", "GET"), ("QUERY_STRING", file), ("SERVER_SOFTWARE", "<me>")];
        let (head, body) = run(&get, "");
        is_page_of(&body, file, 3_072);
        assert!(has(&head, &format!("Content-Length: {}", body.len())), "{head:?}");
        assert!(body.windows(4).any(|four| four == b"_me_"));

        let ad = |visitor: u32, last: u32| -> i32 {
            let cookie = format!("my_cookie=user_id={visitor}&last_ad={last}");
            let (head, body) = run(&[&get[..], &[("HTTP_COOKIE", &cookie)]].concat(), "");
            is_page_of(&body, file, 3_072);
            let found = head.iter().find_map(|line| line.strip_prefix("Set-Cookie: found_cookie=Ad_id="));
            found.unwrap_or_else(|| panic!("{head:?}")).parse().unwrap()
        };
        let ads = [ad(7, 0), ad(7, 100), ad(9_999, 359), ad(10_000, 0)];
        assert!(ads[0] != ads[1] && ads[2] >= 0 && ads[3] == -1, "{ads:?}");

        let form = "urlroot=/file_set/&dir=00000&class=2&num=9&client=77";
        let length = form.len().to_string();
        let post = [("REQUEST_METHOD", "POST"), ("CONTENT_LENGTH", &*length), ("CONTENT_TYPE", "text/plain")];
        let log = || fs::read_to_string(site.0.path().join("specweb99/Post.Log")).unwrap();
        let before = log().lines().count();
        let (head, body) = run(&post, form);
        is_page_of(&body, "/file_set/dir00000/class2_9", 92_160);
        assert!(has(&head, "Set-Cookie: my_cookie="), "{head:?}");
        assert_eq!(log().lines().count(), before + 1);
        assert!(log().lines().last().unwrap().contains(" 00000 2 9         77 /file_set/"), "{}", log());

        for wrong in
            ["", "/etc/passwd", "/file_set/dir00000/class1_3/../class1_3", "/file_set/dir00009/class1_3"]
        {
            let (head, _) = run(&[("REQUEST_METHOD", "GET"), ("QUERY_STRING", wrong)], "");
            assert!(has(&head, "Status: 404"), "{wrong}: {head:?}");
        }
        let (head, _) = run(&post, &"x".repeat(form.len()));
        assert!(has(&head, "Status: 400"), "{head:?}");
    }

    #[test]
    fn the_compiled_program_answers_the_mix() {
        let site = Site::make();
        let program = site.0.path().join("cgi-bin/specweb99");
        answers_the_mix(&site, &[program.to_str().unwrap()], &[]);
        assert!(!site.0.path().join("cgi-bin/specweb99.c").exists());
    }

    #[test]
    fn the_script_answers_the_mix() {
        if Command::new("php-cgi").arg("-v").output().is_err() {
            eprintln!("NOT TESTED: there is no php-cgi (Debian's package php-cgi has it)");
            return;
        }
        let site = Site::make();
        let script = site.0.path().join("specweb99.php");
        let script = script.to_str().unwrap();
        let more = [("SCRIPT_FILENAME", script), ("REDIRECT_STATUS", "200")];
        answers_the_mix(&site, &["php-cgi", "-n"], &more);
    }

    #[test]
    fn the_least_program_does_what_it_is_told() {
        let site = Site::make();
        let answer = site.0.path().join("cgi-bin/answer");
        let run = |query: &str, length: &str, stdin: &str| {
            let variables = [("QUERY_STRING", query), ("CONTENT_LENGTH", length)];
            let (head, body) = site.run(&[answer.to_str().unwrap()], &variables, stdin);
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head:?}");
            body
        };
        assert_eq!(run("", "", ""), b"hello\n");
        assert_eq!(run("", "0", ""), b"hello\n");
        assert_eq!(run("bytes=100000", "", "").len(), 100_000);
        assert_eq!(run("sleep=1", "", ""), b"hello\n");
        assert_eq!(run("spin=1", "", ""), b"hello\n");
        assert_eq!(run("", "5", "12345"), b"                   5\n");
        let (head, body) = site.run(&[site.0.path().join("cgi-bin/bare").to_str().unwrap()], &[], "");
        assert_eq!((head[1].as_str(), &*body), ("Content-Length: 6", &b"hello\n"[..]));
    }
}
