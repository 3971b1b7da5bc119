//! Which operations are delayed, fail or hang, read from lines of text. A [`Rules`] in use never changes: a new line makes a
//! new one. So a running operation can tell that it must compare itself with the rules again.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::arm::ArmRule;
use crate::delay::{self, Delay};
use crate::pattern::Pattern;

/// Operations that a rule can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Lookup,
    Getattr,
    Open,
    Read,
    Readdir,
    Readlink,
    Statfs,
}

impl Kind {
    pub const ALL: [Kind; 7] =
        [Kind::Lookup, Kind::Getattr, Kind::Open, Kind::Read, Kind::Readdir, Kind::Readlink, Kind::Statfs];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Lookup => "lookup",
            Kind::Getattr => "getattr",
            Kind::Open => "open",
            Kind::Read => "read",
            Kind::Readdir => "readdir",
            Kind::Readlink => "readlink",
            Kind::Statfs => "statfs",
        }
    }
}

/// What goes wrong with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No answer until the rules change.
    Hang,
    Fail {
        errno: i32,
    },
    /// A read returns no more than this, however much there is.
    Short {
        bytes_max: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Effect {
    Delay(Delay),
    Fault(Fault),
}

#[derive(Clone, Debug)]
struct Rule {
    /// The line, to be shown again.
    line: String,
    kind: Option<Kind>,
    effect: Effect,
    pattern: Pattern,
}

/// What became of an operation when the rules were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) delay: Duration,
    pub(crate) fault: Option<Fault>,
}

/// Everything that can be said to the disk. The default is a disk without faults.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    list: Vec<Rule>,
    /// How many operations the disk does at a time.
    pub(crate) concurrent: usize,
    /// For how long the kernel may keep names and attributes without asking again.
    pub(crate) ttl: Duration,
    /// Whether files opened from now on bypass the page cache.
    pub(crate) direct_io: bool,
    /// What reads the disk, if reads take turns and have places.
    pub(crate) arm: Option<ArmRule>,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { list: Vec::new(), concurrent: 16, ttl: Duration::ZERO, direct_io: false, arm: None }
    }
}

const CONCURRENT_MAX: usize = 1024;
const RULES_MAX: usize = 256;

impl Rules {
    /// These rules after some lines: all of them, or an error and none.
    pub(crate) fn with(&self, lines: &str) -> Result<Rules, String> {
        let mut rules = self.clone();
        for line in lines.lines() {
            rules.read(line).map_err(|error| format!("{:?}: {error}", line.trim()))?;
        }
        Ok(rules)
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["clear"] => *self = Rules::default(),
            ["concurrent", number] => {
                let number = number.parse().ok().filter(|number| (1..=CONCURRENT_MAX).contains(number));
                self.concurrent = number.ok_or_else(|| format!("from 1 to {CONCURRENT_MAX}"))?;
            }
            ["ttl", time] => self.ttl = delay::duration(time)?,
            ["direct-io", "on"] => self.direct_io = true,
            ["direct-io", "off"] => self.direct_io = false,
            ["arm", "off"] => self.arm = None,
            ["arm", ref words @ ..] => self.arm = Some(ArmRule::parse(words)?),
            ["remove", ref words @ ..] => {
                let rule = Rule::parse(words)?;
                let before = self.list.len();
                self.list.retain(|old| !(old.about_the_same(&rule) && old.effect == rule.effect));
                if self.list.len() == before {
                    return Err("no such rule".into());
                }
            }
            ref words => {
                let rule = Rule::parse(words)?;
                self.list.retain(|old| !old.about_the_same(&rule));
                if self.list.len() == RULES_MAX {
                    return Err(format!("more than {RULES_MAX} rules"));
                }
                self.list.push(rule);
            }
        }
        Ok(())
    }

    /// Whether a disk can have them: an image of this length, or a folder.
    pub(crate) fn check(&self, image_bytes: Option<u64>) -> Result<(), String> {
        let Some(ArmRule { drive, .. }) = self.arm else { return Ok(()) };
        match image_bytes {
            None => Err("an arm needs an image, in which each byte has its place".into()),
            Some(bytes) if bytes > drive.bytes() => Err(format!(
                "the image has {} MiB, and a drive with this arm {}",
                bytes >> 20,
                drive.bytes() >> 20
            )),
            Some(_) => Ok(()),
        }
    }

    /// Asks the rules. The newest delay that fits an operation counts, and the newest fault.
    pub(crate) fn judge(&self, kind: Kind, path: &Path, draw: f64, is_folder: impl Fn() -> bool) -> Verdict {
        let fits = |rule: &&Rule| rule.is_about(kind) && rule.pattern.fits(path, &is_folder);
        let mut verdict = Verdict { delay: Duration::ZERO, fault: None };
        let mut delay = None;
        for rule in self.list.iter().rev().filter(fits) {
            match rule.effect {
                Effect::Delay(found) => delay = delay.or(Some(found)),
                Effect::Fault(found) => verdict.fault = verdict.fault.or(Some(found)),
            }
        }
        verdict.delay = delay.map_or(Duration::ZERO, |delay| delay.at(draw));
        verdict
    }
}

