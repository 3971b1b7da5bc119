//! What is noted of a response whose head is written, for metrics. The access log and the list of slow requests get a record.

use flash_http::head::Head;
use flash_http::status::Status;

use super::passed_id::PassedId;
use crate::connection::context::Context;
use crate::connection::transport::TransportInfo;
use crate::record::request_id::LoggedId;
use crate::record::{Origin, RecordBuilder, SLOW_US, Timing};
use crate::site::Site;

pub(crate) fn record(
    head: &Head<'_>,
    (site, transport): (&Site, &TransportInfo),
    written: (Status, u64),
    timing: Timing,
    cx: &Context<'_>,
) -> RecordBuilder {
    let settings = &cx.server.settings;
    let is_slow = cx.now.us.saturating_sub(timing.started_us) >= SLOW_US;
    let log = site.settings.access_log.of(written.0);
    let client = settings.trusted_proxies.client(transport, head.fields);
    let origin = (log.is_some() || is_slow).then(|| {
        let id = timing.id;
        Origin {
            log,
            scheme: client.scheme.name(),
            tls_version: transport.tls.map(|tls| tls.version_name()),
            id: PassedId::of(site, transport, head, id, cx.server)
                .map_or(LoggedId::Own(id), PassedId::logged),
            span: settings.trace_context.span(head, id),
        }
    });
    RecordBuilder::new(head, origin, (site.counted_as, client.peer), written, timing, cx.now)
}
