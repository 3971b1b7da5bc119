//! What is made of the flags besides a run: the short help, the manual page, the shell completions.
//!
//! Nothing here names a flag: [`flags`](crate::flags) is the only source.

use std::io::{self, ErrorKind, Write};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::failure::Failure;
use crate::flags;

/// The short help, for `flash` alone.
pub(crate) fn print_help() -> Result<(), Failure> {
    print(flags::command().render_help().to_string().as_bytes())
}

/// The page `flash-COMMAND(1)`; without a command, `flash(1)`.
pub(crate) fn print_page(command: Option<&str>) -> Result<(), Failure> {
    print(&page(command)?)
}

pub(crate) fn print_completions(shell: Shell) -> Result<(), Failure> {
    print(&completions(shell))
}

fn page(name: Option<&str>) -> Result<Vec<u8>, Failure> {
    let mut flash = flags::command();
    // Build first, so that a subcommand knows its full name: "flash serve", file name "flash-serve".
    flash.build();
    let command = match name {
        None => flash,
        Some(name) => flash
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Failure::Usage(format!("there is no page for '{name}' (see flash --help)")))?,
    };
    Ok(roff(command))
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

fn completions(shell: Shell) -> Vec<u8> {
    let mut command: Command = flags::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "flash", &mut script);
    script
}

/// Writes to standard output. A reader that has seen enough (`flash man | head`) is no failure.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    /// Every visible long flag of `flash serve`, from the same data.
    fn flags() -> Vec<String> {
        let flash = flags::command();
        let serve = flash.find_subcommand("serve").expect("there is flash serve");
        serve.get_arguments().filter_map(|flag| flag.get_long()).map(str::to_owned).collect()
    }

    #[test]
    fn the_page_of_serve_has_every_flag() {
        let page = String::from_utf8(page(Some("serve")).unwrap()).unwrap();
        assert!(page.contains(".TH flash-serve 1"), "{page}");
        for flag in flags() {
            let roff = format!("\\-\\-{}", flag.replace('-', "\\-"));
            assert!(page.contains(&roff), "no {flag} in\n{page}");
        }
        for section in ["SYNOPSIS", "EXAMPLES", "SIGNALS", "\"EXIT CODES\""] {
            assert!(page.contains(&format!(".SH {section}\n")), "no {section} in\n{page}");
        }
    }

    #[test]
    fn the_page_of_flash_names_its_commands() {
        let page = String::from_utf8(page(None).unwrap()).unwrap();
        assert!(page.contains(".TH flash 1"));
        for command in ["serve", "man", "completions"] {
            assert!(page.contains(command), "no {command} in\n{page}");
        }
    }

    #[test]
    fn a_page_that_does_not_exist() {
        assert!(matches!(page(Some("nonsense")), Err(Failure::Usage(_))));
    }

    #[test]
    fn completions_of_every_shell_have_every_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = String::from_utf8(completions(shell)).unwrap();
            for flag in flags() {
                assert!(script.contains(&flag), "no {flag} for {shell}");
            }
        }
        for shell in Shell::value_variants() {
            assert!(!completions(*shell).is_empty(), "{shell}");
        }
    }
}
