//! Answering a head: what it asks for is found, and a response begins, or somebody is asked first.

use std::sync::Arc;

use flash_http::head::{self, Expect, Head};
use flash_http::method::Method;
use flash_http::status::Status;

use super::{Connection, Context, Sending, State, after};
use crate::body::RequestBody;
use crate::entry::{Entry, Target};
use crate::exchange::{Exchange, Request, Terms};
use crate::header;
use crate::job::{Failure, Spent};
use crate::record::Unfinished;
use crate::steps::find_file::{self, Finding, Found, Lookup};
use crate::steps::read_request::{self, Asked, DropBody};
use crate::steps::send_header::{Responder, Response};

/// What a head is answered with.
enum Answer {
    Entry(Arc<Entry>),
    /// Whatever stands at the path, a program answers.
    Program,
    Error(Status),
    Options,
}

pub(super) enum Answered {
    /// The head is done with.
    Yes,
    /// It stays where it is until its file has been found.
    NotYet,
}

impl Connection {
    pub(super) fn answer(&mut self, head: &Head<'_>, head_bytes: &[u8], cx: &mut Context<'_>) -> Answered {
        let mut connection = read_request::connection_after(head, cx.draining);
        let mut linger = false;
        let mut since = (cx.now.us, Spent::default());
        let asked = read_request::asked(head, cx.site);
        let mut answer = match (asked, &mut self.state) {
            (Asked::Refused(status), _) => {
                // Its body is not waited for, so nobody will know where the next request begins.
                linger = head.body != head::Body::None || head.expect != Expect::None;
                Answer::Error(status)
            }
            (Asked::File(_) | Asked::Options, State::ReadRequest) if head.body != head::Body::None => {
                return self.drop_body(head, head_bytes, cx);
            }
            (Asked::Options, _) => Answer::Options,
            (Asked::File(_) | Asked::Program(_), State::FindFile(finding)) => {
                since = (finding.started_us, finding.spent);
                match &finding.lookup {
                    Lookup::Found(entry) => Answer::Entry(Arc::clone(entry)),
                    Lookup::Failed(failure) => {
                        if *failure == Failure::Late {
                            connection = header::Connection::Closes;
                        }
                        Answer::Error(failure.status())
                    }
                    Lookup::Wanted(_) | Lookup::Asked => return Answered::NotYet,
                }
            }
            (Asked::File(path) | Asked::Program(path), _) => {
                match find_file::find_file(path, cx.site, cx.local, cx.now) {
                    Found::Entry(entry) => Answer::Entry(entry),
                    Found::Program => Answer::Program,
                    Found::Refused(status) => Answer::Error(status),
                    Found::Unknown(find) => {
                        let (waits, redirects) = (self.body_waits(head), self.redirects());
                        self.state = State::FindFile(Box::new(Finding::new(find, waits, redirects, cx.now)));
                        return Answered::NotYet;
                    }
                }
            }
        };
        let script = match &answer {
            Answer::Entry(entry) => match &entry.target {
                Target::Script(name) => Some(Some(&**name)),
                _ => None,
            },
            Answer::Program => Some(None),
            Answer::Error(_) | Answer::Options => None,
        };
        match (script, asked) {
            (Some(script), _) => return self.run_program(head, head_bytes, script, since, cx),
            // There was reason to hope for one.
            (None, Asked::Program(_)) => {
                let waits = self.body_waits(head);
                if head.method.is_retrieval() && waits {
                    return self.drop_body(head, head_bytes, cx);
                }
                linger = waits;
                answer = match answer {
                    Answer::Entry(_) if head.method == Method::Options => Answer::Options,
                    Answer::Entry(entry) if !head.method.is_retrieval() => match entry.target {
                        Target::Refused(status) => Answer::Error(status),
                        _ => Answer::Error(Status::METHOD_NOT_ALLOWED),
                    },
                    answer => answer,
                };
            }
            (None, _) => {}
        }
        if linger {
            connection = header::Connection::Closes;
        }
        let output = self.output.get_or_insert_with(|| cx.spare.output());
        let head_only = head.method == Method::Head;
        let mut responder = Responder { site: cx.site, now: cx.now, output, connection, head_only };
        let response = match answer {
            Answer::Entry(entry) => responder.respond(head, &entry),
            Answer::Error(status) => responder.error(status),
            Answer::Options => responder.options(),
            Answer::Program => unreachable!("a program has been sent for"),
        };
        self.answered(head, response, linger, since, cx);
        Answered::Yes
    }

