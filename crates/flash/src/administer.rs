//! Asks a running server at its admin socket. `flash reload`, `flash reopen` and `flash upgrade` print what it says.

use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use flash_core::printable::printable_lines;
use flash_os::socket::OWN_DESCRIPTORS;
use flash_process::Authorization;
use rustix::io::retry_on_intr;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, recvmsg};

use crate::config;
use crate::failure::Failure;
use crate::flags::{AdminAt, Administered, Upgrade};

/// More than any server says.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// How long a server may take for what waits for its disk.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long the place of the upgrader may take to come.
const PLACE_WITHIN: Duration = Duration::from_secs(10);

/// Posts to this path, and prints the answer.
pub(crate) fn ask(to: &Administered, path: &str) -> Result<(), Failure> {
    post(to, path)?.print()
}

/// Asks for an upgrade, and prints the answer.
pub(crate) fn upgrade(flags: &Upgrade) -> Result<(), Failure> {
    let mut path = format!("/upgrade?ms={}", flags.ready_within.as_millis());
    let Some(binary) = &flags.binary else { return ask(&flags.to, &path) };
    // The server may be in another folder, and takes only the real path.
    let binary = path::absolute(binary).map_err(|error| Failure::Usage(format!("--binary: {error}")))?;
    let binary = binary
        .canonicalize()
        .map_err(|error| Failure::Run(format!("cannot find {}: {error}", binary.display())))?;
    path.push_str("&binary=");
    path.push_str(&encoded(&binary));
    let _word = authorize(&socket_of(&flags.to)?, &binary)?;
    ask(&flags.to, &path)
}

/// In percent-encoding.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                text.push(char::from(*byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Says what a running server with this file would find wrong in a reload, if it can be asked.
pub(crate) fn warn_of_reload(file: &Path) {
    let to = Administered { config: file.into(), admin: None };
    let Ok(absolute) = path::absolute(file) else { return };
    if let Ok(Answer { status: 422, text }) = post(&to, &format!("/check?file={}", encoded(&absolute))) {
        // Nobody is left to tell if standard error is gone.
        let _ = write!(io::stderr(), "warning: the running server would refuse this reload:\n{text}");
    }
}

/// Tells the server's upgrader that root names this program. It asks nobody else.
fn authorize(socket: &Path, binary: &Path) -> Result<Authorization, Failure> {
    let place = socket_of_upgrader(socket).map_err(|error| unreachable(socket, &error))?;
    let place = place.ok_or_else(|| {
        Failure::Run("the server has no way to take another program: put it in the place of its own".into())
    })?;
    Authorization::give(place, binary).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => Failure::Run(
            "only root may name another program: put it in the place of the server's, and leave --binary out"
                .into(),
        ),
        _ => Failure::Run(format!("cannot ask the server's upgrader: {error}")),
    })
}

/// The place of the upgrader's own socket, which comes with an answer of the server.
fn socket_of_upgrader(socket: &Path) -> io::Result<Option<OwnedFd>> {
    let mut stream = connect(socket)?;
    stream.set_read_timeout(Some(PLACE_WITHIN))?;
    stream.write_all(request_head("GET", "/upgrade").as_bytes())?;
    let (mut place, mut answer_bytes) = (None, 0);
    while answer_bytes < ANSWER_BYTES_MAX {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 4096];
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let received = retry_on_intr(|| recvmsg(&stream, &mut slices, &mut control, OWN_DESCRIPTORS))?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                place = descriptors.next();
            }
        }
        if received.bytes == 0 {
            break;
        }
        answer_bytes += received.bytes as u64;
    }
    Ok(place)
}

/// What a server answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

/// Posts to this path.
///
/// # Errors
/// When there is no such server.
pub(crate) fn post(to: &Administered, path: &str) -> Result<Answer, Failure> {
    request(to, "POST", path)
}

