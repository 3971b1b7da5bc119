//! The kernel's list of mounts, line by line (proc_pid_mountinfo(5)). The kernel makes it from memory, so a read
//! never waits for a filesystem.

use std::fs::File;
use std::io::{self, PipeReader, Read, Seek};

use rustix::event::{PollFd, PollFlags, poll};

use crate::mounts::MountInfo;

/// The mounts that this thread and its children can see.
const LIST: &str = "/proc/thread-self/mountinfo";

#[derive(Debug)]
pub(crate) struct List(File);

impl List {
    pub(crate) fn open() -> Option<Self> {
        File::open(LIST).map(Self).ok()
    }

    pub(crate) fn read(&mut self) -> io::Result<Vec<MountInfo>> {
        let mut text = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut text)?;
        Ok(parse(&text))
    }

    pub(crate) fn wait(&self, over: &PipeReader) -> bool {
        let waited = &mut [PollFd::new(&self.0, PollFlags::PRI), PollFd::new(over, PollFlags::empty())];
        // If it fails, the list is read again.
        let _ = poll(waited, None);
        !waited[1].revents().contains(PollFlags::HUP)
    }
}

fn parse(text: &[u8]) -> Vec<MountInfo> {
    text.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountInfo> {
    let mut words = line.split(|&byte| byte == b' ');
    let id = number(words.next()?)?;
    let parent = number(words.next()?)?;
    let (major, minor) = std::str::from_utf8(words.next()?).ok()?.split_once(':')?;
    let _root = words.next()?;
    let point = unescape(words.next()?);
    let _mount_options = words.next()?;
    // Any number of optional fields, then a dash.
    words.find(|word| word == b"-")?;
    let kind = unescape(words.next()?);
    let _source = words.next()?;
    let options = unescape(words.next().unwrap_or_default());
    (point.first() == Some(&b'/')).then_some(MountInfo {
        id,
        parent,
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        point,
        kind,
        options,
    })
}

fn number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Blanks, line ends and backslashes are written as three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        match (first, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_all_sorts() {
        let text = b"22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            36 35 98:0 /mnt1 /a\\040b\\134c\\011\\012 rw shared:1 master:2 - fuse.sshfs me@host:/x rw,user_id=0\n\
            37 35 0:9 / /empty rw -\n\
            nonsense\n\
            38 x 0:9 / /x rw - ext4 /dev/vda rw\n\
            39 35 0:50 / / rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u";
        let lines = parse(text);
        assert_eq!(lines.iter().map(|line| line.id).collect::<Vec<_>>(), [22, 36, 39]);
        assert_eq!(lines[0].kind, b"proc");
        assert_eq!((lines[1].parent, lines[1].major, lines[1].minor), (35, 98, 0));
        assert_eq!(lines[1].point, b"/a b\\c\t\n");
        assert_eq!(lines[1].kind, b"fuse.sshfs");
        assert_eq!(lines[2].options, b"rw,lowerdir=/l1:/l2,upperdir=/u");
    }

    #[test]
    fn this_machine_has_a_root() {
        let lines = parse(&std::fs::read("/proc/self/mountinfo").unwrap());
        assert!(lines.iter().any(|line| line.point == b"/"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            parse(&text);
        }

        #[test]
        fn no_words_make_it_panic(text in "([0-9]{1,3}|[0-9]:[0-9]|/|/\\\\0[0-9]{1,3}|-|ext4| |\\n){0,40}") {
            for line in parse(text.as_bytes()) {
                prop_assert!(line.point.starts_with(b"/"));
            }
        }
    }
}
