//! The report of made-up runs of every plan, as a browser shows it on a phone and on a desk, light and dark.
//!
//! It stays in the target folder with pictures of it (`tmp/report*`).

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

use flash_lab::plan::{Check, Extent, Plan, Term, built_in};
use flash_lab::record::{Figures, Machine, Measured, Measurement, Missing, Outcome, Run, Store};
use flash_lab::report::report;

const REDUCED: &str = "no memory limit of 1 <MB>";
const ODD: &str = "a <b> & \"c\"";

/// Every figure that a plan draws or asks about.
fn figures(plan: &Plan) -> Vec<String> {
    let of = |term: &Term| term.figure.clone();
    let mut names: Vec<String> = plan.figures.iter().map(|drawing| drawing.y.clone()).collect();
    for finding in &plan.findings {
        match &finding.check {
            Check::Ratio { figure, of: a, to: b, .. } | Check::Crossing { figure, of: a, to: b, .. } => {
                names.extend([a, b].into_iter().filter_map(of).chain([figure.clone()]));
            }
            Check::Value { figure, .. }
            | Check::Rank { figure, .. }
            | Check::Change { figure, .. }
            | Check::Steady { figure, .. } => names.push(figure.clone()),
        }
    }
    names
}

/// Writes a run of a plan whose numbers differ by server, place and repeat.
fn made_up(out: &Path, name: &str, text: &str, extent: Extent) {
    let plan = Plan::parse(name, text).expect("a plan that comes along");
    let servers: Vec<&str> = plan.servers(extent).map(|entry| entry.name()).collect();
    let measured =
        servers.iter().map(|name| Measured { name: (*name).to_owned(), version: Some("1.2.3".into()) });
    let mut store = Store::new(out, &plan.name);
    let run = Run {
        plan: plan.name.clone(),
        plan_text: text.to_owned(),
        extent,
        seed: 1999,
        began_unix: 1_790_000_000,
        machine: Machine {
            processor: "Example Processor 9000".into(),
            processors: 2,
            memory_mb: 8192,
            kernel: "Linux 6.1.0".into(),
            disk: "virtio, ext4".into(),
            lab: "0.1.0".into(),
            commit: Some("0123456789ab".into()),
        },
        servers: measured.collect(),
        missing: vec![Missing { name: ODD.into(), why: "is not installed".into() }],
        notes: vec!["The site is made up: a log is missing.".into()],
        commands: vec!["flash lab run 'my <plan>.toml' --servers amped".into()],
        reduced: vec![REDUCED.into()],
    };
    store.begin(&run).expect("records can be written");
    let names = figures(&plan);
    for repeat in 0..plan.repeats(extent) {
        for (place, x) in plan.places(extent).into_iter().enumerate() {
            for (turn, server) in servers.iter().enumerate() {
                let number = |name: &String| {
                    let wave = ((turn * 7 + place * 3 + name.len()) % 11) as f64;
                    (300.0 + 40.0 * wave) * (1.0 + place as f64) * (1.0 + 0.03 * f64::from(repeat))
                };
                let figures = Figures {
                    figures: names.iter().map(|name| (name.clone(), number(name))).collect(),
                    distributions: names
                        .iter()
                        .map(|name| {
                            (
                                name.clone(),
                                (1..40u32)
                                    .map(|n| (f64::from(n) * number(name) / 100.0, u64::from(40 - n)))
                                    .collect(),
                            )
                        })
                        .collect(),
                    ..Figures::default()
                };
                let broken = turn == 1 && repeat == 0 && place == 0;
                let outcome = if broken {
                    Outcome::Failed("it did not begin to listen".into())
                } else {
                    Outcome::Done(figures)
                };
                let measurement = Measurement {
                    server: (*server).to_owned(),
                    x: x.clone(),
                    repeat,
                    turn: turn as u32,
                    began_unix: 1_790_000_000,
                    took_seconds: 1.0,
                    outcome,
                };
                store.add(&measurement).expect("records can be written");
            }
        }
    }
}

fn sample(out: &Path) -> String {
    for (nth, plan) in built_in().iter().enumerate() {
        made_up(out, plan.name, plan.text, if nth % 4 == 3 { Extent::Quick } else { Extent::Full });
    }
    report(out).expect("a report")
}

