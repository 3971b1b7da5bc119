//! The lines of a CGI response's head (RFC 3875 §6.3), and what they mean together.

use flash_http::{Fields, Status, scan};

use super::parts::{Bad, HandOff, Head, Kind, Limits, OfConnection, Parsed};

/// Why the parser went no further.
pub(super) enum Stop {
    Incomplete,
    Bad(Bad),
}

fn bad<T>(reason: &'static str) -> Result<T, Stop> {
    Err(Stop::Bad(Bad { reason }))
}

/// Reads a head in the form that `complete` knows: [`cgi`] or [`nph`].
pub(super) fn parse<'b>(
    input: &'b [u8],
    limits: &Limits,
    complete: impl FnOnce(&'b [u8], &Limits) -> Result<(Head<'b>, usize), Stop>,
) -> Result<Parsed<'b>, Bad> {
    let window = &input[..input.len().min(limits.head_bytes_max)];
    match complete(window, limits) {
        Ok((head, bytes)) => Ok(Parsed::Complete { head, bytes }),
        Err(Stop::Bad(bad)) => Err(bad),
        // A full window cannot become complete any more.
        Err(Stop::Incomplete) if window.len() == limits.head_bytes_max => {
            Err(Bad { reason: "the head is too long" })
        }
        Err(Stop::Incomplete) => Ok(Parsed::Incomplete),
    }
}

pub(super) fn cgi<'b>(input: &'b [u8], limits: &Limits) -> Result<(Head<'b>, usize), Stop> {
    let (seen, fields, end) = fields(input, 0, limits, Form::Cgi)?;
    // §6.2 wants one of its own fields among them. Apache and nginx do not insist, PHP can be told to name no type, and
    // nothing hangs on it.
    if fields == 0 {
        return bad("no field before the empty line");
    }
    Ok((seen.finish(&input[..end])?, end))
}

/// §5: a status line of HTTP/1, and fields as a server writes them.
pub(super) fn nph<'b>(input: &'b [u8], limits: &Limits) -> Result<(Head<'b>, usize), Stop> {
    let Whole { head, seen, end, .. } = whole(input, limits, LEAST_FINAL)?;
    if seen.transfer_encoding.is_some() {
        return bad("chunks of HTTP/1 for a client that speaks another protocol");
    }
    Ok((head, end))
}

/// RFC 9112 §4 to §6, as a server behind this one writes it.
pub(super) fn http<'b>(input: &'b [u8], limits: &Limits) -> Result<(Head<'b>, usize), Stop> {
    let Whole { mut head, seen, is_http_1_0, end } = whole(input, limits, LEAST)?;
    let is_chunked = match seen.transfer_encoding {
        None => false,
        // §6.1: such a server may mean something else by it.
        Some(_) if is_http_1_0 => return bad("a Transfer-Encoding of HTTP/1.0"),
        // §6.3: this may be an attempt to split responses.
        Some(_) if seen.content_length.is_some() => return bad("both Transfer-Encoding and Content-Length"),
        Some(coding) if coding.eq_ignore_ascii_case(b"chunked") => true,
        Some(_) => return bad("a transfer coding that nobody asked for"),
    };
    let persists = !seen.closes && (seen.keeps_alive || !is_http_1_0);
    let Seen { upgrade, names_fields, .. } = seen;
    head.of_connection = OfConnection { is_chunked, persists, upgrade, names_fields };
    Ok((head, end))
}

/// A head with a status line.
struct Whole<'b> {
    head: Head<'b>,
    seen: Seen<'b>,
    is_http_1_0: bool,
    end: usize,
}

fn whole<'b>(input: &'b [u8], limits: &Limits, least: u64) -> Result<Whole<'b>, Stop> {
    const VERSION: &[u8] = b"HTTP/1.";
    let front = &input[..input.len().min(VERSION.len())];
    if !VERSION.starts_with(front) {
        return bad("a response that does not begin with a status line of HTTP/1");
    }
    let line = &input[front.len()..];
    let length = scan::value_run(line);
    let next = front.len() + line_end(line, length)?;
    let (is_http_1_0, (status, reason)) = match &line[..length] {
        [minor @ (b'0' | b'1'), b' ', value @ ..] => (*minor == b'0', status(scan::trim(value), least)?),
        _ => return bad("a malformed status line"),
    };
    let (seen, _, end) = fields(input, next, limits, Form::Whole)?;
    let Seen { content_length, hand_off, limit_rate, .. } = seen;
    let (kind, lines, of_connection) = (Kind::Document, &input[next..end], OfConnection::default());
    let head = Head { kind, status, reason, hand_off, limit_rate, content_length, of_connection, lines };
    Ok(Whole { head, seen, is_http_1_0, end })
}

