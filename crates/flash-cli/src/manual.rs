//! Manual pages, made of the same data as the parser and the help.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::Failure;

/// The page of a program, or of the command of it that `names` lead to: `flash-lab(1)`, `flash-lab-run(1)`.
pub fn page(mut program: Command, names: &[String]) -> Result<Vec<u8>, Failure> {
    let name = program.get_bin_name().unwrap_or(program.get_name()).to_owned();
    // Build first, so that a command knows its full name: "flash lab run".
    program.build();
    let mut command = &program;
    for word in names {
        command = command.find_subcommand(word).ok_or_else(|| {
            Failure::Usage(format!("there is no page for '{}' (see {name} --help)", word.escape_debug()))
        })?;
    }
    // A page is called as its file is, and so are those of the commands below.
    let file_name = [&[name], names].concat().join(" ").replace(' ', "-");
    Ok(roff(command.clone().display_name(file_name)))
}

fn roff(mut command: Command) -> Vec<u8> {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let epilogue = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let has_commands = command.has_subcommands();
    let page = Man::new(command).source(concat!("flash ", env!("CARGO_PKG_VERSION")));

    let mut text = Vec::new();
    let written = page
        .render_title(&mut text)
        .and_then(|()| page.render_name_section(&mut text))
        // Not clap_mangen's synopsis, which spells every flag out.
        .and_then(|()| Roff::new().control("SH", ["SYNOPSIS"]).text([roman(usage)]).to_writer(&mut text))
        .and_then(|()| page.render_description_section(&mut text))
        .and_then(|()| page.render_options_section(&mut text))
        .and_then(|()| if has_commands { page.render_subcommands_section(&mut text) } else { Ok(()) })
        .and_then(|()| sections(&epilogue.unwrap_or_default()).to_writer(&mut text));
    written.expect("writing to a Vec cannot fail");
    text
}

/// What follows the flags in the long help: paragraphs with a title become sections, their lines as they are.
fn sections(epilogue: &str) -> Roff {
    let mut roff = Roff::new();
    for paragraph in epilogue.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        match paragraph.split_once(":\n") {
            None => roff.control("SH", ["NOTES"]).text([roman(paragraph)]),
            Some((title, lines)) => {
                roff.control("SH", [title.to_uppercase().as_str()]).control("nf", []);
                lines.lines().for_each(|line| _ = roff.text([roman(line)]));
                roff.control("fi", [])
            }
        };
    }
    roff
}
