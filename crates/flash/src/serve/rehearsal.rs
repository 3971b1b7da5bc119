//! Requests that are answered without a server: the request path itself with a disk, in this thread and without sockets.
//!
//! It begins no program, and reads no body. So it stops where a program would be asked, and behind a response's head.

use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use flash_core::cache::local::LocalCache;
use flash_core::clock::Now;
use flash_core::connection::Connection;
use flash_core::connection::buffer_pool::BufferPool;
use flash_core::connection::context::{Context, Drain, Tally};
use flash_core::connection::output::Front;
use flash_core::connection::transport::{ApplicationProtocol, SiteCertificates, TlsInfo, TransportInfo};
use flash_core::connection::want::Want;
use flash_core::file::entry::{Entry, Resource};
use flash_core::file::validators::Validators;
use flash_core::file::{Content, File};
use flash_core::job::{Done, Job, Outcome};
use flash_core::path::SitePath;
use flash_core::record::Peer;
use flash_core::record::request_id::RequestIds;
use flash_core::server::Server;
use flash_disk::Disk;
use flash_http::Scheme;
use flash_http::head::{self, Parsed};

/// A server that nobody can reach.
pub(crate) struct Rehearsal {
    server: Server,
    disk: Disk,
    programs: Vec<String>,
    now: Now,
}

/// What a request has led to.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The positions of the site, and of the place in it.
    pub(crate) site: Option<(usize, Option<usize>)>,
    /// The path of what was found, and its place, if that is not the request's path.
    pub(crate) found_at: Option<(String, Option<usize>)>,
    /// What was found last.
    pub(crate) found: Option<Found>,
    /// What the file that is sent is known by.
    pub(crate) validators: Option<Validators>,
    /// The program that would answer, and the script that it would run.
    pub(crate) program: Option<(String, Option<String>)>,
    /// The response's status and fields, if no program answers.
    pub(crate) head: Option<(u16, Vec<(String, String)>)>,
}

#[derive(Debug)]
pub(crate) enum Found {
    File(PathBuf),
    Folder,
    Script,
    Nothing,
}

/// A request has no more steps than this, however many listings and fallbacks are looked for.
const STEPS_MAX: usize = 10_000;

impl Rehearsal {
    /// `programs` are the routes' in words, in the order of their numbers.
    pub(super) fn new(server: Server, disk: Disk, programs: Vec<String>) -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Now::new(0, u64::try_from(unix.as_millis()).unwrap_or(u64::MAX));
        Self { server, disk, programs, now }
    }

    /// Answers a request without a body.
    pub(crate) fn answer(&self, request: &[u8], is_https: bool) -> Answer {
        let (mut local, mut buffers, mut tally) =
            (LocalCache::new(0), BufferPool::default(), Tally::default());
        let mut ids = RequestIds::new([0, 0]);
        let (server, now) = (&self.server, &self.now);
        let mut cx = Context {
            server,
            now,
            local: Some(&mut local),
            buffers: &mut buffers,
            tally: &mut tally,
            ids: &mut ids,
            drain: Drain::No,
        };
        let head = match head::parse(request, &server.settings.head) {
            Ok(Parsed::Complete { head, .. }) => Some(head),
            _ => None,
        };
        let host = head.and_then(|head| server.hosts.find(head.host));
        let transport = transport(is_https, host.and_then(|host| host.certificates.as_ref()));
        let mut connection = Connection::new(transport, &server.settings, now);
        let site = head.and_then(|head| server.hosts.position(&head));
        let mut answer = Answer { site, ..Answer::default() };
        let (mut entry, mut response) = (None, Vec::new());
        connection.received(request, &mut cx);
        for _ in 0..STEPS_MAX {
            match connection.want(&mut cx) {
                Want::Job(id, job) => {
                    let mut outcome = self.disk.run(&job);
                    if let Some((path, found)) = self.found(&job, &mut outcome) {
                        let place = host.and_then(|host| host.position_of(&path));
                        (answer.found_at, entry) = (Some((shown(&path), place)), Some(found));
                    }
                    connection.completed(id, outcome, &mut cx);
                }
                Want::CheckLogin(id) => {
                    let is_right = connection.check(id).is_some_and(|check| check.run(now.ms()));
                    connection.completed(id, Done::Checked(is_right).into(), &mut cx);
                }
                Want::Send => {
                    let sent = sent(&mut connection, &mut response);
                    answer.head = parsed(&response);
                    if answer.head.is_some() || sent == 0 {
                        break;
                    }
                    connection.sent(sent as u64, &mut cx);
                }
                Want::OpenUpstream(id) => {
                    if let Some(open) = connection.begin(id, None, &mut cx) {
                        let script = open.variables.get(b"SCRIPT_FILENAME");
                        let script = script.map(|name| String::from_utf8_lossy(name).into_owned());
                        answer.program =
                            Some((self.programs.get(open.route).cloned().unwrap_or_default(), script));
                        break;
                    }
                }
                // The client is still there, and has nothing to say.
                Want::Receive if connection.receive_blocked() => {}
                _ => break,
            }
        }
        connection.abort(&mut cx);
        let coding = answer.head.as_ref().and_then(|(_, fields)| value_of(fields, "Content-Encoding"));
        let file = entry.as_ref().and_then(|entry| file_in(entry, coding.unwrap_or_default()));
        let is_sent = matches!(answer.head, Some((200 | 206 | 304, _)));
        answer.validators = file.filter(|_| is_sent).map(|file| file.validators);
        answer.found = entry.as_ref().map(|entry| found(entry, file));
        let own =
            head.and_then(|head| SitePath::parse(head.target.raw_path()).ok().map(SitePath::into_owned));
        answer.found_at.take_if(|(path, _)| own.is_some_and(|own| own.as_bytes() == path.as_bytes()));
        answer
    }

    /// The entry that a job has found, and its path. A server reads the file after its first response; here it is read at once.
    fn found(&self, job: &Job, outcome: &mut Outcome) -> Option<(SitePath<'static>, Arc<Entry>)> {
        let (Job::Find(find), Done::Found(found)) = (job, &mut outcome.done) else { return None };
        *found = self.disk.digested_entry(find.site, found);
        let path = found.found_at().unwrap_or(&find.path);
        Some((path.clone(), Arc::clone(found)))
    }
}

