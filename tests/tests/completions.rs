//! What a shell offers once it has read `flash completions`.

#![forbid(unsafe_code)]

use std::process::{Command, Stdio};

use flash_tests::program;

/// Reads the completions of bash, and has them complete the last of the words behind `flash`.
const COMPLETE: &str = r#"
source <("$1" completions bash) || exit 1
shift
COMP_WORDS=(flash "$@") COMP_CWORD=$#
complete -p flash | grep -q -- '-F _flash ' || exit 1
_flash flash "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

fn complete(words: &[&str]) -> Vec<String> {
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", COMPLETE, "bash"]).arg(program()).args(words).stderr(Stdio::inherit());
    let output = bash.output().expect("bash starts");
    assert!(output.status.success(), "{words:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("words in UTF-8").lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    assert_eq!(complete(&["rel"]), ["reload"]);
    let flags = complete(&["serve", "--li"]);
    assert!(flags.contains(&"--listen".into()) && flags.contains(&"--list".into()), "{flags:?}");
    assert!(flags.iter().all(|flag| flag.starts_with("--li")), "{flags:?}");
    let architectures = complete(&["serve", "--arch", ""]);
    assert!(
        architectures.contains(&"amped".into()) && architectures.contains(&"mp".into()),
        "{architectures:?}"
    );
    assert_eq!(complete(&["completions", "fi"]), ["fish"]);
}

/// A shell that reads its script without a word, where that shell is installed.
#[test]
fn zsh_and_fish_can_read_theirs() {
    for (shell, check) in [("zsh", "-n"), ("fish", "--no-execute")] {
        let script = Command::new(program()).args(["completions", shell]).output().expect("flash starts");
        assert!(script.status.success() && !script.stdout.is_empty(), "{shell}");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), script.stdout).expect("a script");
        let Ok(read) = Command::new(shell).arg(check).arg(file.path()).output() else {
            println!("NOT TESTED: completions in {shell}, which is not installed");
            continue;
        };
        assert!(
            read.status.success() && read.stderr.is_empty(),
            "{shell}: {}",
            String::from_utf8_lossy(&read.stderr)
        );
    }
}
