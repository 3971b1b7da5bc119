//! A log daemon: where it listens, and what a message to it looks like.
//!
//! A daemon of this machine takes what the C library's `syslog()` sends: RFC 3164 without the host's name. The time is left out,
//! because such daemons put their own (RFC 3164 §4.3.2). Over UDP goes RFC 5424, which says year, zone and host. journald
//! has a protocol of its own. Sockets are not known here.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::date::Utc;

/// Where the daemon listens, and how its messages are marked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogDaemon {
    pub(super) address: Address,
    /// RFC 5424 §6.2.1, both.
    facility: u8,
    severity: u8,
    /// The program's name.
    tag: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Address {
    SyslogUnix(PathBuf),
    /// A host with its port.
    SyslogUdp(String),
    Journald(PathBuf),
}

/// How urgent a log's lines are, if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Warning = 4,
    Info = 6,
}

/// The process that sends the messages.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) pid: u32,
    pub(super) host: String,
}

const JOURNALD: &str = "/run/systemd/journal/socket";
const TAG_BYTES_MAX: usize = 32;
const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "error", "warning", "notice", "info", "debug"];
/// By their numbers. Those between 11 and 16 have no names that all daemons know.
const FACILITIES: [(&str, u8); 20] = [
    ("kern", 0),
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("syslog", 5),
    ("lpr", 6),
    ("news", 7),
    ("uucp", 8),
    ("cron", 9),
    ("authpriv", 10),
    ("ftp", 11),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];
const DAEMON: u8 = 3;

impl LogDaemon {
    /// Whether a log's place is a daemon and no file.
    pub fn is_named_by(text: &str) -> bool {
        text.starts_with("syslog:")
            || text == "journald"
            || text.starts_with("journald:")
            || text.starts_with("journald,")
    }

    /// `syslog:unix:PATH`, `syslog:udp:HOST:PORT`, `journald` or `journald:unix:PATH`. Behind it may stand `,facility=`,
    /// `,severity=` and `,tag=`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, severity: Severity) -> Result<LogDaemon, String> {
        let mut parts = text.split(',');
        let place = parts.next().unwrap_or_default();
        let address = match place.split(':').collect::<Vec<_>>()[..] {
            ["syslog", "unix", path] if !path.is_empty() => Address::SyslogUnix(path.into()),
            ["syslog", "udp", .., port] if port.parse::<u16>().is_ok_and(|port| port > 0) => {
                Address::SyslogUdp(place["syslog:udp:".len()..].to_owned())
            }
            ["journald"] => Address::Journald(JOURNALD.into()),
            ["journald", "unix", path] if !path.is_empty() => Address::Journald(path.into()),
            _ => return Err("write syslog:unix:PATH, syslog:udp:HOST:PORT or journald".into()),
        };
        let mut daemon =
            LogDaemon { address, facility: DAEMON, severity: severity as u8, tag: "flash".to_owned() };
        for option in parts {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "facility" => daemon.facility = facility(value)?,
                "severity" => daemon.severity = self::severity(value)?,
                "tag" if is_tag(value) => daemon.tag = value.to_owned(),
                "tag" => {
                    return Err(format!(
                        "a tag has up to {TAG_BYTES_MAX} letters, digits, dots, dashes and underscores"
                    ));
                }
                _ => return Err(format!("{option} is none of facility=, severity= and tag=")),
            }
        }
        Ok(daemon)
    }

    /// The same, where a relative path begins at this folder.
    pub(super) fn below(&self, folder: &Path) -> Self {
        let address = match &self.address {
            Address::SyslogUnix(path) => Address::SyslogUnix(folder.join(path)),
            Address::SyslogUdp(host) => Address::SyslogUdp(host.clone()),
            Address::Journald(path) => Address::Journald(folder.join(path)),
        };
        Self { address, ..self.clone() }
    }

    /// The message for one line.
    pub(super) fn message(&self, sender: &Sender, line: &[u8], message: &mut Vec<u8>) {
        // The error log's own mark. The tag stands in its place.
        let line = line.strip_prefix(b"flash: ").unwrap_or(line);
        message.clear();
        let priority = self.facility << 3 | self.severity;
        let (tag, Sender { pid, host }) = (&self.tag, sender);
        let written = match &self.address {
            Address::SyslogUnix(_) => write!(message, "<{priority}>{tag}[{pid}]: "),
            Address::SyslogUdp(_) => {
                // RFC 5424 §6.
                write!(message, "<{priority}>1 {} {host} {tag} {pid} - - ", Utc::now().rfc3339())
            }
            Address::Journald(_) => write!(
                message,
                "PRIORITY={}\nSYSLOG_FACILITY={}\nSYSLOG_IDENTIFIER={tag}\nMESSAGE=",
                self.severity, self.facility
            ),
        };
        written.expect("writing to a Vec cannot fail");
        message.extend_from_slice(line);
        if matches!(self.address, Address::Journald(_)) {
            message.push(b'\n');
        }
    }
}