fn shown(path: &SitePath<'_>) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

/// Takes what the connection has to send, and returns how many bytes that were.
fn sent(connection: &mut Connection, response: &mut Vec<u8>) -> usize {
    let mut slices = [IoSlice::new(&[]); 16];
    let front = connection.output().map(|output| output.front(&mut slices));
    let Some(Front::Slices { count, .. }) = front else { return 0 };
    slices[..count].iter().for_each(|slice| response.extend_from_slice(slice));
    slices[..count].iter().map(|slice| slice.len()).sum()
}

/// Of a client on this machine. It has been shown the site's certificates, and has shown its own if it has to.
fn transport(is_https: bool, certificates: Option<&SiteCertificates>) -> TransportInfo {
    let plain = TransportInfo::plain(Peer::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))));
    let tls = |certificates: &SiteCertificates| TlsInfo {
        protocol: ApplicationProtocol::Http1,
        certificates: certificates.present,
        version: 0x0304,
        cipher: 0x1301,
        has_client_certificate: true,
        is_early: false,
    };
    match (is_https, certificates) {
        (true, Some(certificates)) => plain.secured(tls(certificates)),
        (true, None) => TransportInfo { scheme: Scheme::Https, ..plain },
        (false, _) => plain,
    }
}

fn value_of<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
}

/// The file that answers in this coding.
fn file_in<'e>(entry: &'e Entry, coding: &str) -> Option<&'e Arc<File>> {
    let variants = entry.variants()?;
    let is_it = |file: &&Arc<File>| file.coding.is_some_and(|known| known.name() == coding);
    Some(variants.coded.iter().find(is_it).unwrap_or(&variants.identity))
}

fn found(entry: &Entry, file: Option<&Arc<File>>) -> Found {
    match &entry.resource {
        Resource::File(_) => {
            let path = file.and_then(|file| match &file.content {
                Content::Open(open) => flash_disk::real_path(open.as_fd()).ok(),
                // Only of an empty file.
                Content::Memory(_) => None,
            });
            path.map_or(Found::Nothing, Found::File)
        }
        Resource::Folder | Resource::FolderWithoutSlash => Found::Folder,
        Resource::Script(_) => Found::Script,
        Resource::Missing | Resource::Forbidden(_) => Found::Nothing,
    }
}

/// The status and the fields of a head that is complete.
fn parsed(bytes: &[u8]) -> Option<(u16, Vec<(String, String)>)> {
    let text = String::from_utf8_lossy(bytes);
    let (head, _) = text.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let field = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some((status, lines.filter_map(field).collect()))
}