    /// Its body is of no use, but has to be out of the way.
    fn drop_body(&mut self, head: &Head<'_>, head_bytes: &[u8], cx: &mut Context<'_>) -> Answered {
        if head.expect == Expect::Continue {
            self.tell_to_continue(cx);
        }
        self.state = State::DropBody(Box::new(DropBody::new(head, head_bytes)));
        Answered::Yes
    }

    /// RFC 9110 §10.1.1.
    pub(super) fn tell_to_continue(&mut self, cx: &mut Context<'_>) {
        let output = self.output.get_or_insert_with(|| cx.spare.output());
        output.write(|out| out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n"));
        output.push_interim_end();
    }

    fn run_program(
        &mut self,
        head: &Head<'_>,
        head_bytes: &[u8],
        script: Option<&[u8]>,
        since: (u64, Spent),
        cx: &mut Context<'_>,
    ) -> Answered {
        let connection = read_request::connection_after(head, cx.draining);
        let terms = Terms { connection, version: head.version, head_only: head.method == Method::Head };
        let request = Request::new(head, head_bytes, script, terms, self.redirects(), since);
        // Where it was dropped because no program stood there a moment ago, its end is all that is left of it.
        let body = if self.body_waits(head) { RequestBody::of(head) } else { RequestBody::Complete };
        self.state = State::RunProgram(Box::new(Exchange::new(request, body)));
        Answered::Yes
    }

    /// Whether the request's body has not been read.
    fn body_waits(&self, head: &Head<'_>) -> bool {
        match &self.state {
            State::BodyDropped => false,
            State::FindFile(finding) => finding.body_waits,
            _ => head.body != head::Body::None,
        }
    }

    fn redirects(&self) -> u8 {
        match &self.state {
            State::Redirected { redirects } => *redirects,
            State::FindFile(finding) => finding.redirects,
            _ => 0,
        }
    }

    /// The head is in the output: records it, and goes on to the body or to the next request.
    pub(super) fn answered(
        &mut self,
        head: &Head<'_>,
        response: Response,
        linger: bool,
        since: (u64, Spent),
        cx: &mut Context<'_>,
    ) {
        let Response { status, head_bytes, connection, rest } = response;
        cx.tally.responses += 1;
        let log = cx.site.settings.log;
        let record = log.then(|| Unfinished::new(head, self.peer, (status, head_bytes), since, cx.now));
        if let Some(body) = rest {
            self.state = State::SendBody(Box::new(Sending { body: *body, connection, record }));
            return;
        }
        if let (Some(record), Some(output)) = (record, &mut self.output) {
            output.push_end(record);
        }
        self.state = if linger { State::Closing { linger } } else { after(connection) };
    }

    /// Answers bytes that were no request, or that came too slowly, and closes.
    pub(super) fn refuse(&mut self, status: Status, cx: &mut Context<'_>) {
        let output = self.output.get_or_insert_with(|| cx.spare.output());
        let connection = header::Connection::Closes;
        let response =
            Responder { site: cx.site, now: cx.now, output, connection, head_only: false }.error(status);
        cx.tally.responses += 1;
        if cx.site.settings.log {
            output.push_end(Unfinished::of_refusal(self.peer, status, response.head_bytes, cx.now));
        }
        self.input = Vec::new();
        self.state = State::Closing { linger: true };
    }
}
