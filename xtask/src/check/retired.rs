//! Words that the glossary (docs/glossary.md) has retired. No item and no file may have such a name again, and comments must
//! not contain a few phrases. Each finding says which word to use instead.
//!
//! The rule looks only at names where they are declared. So it ignores other crates' names, and English.

use super::Finding;
use super::source::Source;

/// Types and traits, by the whole name.
const TYPES: [(&str, &str); 47] = [
    ("Birth", "SpawnMethod"),
    ("Chores", "HelperRoles"),
    ("Clerk", "BackgroundThread"),
    ("Crew", "Children, or ClientShard"),
    ("Desk", "PoolState, or MonitorThread"),
    ("Door", "Acceptor, PrivateAddress, or rendezvous"),
    ("Ears", "Reporter"),
    ("Gaps", "Unenforced"),
    ("Gate", "CircuitBreaker"),
    ("Hand", "JobExecutor"),
    ("Hands", "HelperKind"),
    ("Hearing", "Reporter"),
    ("Hears", "Reporter"),
    ("Inbox", "CompletionQueue"),
    ("InTurn", "RoundRobin"),
    ("Keeper", "ProcessMonitor"),
    ("Late", "Deferred"),
    ("Ledger", "Metrics"),
    ("Letter", "Completion, Command, or Message"),
    ("Letterbox", "Channel"),
    ("Limited", "Resource"),
    ("Loan", "ConnectionLease, or ProcessLease"),
    ("Mail", "CommandChannel"),
    ("Mailbox", "mpsc::Queue"),
    ("News", "Readiness"),
    ("Nursery", "SupervisorProcess"),
    ("Own", "LocalCounter"),
    ("Port", "Poller"),
    ("Rarely", "RateLimit"),
    ("Rights", "Privileges"),
    ("Runner", "Worker"),
    ("Seat", "ConnectionPermit"),
    ("Seats", "ConnectionPermits"),
    ("Shelf", "IdleConnections"),
    ("Shop", "TurnContext"),
    ("Staff", "PoolObserver"),
    ("Standing", "WheelSlot"),
    ("Station", "Stage"),
    ("Talker", "UpstreamIo"),
    ("Trouble", "ChildError"),
    ("Visitor", "WaitingConnection"),
    ("Walls", "SandboxState"),
    ("Ward", "ParkedConnections"),
    ("Whereabouts", "HelperHandle"),
    ("Winding", "Draining"),
    ("Wish", "ForkRequest"),
    ("Wording", "RequestTemplate"),
];

/// Functions, modules, and with them files.
const ITEMS: [(&str, &str); 38] = [
    ("admits", "allow"),
    ("bury", "reap"),
    ("catch_up", "run_deferred"),
    ("circumstances", "environment"),
    ("clerk", "background"),
    ("crew", "children, or client_shard"),
    ("culprit", "blocking_call"),
    ("deferral", "tcp"),
    ("desk", "pool_state, or monitor_thread"),
    ("door", "acceptor"),
    ("enrol", "add_helper"),
    ("gate", "circuit_breaker"),
    ("hands", "helper_processes"),
    ("hold_signals", "signals::block_all"),
    ("in_turn", "round_robin"),
    ("inbox", "completion_queue"),
    ("is_quiet", "is_reusable"),
    ("keeper", "process_monitor"),
    ("leave_signals_alone", "signals::ignore_termination"),
    ("ledger", "metrics"),
    ("letterbox", "channel"),
    ("mailbox", "mpsc"),
    ("manners", "variants"),
    ("nursery", "supervisor_process"),
    ("open_account", "loop_metrics"),
    ("pin_program", "mlock_program"),
    ("refuse_huge_pages", "disable_huge_pages"),
    ("rights", "privileges"),
    ("say_rarely", "log_limited"),
    ("seat", "connection_permit"),
    ("shelf", "idle_connections"),
    ("station", "stage"),
    ("strike_off", "remove_helper"),
    ("talker", "upstream_io"),
    ("troupe", "scripted"),
    ("ward", "parked"),
    ("widen_descriptor_table", "grow_descriptor_table"),
    ("wish", "fork_request"),
];

/// In comments, without regard to case.
const PHRASES: [(&str, &str); 8] = [
    ("mailbox", "queue"),
    ("letterbox", "channel"),
    ("the bell", "the eventfd"),
    ("the clerk", "the background thread"),
    ("the keeper", "the process monitor"),
    ("nursery", "supervisor process"),
    ("the ledger", "the metrics"),
    ("turned away at the door", "rejected at the connection limit"),
];

/// Names are checked in these alone: a station of a queueing model is what that field calls it.
const SERVING: [&str; 13] = [
    "crates/flash/",
    "crates/flash-arch/",
    "crates/flash-cgi/",
    "crates/flash-config/",
    "crates/flash-core/",
    "crates/flash-disk/",
    "crates/flash-h2/",
    "crates/flash-http/",
    "crates/flash-observe/",
    "crates/flash-os/",
    "crates/flash-process/",
    "crates/flash-trust/",
    "crates/flash-upstream/",
];
/// This file has to name them.
const SELF: [&str; 2] = ["xtask/src/check/retired.rs", "xtask/src/check/tests.rs"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    if SELF.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let is_serving = SERVING.iter().any(|folder| source.path.starts_with(folder));
    let words = source.path.split('/').flat_map(|part| part.strip_suffix(".rs").or(Some(part)));
    for (old, new) in words.filter(|_| is_serving).filter_map(|word| find(&ITEMS, word)) {
        findings.push(Finding::at(source, 1, retired("a file's name", old, new)));
    }
    for (number, line) in source.numbered() {
        for (old, new) in declared(&line.bare).into_iter().filter(|_| is_serving) {
            findings.push(Finding::at(source, number, retired("a name", old, new)));
        }
        let comment = line.comment.to_lowercase();
        for (old, new) in PHRASES.iter().filter(|(old, _)| has_words(&comment, old)) {
            findings.push(Finding::at(source, number, retired("a phrase", old, new)));
        }
    }
    findings
}

fn retired(what: &str, old: &str, new: &str) -> String {
    format!("`{old}` is {what} that the glossary has retired: use {new}")
}

/// The retired names among those that a line declares.
fn declared(code: &str) -> Vec<(&'static str, &'static str)> {
    let words: Vec<&str> =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    let found = |pair: &[&str]| match pair[0] {
        "struct" | "enum" | "trait" | "type" | "union" => find(&TYPES, pair[1]),
        "fn" | "mod" => find(&ITEMS, pair[1]),
        _ => None,
    };
    words.windows(2).filter_map(found).collect()
}

fn find(list: &[(&'static str, &'static str)], word: &str) -> Option<(&'static str, &'static str)> {
    list.iter().find(|(old, _)| *old == word).copied()
}

/// Whether a text has these words, and not only as parts of longer ones.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(at, _)| {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !is_word(text[..at].chars().next_back()) && !is_word(text[at + words.len()..].chars().next())
    })
}