/// The field lines from `at` to the empty line: what they mean, how many they are, and where they end.
fn fields<'b>(
    input: &'b [u8],
    mut at: usize,
    limits: &Limits,
    form: Form,
) -> Result<(Seen<'b>, usize, usize), Stop> {
    let mut seen = Seen::default();
    let mut fields = 0;
    loop {
        match input.get(at) {
            None => return Err(Stop::Incomplete),
            Some(b'\r' | b'\n') => return Ok((seen, fields, line_end(input, at)?)),
            Some(_) => {}
        }
        fields += 1;
        if fields > limits.fields_max {
            return bad("too many fields");
        }
        let (name, value, next) = line(input, at)?;
        seen.field(name, value, form)?;
        at = next;
    }
}

/// One field line: its name, its value, and where the next line begins.
fn line(input: &[u8], start: usize) -> Result<(&[u8], &[u8], usize), Stop> {
    let line = &input[start..];
    let name = scan::token_run(line);
    match line.get(name) {
        None => return Err(Stop::Incomplete),
        Some(b':') if name > 0 => {}
        Some(b':') => return bad("a field without a name"),
        // RFC 9112 §5.2 forbids us to pass it on.
        Some(b' ' | b'\t') if name == 0 => return bad("a folded line"),
        // What nph- scripts write, and those whose authors think that theirs is one.
        Some(b'/') if &line[..name] == b"HTTP" => return bad("a status line, which only nph- scripts write"),
        Some(_) => return bad("a line that is no field"),
    }
    let value = &line[name + 1..];
    let length = scan::value_run(value);
    let next = line_end(value, length)?;
    Ok((&line[..name], scan::trim(&value[..length]), start + name + 1 + next))
}

/// §6.3: LF, or CR LF, at `at`; returns what lies behind it.
fn line_end(input: &[u8], at: usize) -> Result<usize, Stop> {
    match input.get(at..) {
        Some([b'\n', ..]) => Ok(at + 1),
        Some([b'\r', b'\n', ..]) => Ok(at + 2),
        Some([] | [b'\r']) | None => Err(Stop::Incomplete),
        Some([b'\r', ..]) => bad("a CR without its LF"),
        Some(_) => bad("a control character in a field"),
    }
}

/// How a head says its status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// In a field.
    Cgi,
    /// In a line of its own.
    Whole,
}

/// The least status of a response that no other one follows, and of any.
const LEAST_FINAL: u64 = 200;
const LEAST: u64 = 100;

/// The fields that decide something. §6.3: each at most once.
#[derive(Default)]
struct Seen<'b> {
    status: Option<(Status, &'b [u8])>,
    location: Option<&'b [u8]>,
    content_type: Option<&'b [u8]>,
    content_length: Option<u64>,
    hand_off: Option<HandOff<'b>>,
    limit_rate: Option<u64>,
    /// Means nothing in CGI's own form.
    transfer_encoding: Option<&'b [u8]>,
    upgrade: Option<&'b [u8]>,
    /// What Connection says.
    closes: bool,
    keeps_alive: bool,
    names_fields: bool,
    /// Others that the client gets.
    others: bool,
}

