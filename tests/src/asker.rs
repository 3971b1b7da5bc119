//! `flash helper` as a process, and an asker of it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use flash_helper::protocol::{
    ANSWER_BYTES, Answer, AnswerKind, Hello, MESSAGE_BYTES_MAX, Question, QuestionKind, Root,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use tempfile::TempDir;

use crate::{PATIENCE, program, set_mode, site};

/// A root with a few files, and a folder for the socket. Users of any kind may go to both.
pub struct Rooted {
    pub root: TempDir,
    pub beside: TempDir,
}

impl Rooted {
    pub fn make() -> Self {
        let rooted = Self { root: TempDir::new().unwrap(), beside: TempDir::new().unwrap() };
        for folder in [&rooted.root, &rooted.beside] {
            set_mode(folder.path(), 0o755);
        }
        fs::create_dir(rooted.path().join("sub")).unwrap();
        site::write(&rooted.path().join("a.html"), b"<p>a</p>");
        site::write(&rooted.path().join("sub/index.html"), b"index");
        rooted
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// A daemon in its sandbox that answers for the root.
    pub fn daemon(&self, flags: &[&str]) -> Daemon {
        Daemon::start(&[self.path()], self.beside.path(), &[&["--sandbox", "required"], flags].concat())
    }
}

/// A running `flash helper`.
pub struct Daemon {
    child: Child,
    pub socket: PathBuf,
}

impl Daemon {
    /// Answers for these folders, at a socket in `beside`.
    pub fn start(roots: &[&Path], beside: &Path, flags: &[&str]) -> Self {
        Self::start_under(&[], roots, beside, flags)
    }

    /// Starts it through another program, such as `prlimit`.
    pub fn start_under(wrapper: &[String], roots: &[&Path], beside: &Path, flags: &[&str]) -> Self {
        let socket = beside.join("helper.sock");
        let program = program();
        let mut words = wrapper.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut command = Command::new(words.next().expect("at least the program"));
        command
            .args(words)
            .arg("helper")
            .args(roots)
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()));
        command.args(flags);
        Self::of(command, socket)
    }

    /// Starts it with this command, and waits until it says that it is ready.
    pub fn of(mut command: Command, socket: PathBuf) -> Self {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("flash starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let mut first = String::new();
        lines.read_line(&mut first).expect("a line of text");
        assert!(first.contains("answering for"), "not the line of a daemon that is ready: {first:?}");
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                eprintln!("daemon: {line}");
            }
        });
        Self { child, socket }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn asker(&self) -> Asker {
        Asker::connect(&self.socket)
    }

    /// Ends it at once, as a crash would.
    pub fn kill(mut self) -> PathBuf {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is a child");
        self.socket.clone()
    }

    /// The time that it has computed, in hundredths of a second.
    pub fn computed(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("the daemon runs");
        stat.split(' ').skip(13).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
    }

    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("the daemon runs").count()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Asker {
    socket: OwnedFd,
    pub roots: Vec<(Root, OwnedFd)>,
    questions: u64,
}

/// What the daemon has sent.
#[derive(Debug)]
pub enum Message {
    Hello(Hello),
    Root(Root, OwnedFd),
    Answer(Answer, Option<File>),
    Gone,
}

/// A question about a path, and no window.
pub fn find(path: &str) -> Question {
    Question {
        kind: QuestionKind::Find,
        root: 0,
        id: 0,
        deadline_ms: 0,
        path: path.into(),
        window: 0..0,
        known: None,
        accepts: 0,
        copy: false,
    }
}

impl Asker {
    /// Connects, and learns the roots.
    pub fn connect(socket: &Path) -> Self {
        let mut asker = Self::connect_silently(socket);
        let Message::Hello(hello) = asker.receive() else { panic!("the daemon greets first") };
        for _ in 0..hello.roots {
            let Message::Root(root, folder) = asker.receive() else { panic!("the roots come next") };
            asker.roots.push((root, folder));
        }
        asker
    }

