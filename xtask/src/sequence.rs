//! `cargo xtask figures`: sequence diagrams, SVG made from text. `docs/NAME.txt` becomes `docs/NAME.svg`. The format is
//! described in the first lines of such a file. Figures of measurements are the lab's business.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// One line of the text.
#[derive(Debug, PartialEq)]
enum Step {
    Part(String),
    Note { at: usize, text: String },
    Message { from: usize, to: usize, text: String, is_answer: bool },
}

#[derive(Debug, PartialEq)]
struct Sequence {
    actors: Vec<String>,
    steps: Vec<Step>,
}

const LANE_PX: usize = 165;
const MARGIN_PX: usize = 85;
const ROW_PX: usize = 30;
const TOP_PX: usize = 56;

/// Draws every diagram anew.
pub(crate) fn run(root: &Path) -> Result<bool> {
    for (text, svg) in files(root)? {
        fs::write(&svg, draw(&text)?).with_context(|| format!("writing {}", svg.display()))?;
        println!("{}", svg.display());
    }
    Ok(true)
}

/// Diagrams whose picture is not what their text says.
pub(crate) fn stale(root: &Path) -> Result<Vec<PathBuf>> {
    let mut stale = Vec::new();
    for (text, svg) in files(root)? {
        let drawn = draw(&text)?;
        if fs::read_to_string(&svg).ok().as_ref() != Some(&drawn) {
            stale.push(text);
        }
    }
    Ok(stale)
}

/// Each text with its picture.
fn files(root: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let entries = fs::read_dir(root.join("docs")).context("reading docs")?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut texts: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|found| found == "txt")).collect();
    texts.sort();
    Ok(texts.into_iter().map(|text| (text.clone(), text.with_extension("svg"))).collect())
}

fn draw(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(svg(&parse(&text).with_context(|| path.display().to_string())?))
}

fn parse(text: &str) -> Result<Sequence> {
    let mut sequence = Sequence { actors: Vec::new(), steps: Vec::new() };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let step = parse_line(line, &mut sequence.actors).with_context(|| format!("line {}", index + 1))?;
        sequence.steps.extend(step);
    }
    ensure!(!sequence.actors.is_empty(), "no line begins with \"actors:\"");
    Ok(sequence)
}

fn parse_line(line: &str, actors: &mut Vec<String>) -> Result<Option<Step>> {
    if let Some(part) = line.strip_prefix("==").and_then(|rest| rest.strip_suffix("==")) {
        return Ok(Some(Step::Part(part.trim().to_owned())));
    }
    let Some((head, text)) = line.split_once(": ") else { bail!("no colon: {line}") };
    if head == "actors" {
        *actors = text.split('|').map(|actor| actor.trim().to_owned()).collect();
        return Ok(None);
    }
    let find = |name: &str| {
        let name = name.trim();
        actors.iter().position(|actor| actor == name).with_context(|| format!("no such actor: {name}"))
    };
    let text = text.to_owned();
    let (ends, is_answer) = match head.split_once("-->") {
        Some(ends) => (Some(ends), true),
        None => (head.split_once("->"), false),
    };
    Ok(Some(match ends {
        Some((from, to)) => Step::Message { from: find(from)?, to: find(to)?, text, is_answer },
        None => Step::Note { at: find(head)?, text },
    }))
}

fn svg(sequence: &Sequence) -> String {
    let width = 2 * MARGIN_PX + LANE_PX * (sequence.actors.len() - 1);
    let height = TOP_PX + ROW_PX * (sequence.steps.len() + 1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n{STYLE}"
    );
    for (index, actor) in sequence.actors.iter().enumerate() {
        let x = lane(index);
        let _ = writeln!(
            svg,
            "<line class=\"lane\" x1=\"{x}\" y1=\"40\" x2=\"{x}\" y2=\"{height}\"/>\n\
             <rect class=\"actor\" x=\"{}\" y=\"8\" width=\"130\" height=\"32\" rx=\"6\"/>\n\
             <text class=\"name\" x=\"{x}\" y=\"28\">{}</text>",
            x - 65,
            escape(actor),
        );
    }
    for (index, step) in sequence.steps.iter().enumerate() {
        put(&mut svg, step, TOP_PX + ROW_PX * (index + 1), width);
    }
    svg.push_str("</svg>\n");
    svg
}