/// Gets what is at this path.
///
/// # Errors
/// When there is no such server, or it has no such path.
pub(crate) fn get(to: &Administered, path: &str) -> Result<String, Failure> {
    let Answer { status, text } = request(to, "GET", path)?;
    match status {
        200 => Ok(text),
        404 => Err(Failure::Run(format!("the server is of another version: it does not have {path}"))),
        _ => Err(Failure::Run(format!("the server answers {path} with {status}: {}", text.trim_end()))),
    }
}

fn socket_of(to: &Administered) -> Result<PathBuf, Failure> {
    let socket = match &to.admin {
        Some(admin) => admin.clone(),
        None => reached_at(&to.config)?,
    };
    match socket {
        AdminAt::Unix(socket) => Ok(socket),
        AdminAt::Off => {
            Err(Failure::Usage("the server has no admin socket (--admin off): send it SIGHUP".into()))
        }
    }
}

fn request(to: &Administered, method: &str, path: &str) -> Result<Answer, Failure> {
    let socket = socket_of(to)?;
    exchange(&socket, method, path).map_err(|error| unreachable(&socket, &error))
}

impl Answer {
    /// Prints it. A refusal is printed on standard error, but for its last line, which is the failure.
    pub(crate) fn print(&self) -> Result<(), Failure> {
        if self.status == 200 {
            return flash_cli::print(self.text.as_bytes());
        }
        let text = self.text.trim_end();
        let (errors, last) = text.rsplit_once('\n').unwrap_or(("", text));
        if !errors.is_empty() {
            // Nobody is left to tell if standard error is gone.
            let _ = writeln!(io::stderr(), "{errors}");
        }
        Err(Failure::Run(last.into()))
    }
}

/// Where a server with this configuration file is reached.
fn reached_at(file: &Path) -> Result<AdminAt, Failure> {
    // One that may not be looked at is there, and read below.
    if file.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        let file = file.display();
        return Err(Failure::Usage(format!(
            "there is no {file}: say --config with the server's file, or --admin with its socket (unix:PATH)"
        )));
    }
    let Some(text) = config::value_of(file, "admin")? else { return Ok(AdminAt::usual()) };
    text.parse().map_err(|why| Failure::Usage(format!("{}: admin: {why}", file.display())))
}

/// A process that was stopped for a while asks again.
fn connect(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn request_head(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: flash\r\nConnection: close\r\n\r\n")
}

fn exchange(socket: &Path, method: &str, path: &str) -> io::Result<Answer> {
    let mut stream = connect(socket)?;
    // A log's disk that hangs keeps no logrotate waiting, and a server that is busy no check.
    if path.starts_with("/reopen") || path.starts_with("/check") {
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    }
    stream.write_all(request_head(method, path).as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let parts = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        // Whoever has taken the server over may write to a terminal of root's.
        Some(Answer { status, text: printable_lines(body) })
    });
    parts.ok_or_else(|| io::Error::other("its answer makes no sense"))
}

fn unreachable(socket: &Path, error: &io::Error) -> Failure {
    let why = match error.kind() {
        ErrorKind::NotFound => {
            "there is no such socket: is the server running, with --admin or --config?".into()
        }
        ErrorKind::ConnectionRefused => "no server listens there".into(),
        ErrorKind::PermissionDenied => "only root and the server's user may".into(),
        // The time to wait has passed.
        ErrorKind::WouldBlock => format!("it has not answered within {} s", ANSWER_WITHIN.as_secs()),
        _ => error.to_string(),
    };
    Failure::Run(format!("cannot ask the server at unix:{}: {why}", socket.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With thousands of logs, to open them again may take longer.
    #[test]
    fn a_server_that_takes_long_is_not_said_to_be_gone() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let error = (&ours).read(&mut [0]).unwrap_err();
        let Failure::Run(why) = unreachable(Path::new("/admin"), &error) else { panic!("it is no usage") };
        assert_eq!(why, "cannot ask the server at unix:/admin: it has not answered within 15 s");
    }
}
