//! The request's body on its way: from the client to the program as it comes, or, if it comes in chunks, to where it is kept
//! until it is whole, and from there to the program.

use super::fault::Fault;
use super::{Client, Exchange, OUTGOING_BYTES_MAX, Stage};
use crate::body::RequestBody;
use crate::job::{Done, Job};
use crate::program::Talk;
use crate::site::{Settings, Site};

impl Exchange {
    pub(crate) fn body_is_complete(&self) -> bool {
        self.body.is_complete()
    }

    /// The client closed its side, which says that it sends no more; whether it still listens, only sending tells. `false`
    /// if its request breaks off there, which no program may take for the whole of it.
    pub(crate) fn client_ended(&mut self, input: &[u8]) -> bool {
        // The body may still lie in the input.
        let came_whole = match &self.body {
            RequestBody::Complete => true,
            RequestBody::Length { left } => input.len() as u64 >= *left,
            RequestBody::Chunks { decoder, .. } => {
                decoder.clone().decode(input).is_ok_and(|progress| progress.complete)
            }
        };
        self.client = Client::HalfClosed;
        came_whole || matches!(self.stage, Stage::Over(_))
    }

    /// Moves what belongs to the body from the front of `input` to the program, or to where it is kept until it is whole, as
    /// far as there is room. Returns how much it was.
    pub(crate) fn feed(&mut self, input: &mut Vec<u8>, site: &Site) -> Result<u64, Fault> {
        match (&self.stage, &mut self.spooled) {
            (Stage::Spooling, Some(_)) => self.spool(input, site),
            (Stage::Running(running), Some(spooled)) => {
                let talk = running.backend.talk;
                if spooled.give(&mut self.outgoing, talk) {
                    self.spooled = None;
                    self.outgoing.end_body(talk);
                }
                Ok(0)
            }
            (Stage::Running(running), None) => {
                let talk = running.backend.talk;
                self.pass_on(input, talk, &site.settings)
            }
            _ => Ok(0),
        }
    }

    fn spool(&mut self, input: &mut Vec<u8>, site: &Site) -> Result<u64, Fault> {
        let (Some(spooled), Some(routes)) = (&mut self.spooled, &site.routes) else { return Ok(0) };
        let mut used = 0;
        while !self.body.is_complete() && used < input.len() {
            let room = spooled.room(&routes.answers);
            if room == 0 {
                break;
            }
            let piece = &input[used..input.len().min(used + room)];
            used += self
                .body
                .read(piece, site.settings.body_bytes_max, |data| spooled.put(data))
                .map_err(|reject| Fault { status: reject.status, reason: None })?;
        }
        input.drain(..used);
        if self.body.is_complete() {
            self.stage = Stage::Wanted;
        }
        Ok(used as u64)
    }

    /// Whether the body is kept until it is whole.
    pub(crate) fn spools(&self) -> bool {
        self.spooled.is_some()
    }

    pub(crate) fn job(&mut self) -> Option<Job> {
        self.spooled.as_mut()?.ask().map(Job::Spool)
    }

    pub(crate) fn awaits_job(&self) -> bool {
        self.spooled.as_ref().is_some_and(|spooled| spooled.is_under_way())
    }

    /// The job that was handed out is done.
    pub(crate) fn job_done(&mut self, done: Done) -> Result<(), Fault> {
        // The connection may have been where nothing is heard of its sockets.
        self.client_ready();
        self.backend_ready();
        let talk = match &self.stage {
            Stage::Running(running) => Some(running.backend.talk),
            _ => None,
        };
        let Some(spooled) = &mut self.spooled else { return Ok(()) };
        spooled.take(done, &mut self.outgoing, talk).map_err(Fault::of_spool)
    }

    fn pass_on(&mut self, input: &mut Vec<u8>, talk: Talk, settings: &Settings) -> Result<u64, Fault> {
        let outgoing = &mut self.outgoing;
        let mut used = 0;
        while !self.body.is_complete() && used < input.len() && outgoing.left() < OUTGOING_BYTES_MAX {
            let room = OUTGOING_BYTES_MAX - outgoing.left();
            let piece = &input[used..input.len().min(used + room)];
            used += self
                .body
                .read(piece, settings.body_bytes_max, |data| outgoing.put(data, talk))
                .map_err(|reject| Fault { status: reject.status, reason: None })?;
            if self.body.is_complete() {
                outgoing.end_body(talk);
            }
        }
        input.drain(..used);
        Ok(used as u64)
    }
}
