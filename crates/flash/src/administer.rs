//! `flash reload` and `flash reopen`: asks a running server at its admin socket, and prints what it says.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::config;
use crate::failure::Failure;
use crate::flags::{AdminAt, Administered};

/// More than any server says.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Posts to this path, and prints the answer. A refusal is printed on standard error.
pub(crate) fn ask(to: &Administered, path: &str) -> Result<(), Failure> {
    let socket = match &to.admin {
        Some(admin) => admin.clone(),
        None => reached_at(&to.config)?,
    };
    let AdminAt::Unix(socket) = socket else {
        return Err(Failure::Usage("the server has no admin socket (--admin off): send it SIGHUP".into()));
    };
    let (status, text) = exchange(&socket, path).map_err(|error| unreachable(&socket, &error))?;
    if status == 200 {
        return flash_cli::print(text.as_bytes());
    }
    let (errors, last) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
    if !errors.is_empty() {
        // Nobody is left to tell if standard error is gone.
        let _ = writeln!(io::stderr(), "{errors}");
    }
    Err(Failure::Run(last.into()))
}

/// Where a server with this configuration file is reached.
fn reached_at(file: &Path) -> Result<AdminAt, Failure> {
    let Some(text) = config::value_of(file, "admin")? else { return Ok(AdminAt::usual()) };
    text.parse().map_err(|why| Failure::Usage(format!("{}: admin: {why}", file.display())))
}

fn exchange(socket: &Path, path: &str) -> io::Result<(u16, String)> {
    let mut stream = UnixStream::connect(socket)?;
    let request = format!("POST {path} HTTP/1.1\r\nHost: flash\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let parts = answer.split_once("\r\n\r\n").and_then(|(head, body)| {
        let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        Some((status, body.to_owned()))
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
        _ => error.to_string(),
    };
    Failure::Run(format!("cannot ask the server at unix:{}: {why}", socket.display()))
}