/// The lines that would make these rules from the default ones.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "concurrent {}", self.concurrent)?;
        writeln!(f, "ttl {}us", self.ttl.as_micros())?;
        writeln!(f, "direct-io {}", if self.direct_io { "on" } else { "off" })?;
        if let Some(arm) = &self.arm {
            writeln!(f, "arm {arm}")?;
        }
        self.list.iter().try_for_each(|rule| writeln!(f, "{}", rule.line))
    }
}

impl Rule {
    /// Reads `[KIND] EFFECT [PATTERN]`.
    fn parse(words: &[&str]) -> Result<Rule, String> {
        let line = words.join(" ");
        let kind = words.first().and_then(|word| Kind::ALL.into_iter().find(|kind| kind.name() == *word));
        let words = &words[usize::from(kind.is_some())..];
        let (effect, pattern) = match words {
            ["delay", delay, pattern @ ..] => (Effect::Delay(Delay::parse(delay)?), pattern),
            ["hang", pattern @ ..] => (Effect::Fault(Fault::Hang), pattern),
            ["fail", name, pattern @ ..] => (Effect::Fault(Fault::Fail { errno: errno(name)? }), pattern),
            ["short", number, pattern @ ..] => {
                let bytes_max = number.parse().map_err(|_| format!("{number:?} is no number of bytes"))?;
                (Effect::Fault(Fault::Short { bytes_max }), pattern)
            }
            _ => {
                return Err(
                    "expected delay, hang, fail, short, arm, concurrent, ttl, direct-io, remove, clear"
                        .into(),
                );
            }
        };
        Ok(Rule { line, kind, effect, pattern: Pattern::parse(pattern.iter().copied())? })
    }

    /// Only reads can be short.
    fn is_about(&self, kind: Kind) -> bool {
        let short = matches!(self.effect, Effect::Fault(Fault::Short { .. }));
        self.kind.is_none_or(|about| about == kind) && (kind == Kind::Read || !short)
    }

    /// Whether a rule takes another's place: a delay that of a delay, a fault that of a fault.
    fn about_the_same(&self, other: &Rule) -> bool {
        let delays = |rule: &Rule| matches!(rule.effect, Effect::Delay(_));
        self.kind == other.kind && self.pattern == other.pattern && delays(self) == delays(other)
    }
}

/// Errors that disks and file servers are known for; any other is a number.
const ERRORS: [(&str, rustix::io::Errno); 14] = [
    ("EACCES", rustix::io::Errno::ACCESS),
    ("EAGAIN", rustix::io::Errno::AGAIN),
    ("EBUSY", rustix::io::Errno::BUSY),
    ("EHOSTDOWN", rustix::io::Errno::HOSTDOWN),
    ("EINTR", rustix::io::Errno::INTR),
    ("EIO", rustix::io::Errno::IO),
    ("ELOOP", rustix::io::Errno::LOOP),
    ("EMFILE", rustix::io::Errno::MFILE),
    ("ENFILE", rustix::io::Errno::NFILE),
    ("ENOENT", rustix::io::Errno::NOENT),
    ("ENOMEM", rustix::io::Errno::NOMEM),
    ("ENOTCONN", rustix::io::Errno::NOTCONN),
    ("ESTALE", rustix::io::Errno::STALE),
    ("ETIMEDOUT", rustix::io::Errno::TIMEDOUT),
];