    pub fn connect_silently(path: &Path) -> Self {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .expect("a socket");
        let address = SocketAddrUnix::new(path).expect("a short path");
        rustix::net::connect(&socket, &address).expect("the daemon listens");
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Recv,
            Some(PATIENCE),
        )
        .expect("an option");
        Self { socket, roots: Vec::new(), questions: 0 }
    }

    /// Sends a question under a new number, which is returned.
    pub fn ask(&mut self, question: &Question, file: Option<BorrowedFd<'_>>) -> u64 {
        self.questions += 1;
        let question = Question { id: self.questions, ..question.clone() };
        self.send(&question.encode(), file).expect("the daemon takes it");
        question.id
    }

    pub fn send(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        self.send_flags(bytes, file, SendFlags::NOSIGNAL)
    }

    /// Unless it would have to wait.
    pub fn try_send(&self, bytes: &[u8]) -> Result<(), Errno> {
        self.send_flags(bytes, None, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    fn send_flags(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>, flags: SendFlags) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let file = file.map(|file| [file]);
        if let Some(file) = &file {
            assert!(control.push(SendAncillaryMessage::ScmRights(file)));
        }
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
    }

    pub fn receive(&self) -> Message {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut buffer)];
        let received = rustix::net::recvmsg(&self.socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC);
        let bytes = match received {
            Ok(received) => received.bytes,
            Err(Errno::CONNRESET) => 0,
            Err(error) => panic!("no answer: {error}"),
        };
        let rights = control.drain().filter_map(|part| match part {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let descriptor = rights.flatten().next();
        let message = &buffer[..bytes];
        match AnswerKind::of_message(message) {
            None => Message::Gone,
            Some(AnswerKind::Hello) => Message::Hello(Hello::decode(message).expect("a greeting")),
            Some(AnswerKind::Root) => {
                Message::Root(Root::decode(message).expect("a root"), descriptor.expect("its folder"))
            }
            Some(_) => {
                assert_eq!(bytes, ANSWER_BYTES);
                Message::Answer(Answer::decode(message).expect("an answer"), descriptor.map(File::from))
            }
        }
    }

    /// Asks, and waits for the answer. Roots that come meanwhile are learned.
    pub fn answer(&mut self, question: &Question) -> (Answer, Option<File>) {
        self.answer_about(question, None)
    }

    pub fn answer_about(
        &mut self,
        question: &Question,
        file: Option<BorrowedFd<'_>>,
    ) -> (Answer, Option<File>) {
        let id = self.ask(question, file);
        loop {
            match self.receive() {
                Message::Answer(answer, file) => {
                    assert_eq!(answer.id, id);
                    return (answer, file);
                }
                Message::Root(root, folder) => {
                    let number = root.number as usize;
                    self.roots[number] = (root, folder);
                }
                other => panic!("not an answer: {other:?}"),
            }
        }
    }

    /// What a path leads to.
    pub fn kind(&mut self, path: &str) -> AnswerKind {
        self.answer(&find(path)).0.kind
    }

    /// Waits until a question has this answer.
    pub fn wait_for(&mut self, path: &str, kind: AnswerKind) {
        let give_up = Instant::now() + PATIENCE;
        while self.kind(path) != kind {
            assert!(Instant::now() < give_up, "{path} never becomes {kind:?}");
            thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl AsFd for Asker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The content of a file that came with an answer.
pub fn content(file: Option<File>) -> Vec<u8> {
    let mut file = file.expect("a descriptor");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("it can be read");
    bytes
}

/// The same, of sealed memory, whose position is at the daemon's last write.
pub fn memory(file: Option<File>) -> Vec<u8> {
    let file = file.expect("a descriptor");
    let mut bytes = vec![0; file.metadata().expect("it has a length").len() as usize];
    file.read_exact_at(&mut bytes, 0).expect("it can be read");
    bytes
}