impl<'b> Seen<'b> {
    fn field(&mut self, name: &[u8], value: &'b [u8], form: Form) -> Result<(), Stop> {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        match name.len() {
            6 if is(b"status") && form == Form::Cgi => {
                once(&mut self.status, status(value, LEAST_FINAL)?, "several Status fields")
            }
            8 if is(b"location") => once(&mut self.location, value, "several Location fields"),
            12 if is(b"content-type") => once(&mut self.content_type, value, "several Content-Type fields"),
            10 if is(b"x-sendfile") => once(&mut self.hand_off, HandOff::File(value), SEVERAL_FILES),
            16 if is(b"x-accel-redirect") => once(&mut self.hand_off, HandOff::Path(value), SEVERAL_FILES),
            // As with nginx, one that is no number says nothing.
            18 if is(b"x-accel-limit-rate") => {
                self.limit_rate = scan::decimal(value).or(self.limit_rate);
                Ok(())
            }
            14 if is(b"content-length") => match scan::decimal(value) {
                Some(length) => once(&mut self.content_length, length, "several Content-Length fields"),
                None => bad("malformed Content-Length"),
            },
            17 if is(b"transfer-encoding") => {
                once(&mut self.transfer_encoding, value, "several Transfer-Encoding fields")
            }
            7 if is(b"upgrade") => {
                self.upgrade = Some(value);
                Ok(())
            }
            10 if is(b"connection") => {
                for option in options(value) {
                    match () {
                        () if option.eq_ignore_ascii_case(b"close") => self.closes = true,
                        () if option.eq_ignore_ascii_case(b"keep-alive") => self.keeps_alive = true,
                        () if option.eq_ignore_ascii_case(b"upgrade") => {}
                        () => self.names_fields = true,
                    }
                }
                Ok(())
            }
            _ => {
                self.others |= is_passed_on(name);
                Ok(())
            }
        }
    }

    /// The head is whole: which kind of response it announces (§6.2).
    fn finish(self, lines: &'b [u8]) -> Result<Head<'b>, Stop> {
        let given = self.status.map(|(status, _)| status);
        let (kind, default) = match (self.location, given) {
            (None, _) => (Kind::Document, Status::OK),
            (Some(b""), _) => return bad("an empty Location"),
            // §6.2.2. A script that says or sets anything beside it, as a cookie, wants the client to see that, and would
            // not if the server followed: then it is the client that is redirected. A type is what libraries always add.
            (Some(path), None) if !self.others && is_local(path) => (Kind::LocalRedirect(path), Status::OK),
            (Some(_), None | Some(Status(300..=303 | 305..=399))) => match self.content_type {
                None => (Kind::ClientRedirect, Status::FOUND),
                Some(_) => (Kind::ClientRedirectWithDocument, Status::FOUND),
            },
            // 201 Created has one that redirects nobody (RFC 9110 §10.2.2), and 304 nobody who is not there.
            (Some(_), Some(_)) => (Kind::Document, Status::OK),
        };
        let (status, reason) = self.status.unwrap_or((default, b""));
        let Self { hand_off, limit_rate, content_length, .. } = self;
        let of_connection = OfConnection::default();
        Ok(Head { kind, status, reason, hand_off, limit_rate, content_length, of_connection, lines })
    }
}

fn once<T>(place: &mut Option<T>, value: T, several: &'static str) -> Result<(), Stop> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => bad(several),
    }
}

/// §6.3.3: three digits, and perhaps a phrase. A status below 200 announces another response, which cannot come from CGI.
fn status(value: &[u8], least: u64) -> Result<(Status, &[u8]), Stop> {
    let (code, reason) = match value {
        [_, _, _] => (value, &b""[..]),
        [_, _, _, b' ' | b'\t', reason @ ..] => (&value[..3], scan::trim(reason)),
        _ => return bad("malformed Status"),
    };
    match scan::decimal(code) {
        Some(code) if (least..600).contains(&code) => Ok((Status(code as u16), reason)),
        Some(_) if least == LEAST => bad("a status that is not between 100 and 599"),
        Some(_) => bad("a Status that is not between 200 and 599"),
        None => bad("malformed Status"),
    }
}

/// §6.3.2: a path of this server. Two slashes begin another server's name (RFC 3986 §4.2), and a fragment is for the
/// client to keep.
fn is_local(location: &[u8]) -> bool {
    matches!(location, [b'/'] | [b'/', b'!'..=b'.' | b'0'.., ..])
        && scan::visible_run(location) == location.len()
        && !location.contains(&b'#')
}

const SEVERAL_FILES: &str = "several fields that hand files on";
/// What the fields begin with that tell nginx what to do with a response.
const ACCEL: &[u8] = b"x-accel-";

/// Whether the client gets such a field; see [`Head::fields`].
pub(super) fn is_passed_on(name: &[u8]) -> bool {
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    let kept_back = match name.len() {
        2 => is(b"te"),
        4 => is(b"date"),
        6 => is(b"status") || is(b"server"),
        7 => is(b"trailer") || is(b"upgrade"),
        10 => is(b"connection") || is(b"keep-alive") || is(b"x-sendfile"),
        14 => is(b"content-length"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        _ => false,
    };
    let is_accel = name.get(..ACCEL.len()).is_some_and(|start| start.eq_ignore_ascii_case(ACCEL));
    !kept_back && !is_accel
}

/// The words of a Connection field.
fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(scan::trim).filter(|option| !option.is_empty())
}

/// Whether a Connection field among these lines names the field (RFC 9110 §7.6.1).
pub(super) fn is_named_by_connection(name: &[u8], lines: &[u8]) -> bool {
    let all = Fields::of_checked(lines).filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"));
    all.flat_map(|(_, value)| options(value)).any(|option| option.eq_ignore_ascii_case(name))
}
