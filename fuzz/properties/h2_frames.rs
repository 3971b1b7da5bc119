//! The frames of an HTTP/2 client. No bytes may cause a panic, and cutting them must not change what they mean. A request's head
//! is one head and no more.

use flash_h2::request::HeadLimits;
use flash_h2::session::Limits;
use flash_h2::{Event, Scratch, Session};
use flash_http::{Parsed, head};

/// Small, so that inputs run into them.
const LIMITS: Limits = Limits {
    streams_max: 4,
    head: HeadLimits { bytes_max: 512, fields_max: 12 },
    resets: (8, 1),
    idle_frames: (32, 1),
};

pub(crate) fn check(input: &[u8]) {
    let whole = meaning([input].into_iter());
    let (one, two) = input.split_at(input.len() / 2);
    assert_eq!(meaning([one, two].into_iter()), whole);
    if input.len() <= 1024 {
        assert_eq!(meaning(input.chunks(1)), whole);
    }
}

/// What bytes mean in all.
#[derive(Debug, Default, PartialEq, Eq)]
struct Meaning {
    events: Vec<String>,
    data_bytes: usize,
    error: Option<String>,
}

fn meaning<'i>(pieces: impl Iterator<Item = &'i [u8]>) -> Meaning {
    let (mut session, mut scratch) = (Session::new(LIMITS), Scratch::default());
    let mut meaning = Meaning::default();
    for mut piece in pieces {
        loop {
            match session.next(&mut piece, &mut scratch, 0) {
                Ok(None) => break,
                Ok(Some(event)) => meaning.note(event, &scratch, &mut session),
                Err(error) => {
                    meaning.error = Some(format!("{error:?}"));
                    session.fail(error);
                    return meaning;
                }
            }
        }
        let mut control = Vec::new();
        session.take_control(&mut control);
    }
    meaning
}

impl Meaning {
    fn note(&mut self, event: Event<'_, ()>, scratch: &Scratch, session: &mut Session<()>) {
        match event {
            Event::Request { stream, priority, ends_stream } => {
                if let Ok(parsed) = head::parse(&scratch.text, &flash_http::Limits::default()) {
                    let Parsed::Complete { bytes, .. } = parsed else { panic!("a head without its end") };
                    assert_eq!(bytes, scratch.text.len(), "more than one head");
                }
                self.events.push(format!("{stream} {ends_stream} {}", scratch.text.escape_ascii()));
                session.open(stream, priority, ends_stream, ());
            }
            Event::Data { stream, bytes, ends_stream } => {
                self.data_bytes += bytes.len();
                session.consumed(stream, bytes.len());
                if ends_stream {
                    self.events.push(format!("{stream} ends"));
                }
            }
            // How often windows grow depends on the pieces.
            Event::Window => {}
            Event::Reset(stream) => self.events.push(format!("{} reset", stream.id)),
            Event::TooLarge { .. } | Event::End { .. } | Event::Pong => {
                self.events.push(format!("{event:?}"))
            }
        }
    }
}