fn put(svg: &mut String, step: &Step, y: usize, width: usize) {
    // Writing to a string cannot fail.
    let _ = match step {
        Step::Part(text) => writeln!(
            svg,
            "<line class=\"part\" x1=\"8\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/>\n\
             <text class=\"title\" x=\"8\" y=\"{2}\">{3}</text>",
            y - 20,
            width - 8,
            y - 4,
            escape(text),
        ),
        Step::Note { at, text } => writeln!(
            svg,
            "<circle class=\"note\" cx=\"{x}\" cy=\"{cy}\" r=\"4\"/>\n\
             <text class=\"halo\" x=\"{left}\" y=\"{y}\">{text}</text>",
            x = lane(*at),
            cy = y - 4,
            left = lane(*at) + 10,
            text = escape(text),
        ),
        Step::Message { from, to, text, is_answer } => {
            let (start, end) = (lane(*from), lane(*to));
            let (tip, back) = if end > start { (end - 2, end - 10) } else { (end + 2, end + 10) };
            writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{start}\" y1=\"{y}\" x2=\"{tip}\" y2=\"{y}\"/>\n\
                 <path class=\"tip\" d=\"M{tip} {y}L{back} {up}V{down}Z\"/>\n\
                 <text class=\"halo\" x=\"{left}\" y=\"{above}\">{text}</text>",
                class = if *is_answer { "answer" } else { "call" },
                up = y - 4,
                down = y + 4,
                left = start.min(end) + 12,
                above = y - 6,
                text = escape(text),
            )
        }
    };
}

fn lane(index: usize) -> usize {
    MARGIN_PX + LANE_PX * index
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const STYLE: &str = "<style>
svg{background:#fff;color:#1b1f24}
text{fill:#1b1f24}
.name{text-anchor:middle;font-weight:600}
.title{font-weight:600}
.halo{paint-order:stroke;stroke:#fff;stroke-width:4px}
.actor{fill:#eef3f8;stroke:#8899aa}
.lane{stroke:#c5ced8;stroke-dasharray:3 4}
.part{stroke:#8899aa}
.call{stroke:#1b4f8a;stroke-width:1.5}
.answer{stroke:#1b4f8a;stroke-width:1.5;stroke-dasharray:5 3}
.tip,.note{fill:#1b4f8a}
@media(prefers-color-scheme:dark){svg{background:#14181d}text{fill:#e6e9ed}.halo{stroke:#14181d}
.actor{fill:#1f2731;stroke:#5b6b7c}.lane{stroke:#3a4654}.call,.answer{stroke:#7db4f0}.tip,.note{fill:#7db4f0}}
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# a comment\nactors: A | B b\n\n== part ==\nA -> B b: go & <see>\nB b --> A: done\nB b: rests\n";

    #[test]
    fn lines_become_steps() {
        let sequence = parse(TEXT).unwrap();
        assert_eq!(sequence.actors, ["A", "B b"]);
        let message =
            |from, to, text: &str, is_answer| Step::Message { from, to, text: text.into(), is_answer };
        let expected = [
            Step::Part("part".into()),
            message(0, 1, "go & <see>", false),
            message(1, 0, "done", true),
            Step::Note { at: 1, text: "rests".into() },
        ];
        assert_eq!(sequence.steps, expected);
    }

    #[test]
    fn what_cannot_be_drawn_is_named() {
        for (text, why) in [
            ("", "no line begins"),
            ("actors: A\nA -> C: x", "line 2: no such actor: C"),
            ("actors: A\nnothing", "line 2: no colon"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn text_is_escaped_and_every_step_is_drawn() {
        let svg = svg(&parse(TEXT).unwrap());
        assert!(svg.contains("go &amp; &lt;see&gt;") && svg.contains("rests"));
        assert_eq!(svg.matches("class=\"tip\"").count(), 2);
    }
}