impl fmt::Display for LogDaemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::SyslogUnix(path) => write!(f, "syslog:unix:{}", path.display()),
            Address::SyslogUdp(address) => write!(f, "syslog:udp:{address}"),
            Address::Journald(path) if path.as_os_str() == JOURNALD => f.write_str("journald"),
            Address::Journald(path) => write!(f, "journald:unix:{}", path.display()),
        }
    }
}

fn facility(name: &str) -> Result<u8, String> {
    let known = FACILITIES.iter().find(|(known, _)| *known == name);
    known.map(|(_, number)| *number).ok_or_else(|| {
        let all: Vec<_> = FACILITIES.iter().map(|(name, _)| *name).collect();
        format!("{name:?} is no facility: {}", all.join(", "))
    })
}

fn severity(name: &str) -> Result<u8, String> {
    let number = SEVERITIES.iter().position(|known| *known == name);
    number
        .map(|number| number as u8)
        .ok_or_else(|| format!("{name:?} is no severity: {}", SEVERITIES.join(", ")))
}

/// RFC 5424 §6.2.5 would allow more, and daemons would take it for something else.
fn is_tag(tag: &str) -> bool {
    (1..=TAG_BYTES_MAX).contains(&tag.len())
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(to: &str, line: &str) -> String {
        let daemon = LogDaemon::parse(to, Severity::Info).expect("it is right");
        let sender = Sender { pid: 7, host: "box".into() };
        let mut message = b"old".to_vec();
        daemon.message(&sender, line.as_bytes(), &mut message);
        String::from_utf8(message).unwrap()
    }

    #[test]
    fn each_daemon_gets_its_form() {
        assert_eq!(message("syslog:unix:/dev/log", "flash: a b"), "<30>flash[7]: a b");
        assert_eq!(
            message("syslog:unix:/dev/log,facility=local7,severity=error,tag=www", "a"),
            "<187>www[7]: a"
        );
        let udp = message("syslog:udp:[::1]:514,tag=www", "a b");
        let words: Vec<_> = udp.split(' ').collect();
        assert_eq!((words[0], &words[2..]), ("<30>1", &["box", "www", "7", "-", "-", "a", "b"][..]), "{udp}");
        assert!(words[1].ends_with('Z') && words[1].contains('T'), "{udp}");
        assert_eq!(
            message("journald", "a=b"),
            "PRIORITY=6\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=flash\nMESSAGE=a=b\n"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("syslog:", "write syslog:unix:PATH"),
            ("syslog:unix:", "write syslog:unix:PATH"),
            ("syslog:udp:host", "write syslog:unix:PATH"),
            ("syslog:udp:host:0", "write syslog:unix:PATH"),
            ("syslog:tcp:host:514", "write syslog:unix:PATH"),
            ("journald:tag=a", "write syslog:unix:PATH"),
            ("journald,facility=local8", "\"local8\" is no facility: kern"),
            ("journald,severity=loud", "\"loud\" is no severity: emerg"),
            ("journald,tag=a b", "a tag has up to 32"),
            ("journald,tag=", "a tag has up to 32"),
            ("journald,colour=red", "colour=red is none of"),
        ] {
            let said = LogDaemon::parse(text, Severity::Info).expect_err(text);
            assert!(said.starts_with(why), "{text}: {said}");
        }
        for text in ["syslog:unix:/dev/log", "syslog:udp:[::1]:514", "journald", "journald:unix:/run/j"] {
            assert_eq!(LogDaemon::parse(text, Severity::Warning).unwrap().to_string(), text);
            assert!(LogDaemon::is_named_by(text));
        }
        assert!(!LogDaemon::is_named_by("journald.log") && !LogDaemon::is_named_by("./journald"));
    }
}
