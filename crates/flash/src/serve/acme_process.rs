//! The process that asks an authority for certificates: what it is given, and which rights it keeps.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::chown;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use flash_acme::{Board, KeyKind, Process, Store};
use flash_http::Scheme;
use flash_observe::metrics::MetricsMemory;
use flash_process::{OnEnd, Role, ipc};

use super::{certificates, privileges};
use crate::failure::{Failure, cannot};
use crate::flags::{self, AcmeKey};

/// In `ps`.
const TITLE: &CStr = c"flash-acme";
/// The pause before a process is replaced that was killed at its start. One that fails waits a minute itself.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The process that asks for certificates.
pub(super) struct AcmeProcess {
    board: Arc<Board>,
    metrics_memory: Arc<MetricsMemory>,
    /// It closes with the server.
    server: OwnedFd,
}

/// The process, if an authority is to be asked, and what keeps it running while the server has it.
pub(super) fn process(
    wanted: &[Vec<String>],
    flags: &flags::Serve,
    metrics_memory: &Arc<MetricsMemory>,
) -> Result<Option<(AcmeProcess, OwnedFd)>, Failure> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let board = Board::new().map_err(|error| cannot(format_args!("share memory"), &error))?;
    board.want(wanted).map_err(|error| cannot(format_args!("ask for certificates"), &error))?;
    make_folder(flags)?;
    let (ours, server) =
        ipc::pair().map_err(|error| cannot(format_args!("start the ACME process"), &error))?;
    let metrics_memory = Arc::clone(metrics_memory);
    Ok(Some((AcmeProcess { board: board.into(), metrics_memory, server }, ours)))
}

impl AcmeProcess {
    /// What the server and the process share.
    pub(super) fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// What the supervisor process runs, as the server's user.
    pub(super) fn role<'a>(self, flags: &'a flags::Serve) -> Role<'a> {
        let Self { board, metrics_memory, server } = self;
        let server = Rc::new(server);
        let socket = Some(Rc::clone(&server));
        let main = move || {
            flash_os::process::set_name(TITLE);
            let _ = privileges::protect_memory(flags);
            flash_acme::run(&Process {
                settings: settings(flags),
                board: &board,
                failures: &metrics_memory.renewal_failures,
                server: &server,
                clock: &flash_acme::unix_seconds,
                sandbox: &|| privileges::confine_client(flags, &flags.acme.acme_folder),
            })
        };
        let on_end = OnEnd::RestartUnlessDone { pause_max: RESTART_PAUSE };
        Role { name: "the ACME process".into(), on_end, socket, main: Rc::new(main) }
    }
}

/// What the process asks for, and how.
pub(crate) fn wanted(flags: &flags::Serve) -> (flash_acme::Settings, Vec<Vec<String>>) {
    (settings(flags), certificates::wanted(flags).unwrap_or_default())
}

fn settings(flags: &flags::Serve) -> flash_acme::Settings {
    let acme = &flags.acme;
    flash_acme::Settings {
        directory: acme.acme_directory.clone(),
        roots: acme.acme_ca.clone(),
        email: acme.acme_email.clone(),
        profile: acme.acme_profile.clone(),
        folder: acme.acme_folder.clone(),
        key: match acme.acme_key {
            AcmeKey::Ecdsa => KeyKind::Ecdsa,
            AcmeKey::Rsa => KeyKind::Rsa,
        },
        hooks: acme.acme_dns.clone(),
        account_binding: acme.acme_account.clone(),
        has_plain_listener: flags.listen.iter().any(|listen| listen.scheme() == Scheme::Http),
    }
}

/// Makes the folder with the rights of the start, for the server's user.
fn make_folder(flags: &flags::Serve) -> Result<(), Failure> {
    let folder = &flags.acme.acme_folder;
    let failed = |error: io::Error| {
        cannot(format_args!("keep certificates in {} (--acme-folder)", folder.display()), &error)
    };
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.is_dir()).collect();
    for missing in missing.iter().rev() {
        let mode = if *missing == folder { 0o700 } else { 0o755 };
        flash_trust::make_folder(missing, mode).map_err(failed)?;
    }
    let user = flags.user.as_deref().map(privileges::user_of).and_then(Result::ok);
    match user {
        // Nobody else can have put another one in its place: it was made in a folder of root's.
        Some((_, user)) if !missing.is_empty() => {
            chown(folder, Some(user.id), Some(user.group)).map_err(failed)
        }
        _ => Ok(()),
    }
}

/// For `flash check`: whether the files that an authority is asked with are right.
pub(super) fn check_files(flags: &flags::Serve) -> Result<(), Failure> {
    match certificates::wanted(flags).unwrap_or_default().is_empty() {
        true => Ok(()),
        false => flash_acme::check(&settings(flags)).map_err(|error| Failure::Run(error.to_string())),
    }
}

/// Whether the folder and the other files can be used, as the server's user.
pub(super) fn check(flags: &flags::Serve) -> io::Result<()> {
    let folder = &flags.acme.acme_folder;
    let failed = |error: io::Error| {
        io::Error::other(format!("cannot keep certificates in {} (--acme-folder): {error}", folder.display()))
    };
    Store::open(folder).map_err(failed)?;
    flash_acme::check(&settings(flags))
}