#[test]
fn the_page_says_everything_and_asks_for_nothing() {
    let out = tempfile::tempdir().unwrap();
    let wrong = report(out.path()).expect_err("nothing was run").to_string();
    assert!(wrong.contains("no plan has been run there"), "{wrong}");
    let page = sample(out.path());
    for plan in built_in() {
        let parsed = Plan::parse(plan.name, plan.text).unwrap();
        assert!(page.contains(&format!("<section id=\"{}\"", plan.name)), "{}", plan.name);
        assert!(page.contains(&format!("href=\"#{}\"", plan.name)), "{}", plan.name);
        for drawing in &parsed.figures {
            assert!(
                page.matches("<svg").count() >= 2 && page.contains(&escaped(&drawing.title)),
                "{}",
                drawing.title
            );
        }
        for finding in &parsed.findings {
            assert!(page.matches(&escaped(&finding.claim)).count() >= 2, "{}", finding.claim);
        }
    }
    assert!(page.contains("a &lt;b&gt; &amp; &quot;c&quot;") && !page.contains(ODD));
    for word in ["<script", "<link", "<img", "url(", "@import", "http://", "https://", "NaN"] {
        assert!(!page.contains(word), "the page has {word}");
    }
    for word in [
        "it did not begin to listen",
        "is not installed",
        "Linux 6.1.0",
        "0123456789ab",
        "flash lab run 'my &lt;plan&gt;.toml' --servers amped",
        "seed 1999",
        "1.2.3",
    ] {
        assert!(page.contains(word), "the page lacks {word}");
    }
    let broken = out.path().join("hot-cold/run.json");
    std::fs::write(&broken, "{").unwrap();
    let wrong = report(out.path()).expect_err("a broken record").to_string();
    assert!(wrong.contains("run.json"), "{wrong}");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Counts what is drawn and what sticks out, from around a frame as wide as the screen in question.
const LOOK: &str = r#"<!doctype html><body style="margin:0"><iframe src="report.html" style="border:0;width:WIDEpx;height:HIGHpx"
onload="let d = this.contentDocument, out = [];
for (let e of d.querySelectorAll('body *')) if (!e.closest('.scroll') && !e.closest('svg') && e.getBoundingClientRect().right > WIDE + 0.5) out.push(e.tagName);
let shown = [...d.querySelectorAll('figure svg')].filter(s => s.getBoundingClientRect().height > 60);
let small = shown.flatMap(s => [...s.querySelectorAll('text')]).filter(t => t.getBoundingClientRect().height < 9);
document.title = 'wide ' + d.documentElement.scrollWidth + ', figures ' + shown.length + ', small ' + small.length + ', out ' + out.join(' ') + '.'"></iframe>"#;

#[test]
fn a_browser_shows_it_on_phone_and_desk() {
    if Command::new("chromium").arg("--version").output().is_err() {
        eprintln!("NOT CHECKED: chromium is not installed, so no browser looks at the report");
        return;
    }
    let records = tempfile::tempdir().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("report.html"), sample(records.path())).unwrap();
    let drawings: usize =
        built_in().iter().map(|plan| Plan::parse(plan.name, plan.text).unwrap().figures.len()).sum();
    for (wide, high) in [(360, 3000), (1280, 2400)] {
        let look = folder.join("report-look.html");
        let text = LOOK.replace("WIDE", &wide.to_string()).replace("HIGH", &high.to_string());
        std::fs::write(&look, text).unwrap();
        let seen = browser(records.path(), &look, &["--dump-dom".into()]);
        let expected = format!("<title>wide {wide}, figures {drawings}, small 0, out .</title>");
        assert!(
            seen.contains(&expected),
            "at {wide} px: expected {expected}, got {}",
            seen.chars().take(600).collect::<String>()
        );
        for (scheme, name) in [(1, "light"), (0, "dark")] {
            let picture = folder.join(format!("report-{wide}-{name}.png"));
            let _ = std::fs::remove_file(&picture);
            let flags = [
                format!("--blink-settings=preferredColorScheme={scheme}"),
                format!("--window-size={wide},{high}"),
                format!("--screenshot={}", picture.display()),
            ];
            browser(records.path(), &look, &flags);
            assert!(std::fs::metadata(&picture).expect("a picture").len() > 50_000, "{}", picture.display());
        }
    }
}

fn browser(folder: &Path, page: &Path, flags: &[String]) -> String {
    let output = Command::new("timeout")
        .args(["120", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--allow-file-access-from-files", "--virtual-time-budget=20000", "--timeout=60000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(flags)
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
