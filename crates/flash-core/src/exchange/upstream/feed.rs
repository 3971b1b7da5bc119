//! The request's body on its way to the program: it is stored until it is whole. And the jobs about what is stored.

use super::gateway_error::GatewayError;
use super::job_done::JobDone;
use super::outgoing::WriteHalf;
use super::spool_queue::{Moved, SpoolQueue};
use super::watermark::BODY_BYTES;
use super::{RequestBodyLength, Stage, UpstreamExchange};
use crate::job::{Done, Failure, Job};

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
    pub(crate) fn body_room(&mut self) -> usize {
        match (&self.stage, &self.routes) {
            (Stage::Spooling, Some(routes)) => {
                let spooled = self.spooled.get_or_insert_with(|| Box::new(SpoolQueue::new()));
                spooled.make_room(&routes.answers, None);
                spooled.room(&routes.answers)
            }
            // What it does not want to read, the client need not send before the answer.
            (Stage::Running(_), _) if self.streams && self.outgoing.write_half == WriteHalf::Refused => 0,
            (Stage::Running(_), _) if self.streams || self.reply.is_tunnel() => self.outgoing.room(),
            // The upstream has answered before it had all of it. The rest is dropped.
            (Stage::Over, _) => BODY_BYTES,
            // A small body, which waited where it arrived.
            (Stage::Running(_), _) if self.spooled.is_none() => BODY_BYTES,
            _ => 0,
        }
    }

    /// Takes bytes of the request's body, no more than there is room for.
    pub(crate) fn put_body(&mut self, data: &[u8]) {
        match (&self.stage, &mut self.spooled) {
            (Stage::Running(running), None) => self.outgoing.put(data, running.upstream.protocol),
            (_, Some(spooled)) => {
                if let Some(routes) = &self.routes {
                    spooled.put(data, &routes.answers);
                }
            }
            _ => {}
        }
    }

    /// Takes lines of trailer fields, in pieces, which are for the server.
    pub(crate) fn put_trailers(&mut self, lines: &[u8]) {
        if self.streams {
            self.trailers.extend_from_slice(lines);
        }
    }

    /// The request's body is complete.
    pub(crate) fn end_body(&mut self) {
        self.body_has_ended = true;
        match &self.stage {
            Stage::Running(running) => {
                let trailers = self.request.trailers(&std::mem::take(&mut self.trailers));
                self.outgoing.end_body(running.upstream.protocol, &trailers);
            }
            Stage::Spooling => self.stage = Stage::Pending,
            Stage::Pending | Stage::Opening | Stage::Over => {}
        }
    }

    /// Gives the program as much of a stored body as it has room for.
    pub(crate) fn give_spooled(&mut self) {
        let (Stage::Running(running), Some(spooled)) = (&self.stage, &mut self.spooled) else { return };
        let (protocol, outgoing) = (running.upstream.protocol, &mut self.outgoing);
        let room = outgoing.room();
        let has_refused = outgoing.write_half == WriteHalf::Refused;
        if !has_refused && room > 0 && !(spooled.is_in_file() && outgoing.left() > 0) {
            spooled.give(room, |bytes| outgoing.put(bytes, protocol));
        }
        if has_refused || spooled.is_empty() {
            self.spooled = None;
            outgoing.end_body(protocol, b"");
        }
    }

    /// Whether a job is wanted, about the body or about the response. There is one at a time.
    pub(crate) fn wants_job(&self) -> bool {
        !self.awaits_job() && self.queues().any(SpoolQueue::is_wanted)
    }

    pub(crate) fn awaits_job(&self) -> bool {
        self.queues().any(SpoolQueue::is_under_way)
    }

    fn queues(&self) -> impl Iterator<Item = &SpoolQueue> {
        self.spooled.as_deref().into_iter().chain(self.ahead.as_deref())
    }

    pub(crate) fn job(&mut self) -> Option<Job> {
        if self.awaits_job() {
            return None;
        }
        let of_body = self.spooled.as_mut().and_then(|spooled| spooled.ask());
        of_body.or_else(|| self.ahead.as_mut()?.ask()).map(Job::Spool)
    }

    /// Takes the result of the job.
    pub(crate) fn job_done(&mut self, done: Done) -> Result<JobDone, GatewayError> {
        // The connection may have been in a stage that gets no events of sockets.
        self.upstream_ready();
        if let Some(spooled) = self.spooled.as_mut().filter(|spooled| spooled.is_under_way()) {
            return match (spooled.take(done).map_err(GatewayError::of_spool)?, &self.stage) {
                (Moved::Written(bytes), _) => Ok(JobDone::Written(bytes)),
                (Moved::Unwritten(failure), _) => Err(GatewayError::of_spool(failure)),
                (Moved::Read(bytes), Stage::Running(running)) => {
                    self.outgoing.put(&bytes, running.upstream.protocol);
                    Ok(JobDone::Nothing)
                }
                (Moved::Read(_) | Moved::Nothing, _) => Ok(JobDone::Nothing),
            };
        }
        let Some(ahead) = &mut self.ahead else { return Ok(JobDone::Nothing) };
        let moved = ahead.take(done).map_err(|_| GatewayError::of_stored_response())?;
        self.forget_empty();
        Ok(match moved {
            Moved::Written(bytes) => JobDone::Written(bytes),
            Moved::Read(bytes) => JobDone::Response(bytes),
            Moved::Unwritten(Failure::Full) => {
                JobDone::Refused("waits for its client: the folder for temporary files is full")
            }
            Moved::Unwritten(Failure::Broken) => {
                JobDone::Refused("waits for its client: the folder for temporary files fails")
            }
            // The component that refuses a job logs that.
            Moved::Unwritten(_) | Moved::Nothing => JobDone::Nothing,
        })
    }

    /// The job takes too long. A response may go on without it.
    pub(crate) fn job_is_late(&mut self) -> Result<(), GatewayError> {
        match &mut self.ahead {
            Some(ahead) if ahead.is_under_way() => match ahead.give_up_job() {
                true => Ok(()),
                false => Err(GatewayError::of_stored_response()),
            },
            _ => Err(GatewayError::of_spool(Failure::TimedOut)),
        }
    }
}
