//! What an upstream has sent, and what the end of its stream means.

use flash_cgi::fastcgi::{self, Event};

use super::gateway_error::GatewayError;
use super::outgoing::WriteHalf;
use super::response_state::{DISCARD_BYTES_MAX, Writer};
use super::{Ended, Stage, UpstreamEvent, UpstreamExchange};
use crate::exchange::sink::ResponseSink;
use crate::upstream::{OpenError, ReleaseMode, Upstream, UpstreamFailure, UpstreamProtocol};

impl UpstreamExchange {
    /// The upstream has acted: its response goes to the writer.
    pub(crate) fn upstream_event(
        &mut self,
        event: UpstreamEvent<'_>,
        writer: &mut Writer<'_, impl ResponseSink>,
    ) -> Result<Ended, GatewayError> {
        match event {
            UpstreamEvent::Received(bytes) => self.upstream_received(bytes, writer),
            UpstreamEvent::Paused => self.reply.flush(writer).map(|()| Ended::Well),
            // What ends so is not whole, unless its length says that.
            UpstreamEvent::Broken if self.is_http() && self.reply.ends_with_its_stream() => {
                Err(GatewayError::of_program("broke its connection in the middle of its response"))
            }
            UpstreamEvent::Ended | UpstreamEvent::Broken => self.upstream_ended(writer),
        }
    }

    pub(crate) fn upstream_received(
        &mut self,
        bytes: &[u8],
        writer: &mut Writer<'_, impl ResponseSink>,
    ) -> Result<Ended, GatewayError> {
        let Stage::Running(running) = &mut self.stage else { return Ok(Ended::Well) };
        let (mut plain, mut has_ended) = (Vec::new(), false);
        if let Some(tls) = &mut self.outgoing.tls {
            let opened = tls.open(bytes, &mut plain, &mut self.outgoing.bytes);
            has_ended = opened.map_err(GatewayError::of_program)?;
            running.says_its_end |= has_ended;
            if plain.is_empty() {
                return if has_ended { self.upstream_ended(writer) } else { Ok(Ended::Well) };
            }
        }
        let bytes = if self.outgoing.tls.is_some() { &plain[..] } else { bytes };
        running.heard = true;
        if running.upstream.protocol == UpstreamProtocol::Http {
            let taken = self.reply.take(bytes, writer)?;
            // The last head is that of the final response.
            running.persists = writer.persists.unwrap_or(running.persists);
            if self.reply.is_complete() {
                let is_clean = running.persists
                    && !has_ended
                    && taken == bytes.len()
                    && self.outgoing.left() == 0
                    && self.outgoing.write_half == WriteHalf::Shut;
                self.over(if is_clean { ReleaseMode::Reusable } else { ReleaseMode::Ended });
            } else if self.reply.is_handed_on() {
                self.over(ReleaseMode::Ended);
            }
            return if has_ended { self.upstream_ended(writer) } else { Ok(Ended::Well) };
        }
        if running.upstream.protocol != UpstreamProtocol::FastCgi {
            self.reply.take(bytes, writer)?;
            if self.reply.is_complete() || self.reply.is_handed_on() {
                // The program may continue, but its response is complete.
                self.over(ReleaseMode::Ended);
            }
            return Ok(Ended::Well);
        }
        let mut rest = bytes;
        let broken = |error: fastcgi::Error| GatewayError::of_program(error.reason);
        while let Some(event) = running.decoder.next(&mut rest).map_err(broken)? {
            match event {
                Event::Stdout(bytes) if self.reply.is_complete() => {
                    running.surplus_bytes += bytes.len();
                    if running.surplus_bytes > DISCARD_BYTES_MAX {
                        self.over(ReleaseMode::Ended);
                        return Ok(Ended::Well);
                    }
                }
                Event::Stdout(bytes) => _ = self.reply.take(bytes, writer)?,
                Event::Stderr(bytes) => running.upstream.lease.stderr(bytes),
                Event::End(end) => {
                    request_ended(end)?;
                    self.reply.end(writer)?;
                    // The program would take unsent bytes of this request for the beginning of the next one.
                    let clean = rest.is_empty() && self.outgoing.left() == 0;
                    let clean = clean && self.outgoing.write_half == WriteHalf::Shut;
                    self.over(if clean { ReleaseMode::Reusable } else { ReleaseMode::Ended });
                    return Ok(Ended::Well);
                }
            }
        }
        // The client does not wait for what the program does after that.
        if self.reply.is_handed_on() {
            self.over(ReleaseMode::Ended);
        }
        Ok(Ended::Well)
    }

    pub(crate) fn upstream_ended(
        &mut self,
        writer: &mut Writer<'_, impl ResponseSink>,
    ) -> Result<Ended, GatewayError> {
        let Stage::Running(running) = &mut self.stage else { return Ok(Ended::Well) };
        // Nothing of CGI's is ever used again.
        let Upstream { used, server, lease, .. } = &mut running.upstream;
        if !running.heard && self.request.may_be_repeated() && (*used || lease.may_retry()) {
            // An idle connection says nothing about its server.
            let failed = (!*used).then_some(*server);
            if failed.is_some() {
                lease.failed(UpstreamFailure::Broken);
            }
            self.request.repeat(failed);
            self.leave(Stage::Pending, Some(ReleaseMode::Ended));
            return Ok(Ended::Retry);
        }
        if running.upstream.protocol == UpstreamProtocol::FastCgi {
            return Err(GatewayError::of_program("closed its connection in the middle of the request"));
        }
        // Others could end a body of no known length anywhere (RFC 9112 §9.8).
        if self.outgoing.tls.is_some() && !running.says_its_end && self.reply.ends_with_its_stream() {
            return Err(GatewayError::of_program("ended without a word of its TLS"));
        }
        self.reply.end(writer)?;
        self.over(ReleaseMode::Ended);
        Ok(Ended::Well)
    }
}

fn request_ended(end: fastcgi::End) -> Result<(), GatewayError> {
    match end {
        fastcgi::End::Complete { .. } => Ok(()),
        fastcgi::End::Overloaded => Err(OpenError::Busy.into()),
        fastcgi::End::CannotMultiplex => Err(GatewayError::of_program("says that it has a request already")),
        fastcgi::End::UnknownRole => Err(GatewayError::of_program("says that it is no responder")),
    }
}
