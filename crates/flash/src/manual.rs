//! What is made of the flags besides a run: the short help, the manual page, the shell completions.
//!
//! Nothing here names a flag: [`flags`](crate::flags) is the only source.

use clap::Command;
use clap_complete::Shell;
use flash_cli::print;

use crate::failure::Failure;
use crate::{flags, sibling};

/// The short help, for `flash` alone.
pub(crate) fn print_help() -> Result<(), Failure> {
    print(flags::command().render_help().to_string().as_bytes())
}

/// The page `flash-COMMAND(1)`; without a command, `flash(1)`. A program of its own prints its own page.
pub(crate) fn print_page(command: &[String]) -> Result<(), Failure> {
    match command.split_first() {
        Some((name, below)) if sibling::is_known(name) => sibling::print_page(name, below, &flags::command()),
        _ => print(&page(command)?),
    }
}

pub(crate) fn print_completions(shell: Shell) -> Result<(), Failure> {
    print(completions(shell))
}

fn page(command: &[String]) -> Result<Vec<u8>, Failure> {
    flash_cli::page(flags::command(), command)
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut command: Command = flags::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "flash", &mut script);
    script
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
        let page = String::from_utf8(page(&["serve".to_owned()]).unwrap()).unwrap();
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
        let page = String::from_utf8(page(&[]).unwrap()).unwrap();
        assert!(page.contains(".TH flash 1"));
        for command in ["serve", "man", "completions"] {
            assert!(page.contains(command), "no {command} in\n{page}");
        }
    }

    #[test]
    fn a_page_that_does_not_exist() {
        assert!(matches!(page(&["nonsense".to_owned()]), Err(Failure::Usage(_))));
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