fn errno(name: &str) -> Result<i32, String> {
    let known = ERRORS.iter().find(|(known, _)| *known == name).map(|(_, errno)| errno.raw_os_error());
    // The kernel takes no more than 512 for an error of FUSE's.
    let number = known.or_else(|| name.parse().ok().filter(|number| (1..512).contains(number)));
    number.ok_or_else(|| {
        let names: Vec<&str> = ERRORS.iter().map(|(name, _)| *name).collect();
        format!("{name:?} is no error: {} or a number", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(lines: &str) -> Rules {
        Rules::default().with(lines).expect(lines)
    }

    /// What an operation waits, in milliseconds, and its fault.
    fn judge(rules: &Rules, kind: Kind, path: &str) -> (u128, Option<Fault>) {
        let verdict = rules.judge(kind, Path::new(path), 0.5, || false);
        (verdict.delay.as_millis(), verdict.fault)
    }

    #[test]
    fn the_newest_delay_and_the_newest_fault_count() {
        let rules = rules(
            "delay fixed:5ms\nread delay uniform:10ms-30ms\nopen delay fixed:9ms prefix /slow/\n\
             hang prefix /h # forever\nread short 7 prefix /h/s\nfail EIO prefix /h/e\nshort 9 glob /s",
        );
        assert_eq!(judge(&rules, Kind::Lookup, "/a"), (5, None));
        assert_eq!(judge(&rules, Kind::Read, "/a"), (20, None));
        assert_eq!(judge(&rules, Kind::Open, "/slow/a"), (9, None));
        assert_eq!(judge(&rules, Kind::Open, "/h/s"), (5, Some(Fault::Hang)));
        assert_eq!(judge(&rules, Kind::Read, "/h/s"), (20, Some(Fault::Short { bytes_max: 7 })));
        assert_eq!(judge(&rules, Kind::Read, "/h/e"), (20, Some(Fault::Fail { errno: 5 })));
        assert_eq!(judge(&rules, Kind::Open, "/s"), (5, None));
    }

    #[test]
    fn rules_are_replaced_removed_and_cleared() {
        let rules = rules("read delay fixed:5ms\nhang prefix /a\nconcurrent 3\nttl 1s\ndirect-io on");
        assert_eq!((rules.concurrent, rules.ttl, rules.direct_io), (3, Duration::from_secs(1), true));
        let shown = "concurrent 3\nttl 1000000us\ndirect-io on\nread delay fixed:5ms\nhang prefix /a\n";
        assert_eq!(rules.to_string(), shown);
        assert_eq!(Rules::default().with(shown).expect("its own words").to_string(), shown);
        let replaced = rules.with("read  delay fixed:6ms\nfail 116 prefix /a").expect("good lines");
        assert!(replaced.to_string().ends_with("read delay fixed:6ms\nfail 116 prefix /a\n"), "{replaced}");
        let removed = rules.with("remove hang prefix /a").expect("it is there");
        assert_eq!(judge(&removed, Kind::Read, "/a"), (5, None));
        assert!(rules.with("remove fail EIO prefix /a").is_err(), "another fault is another rule");
        let cleared = rules.with("clear\nconcurrent 2").expect("good lines");
        assert_eq!(cleared.to_string(), "concurrent 2\nttl 0us\ndirect-io off\n");
    }

    #[test]
    fn nonsense_is_no_rule() {
        for line in [
            "x",
            "read",
            "read delay",
            "delay 5ms",
            "fail",
            "fail EX",
            "fail 0",
            "fail 512",
            "short",
            "short x",
            "concurrent 0",
            "concurrent 5000",
            "ttl",
            "ttl 5",
            "direct-io maybe",
            "remove",
            "remove hang",
            "hang prefix",
            "hang everywhere",
            "clear all",
        ] {
            assert!(Rules::default().with(line).is_err(), "{line}");
        }
        let error = Rules::default().with("concurrent 2\n  fail EX").expect_err("the second line is bad");
        assert!(error.starts_with("\"fail EX\": \"EX\" is no error"), "{error}");
        let many: String = (0..=RULES_MAX).map(|n| format!("hang prefix /{n}\n")).collect();
        assert!(Rules::default().with(&many).is_err());
    }
}
