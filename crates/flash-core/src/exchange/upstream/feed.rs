//! The request's body on its way to the program. It is stored until it is whole.

use super::gateway_error::GatewayError;
use super::spooled_body::SpooledBody;
use super::watermark::BODY_BYTES;
use super::{RequestBodyLength, Stage, UpstreamExchange};
use crate::job::{Done, Job};
use crate::site::Site;

impl UpstreamExchange {
    pub(crate) fn body_has_ended(&self) -> bool {
        self.body_has_ended
    }

    /// The protocol holds the whole body, which has this many bytes. A small one stays there until the program runs.
    pub(crate) fn body_arrived(&mut self, bytes: usize) {
        if self.spools()
            && self.spooled.is_none()
            && self.body == RequestBodyLength::Known
            && bytes <= BODY_BYTES
        {
            self.stage = Stage::Pending;
        }
    }

    /// How many bytes of the request's body there is room for now.
    pub(crate) fn body_room(&mut self, site: &Site) -> usize {
        match (&self.stage, &site.routes) {
            (Stage::Spooling, Some(routes)) => {
                self.spooled.get_or_insert_with(|| Box::new(SpooledBody::new())).room(&routes.answers)
            }
            // A small body, which waited where it arrived.
            (Stage::Running(_), _) if self.spooled.is_none() => BODY_BYTES,
            _ => 0,
        }
    }

    /// Takes bytes of the request's body, no more than there is room for.
    pub(crate) fn put_body(&mut self, data: &[u8]) {
        match (&self.stage, &mut self.spooled) {
            (Stage::Running(running), None) => self.outgoing.put(data, running.upstream.protocol),
            (_, Some(spooled)) => spooled.put(data),
            _ => {}
        }
    }

    /// The request's body is complete.
    pub(crate) fn end_body(&mut self) {
        self.body_has_ended = true;
        match &self.stage {
            Stage::Running(running) => self.outgoing.end_body(running.upstream.protocol),
            Stage::Spooling => self.stage = Stage::Pending,
            Stage::Pending | Stage::Opening | Stage::Over => {}
        }
    }

    /// Gives the program as much of a stored body as it has room for.
    pub(crate) fn give_spooled(&mut self) {
        if let (Stage::Running(running), Some(spooled)) = (&self.stage, &mut self.spooled) {
            let protocol = running.upstream.protocol;
            if spooled.give(&mut self.outgoing, protocol) {
                self.spooled = None;
                self.outgoing.end_body(protocol);
            }
        }
    }

    /// Whether a job about the body is wanted.
    pub(crate) fn wants_job(&self) -> bool {
        self.spooled.as_ref().is_some_and(|spooled| spooled.is_wanted())
    }

    pub(crate) fn job(&mut self) -> Option<Job> {
        self.spooled.as_mut()?.ask().map(Job::Spool)
    }

    /// Takes the result of the job.
    pub(crate) fn job_done(&mut self, done: Done) -> Result<(), GatewayError> {
        // The connection may have been in a stage that gets no events of sockets.
        self.upstream_ready();
        let protocol = match &self.stage {
            Stage::Running(running) => Some(running.upstream.protocol),
            _ => None,
        };
        let Some(spooled) = &mut self.spooled else { return Ok(()) };
        spooled.take(done, &mut self.outgoing, protocol).map_err(GatewayError::of_spool)
    }
}
