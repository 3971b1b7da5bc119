//! `flash sim explain` shows one request, from the moment when the client sends it to its last byte. It prints a timeline and
//! the sum of each kind of time, and draws a picture.

mod picture;
mod span;

use std::fmt::Write as _;

use flash_sim::Outcome;
use flash_sim::model::Cache;
use flash_sim::outcome::{Event, Moment};

use self::span::{Activity, Span};
use crate::flags;
use crate::output;
use crate::runner::Runner;
use flash_cli::{Failure, print};

pub(crate) fn run(flags: &flags::Explain) -> Result<(), Failure> {
    let scenario = flags.scenario.scenario()?;
    let measured = u64::from(scenario.run.measured_requests.get());
    if flags.request >= measured {
        let why =
            format!("--request {}: only {measured} requests are measured, the first is 0", flags.request);
        return Err(Failure::Usage(why));
    }
    let outcome = Runner::new(Some(1))?.run(&scenario, Some(flags.request))?;
    if !matches!(outcome.timeline.last(), Some(Moment { event: Event::Done, .. })) {
        let why = format!("the run ended before request {} did: measure more requests", flags.request);
        return Err(Failure::Run(why));
    }
    let title = format!(
        "Request {} of {} under {} on {} processors, {} clients",
        flags.request,
        scenario.workload,
        scenario.architecture.name().to_uppercase(),
        scenario.machine.processors,
        scenario.run.clients
    );
    let spans = spans(&outcome.timeline);
    if let Some(path) = &flags.svg {
        output::write(path, &picture::svg(&title, &spans))?;
    }
    print(format!("{title}\n\n{}\n{}", timeline(&outcome), sums(&spans)))
}

/// Each moment a line: when, how long until the next, and what.
fn timeline(outcome: &Outcome) -> String {
    let moments = &outcome.timeline;
    let mut text = String::from("      at us     for us\n");
    for (index, moment) in moments.iter().enumerate() {
        let lasts_us = moments.get(index + 1).map_or(0.0, |next| next.at_us - moment.at_us);
        let (at, lasts) = (format!("{:.2}", moment.at_us), format!("{lasts_us:.2}"));
        writeln!(text, "{at:>11} {lasts:>10}  {}", told(&moment.event)).expect("a String takes everything");
    }
    text
}

fn told(event: &Event) -> String {
    match event {
        Event::Queued { role } => format!("queued for {role}"),
        Event::Taken { role } => format!("{role} turns to it"),
        Event::Uses { processor, us } => format!("has processor {processor} for {us:.2} us"),
        Event::Ready => "waits for a processor".to_owned(),
        Event::Locks { lock } => format!("takes lock {lock}"),
        Event::WaitsForLock { lock } => format!("waits for lock {lock}"),
        Event::Unlocks { lock } => format!("leaves lock {lock}"),
        Event::Hit { cache: Cache::Path } => "its path is cached".to_owned(),
        Event::Hit { cache: Cache::Data } => "its content is cached".to_owned(),
        Event::Miss { cache: Cache::Path } => "its path is not cached".to_owned(),
        Event::Miss { cache: Cache::Data } => "its content is not cached".to_owned(),
        Event::WaitsForDisk { disk } => format!("waits for disk {disk}"),
        Event::Reads { disk, ms } => format!("disk {disk} reads for {ms:.3} ms"),
        Event::OnTheWire => "on the wire".to_owned(),
        Event::Done => "done".to_owned(),
    }
}

/// What each stretch between two moments was. Moments that take no time leave the state as it is.
fn spans(moments: &[Moment]) -> Vec<Span> {
    let mut state = Activity::Queued;
    let mut spans: Vec<Span> = Vec::new();
    for pair in moments.windows(2) {
        state = match &pair[0].event {
            Event::Queued { .. } => Activity::Queued,
            // Whoever turned to it needs a processor first.
            Event::Taken { .. } | Event::Ready => Activity::Ready,
            Event::Uses { .. } => Activity::Processor,
            Event::WaitsForLock { .. } => Activity::WaitsForLock,
            Event::WaitsForDisk { .. } => Activity::WaitsForDisk,
            Event::Reads { .. } => Activity::Reads,
            Event::OnTheWire => Activity::Wire,
            Event::Locks { .. }
            | Event::Unlocks { .. }
            | Event::Hit { .. }
            | Event::Miss { .. }
            | Event::Done => state,
        };
        let (from_us, to_us) = (pair[0].at_us, pair[1].at_us);
        match spans.last_mut() {
            Some(last) if last.state == state => last.to_us = to_us,
            _ if to_us > from_us => spans.push(Span { state, from_us, to_us }),
            _ => {}
        }
    }
    spans
}

/// What the time went into.
fn sums(spans: &[Span]) -> String {
    let of =
        |state| spans.iter().filter(|span| span.state == state).map(|span| span.to_us - span.from_us).sum();
    let whole_us: f64 = spans.iter().map(|span| span.to_us - span.from_us).sum();
    let mut text = String::new();
    for state in Activity::ALL {
        let us: f64 = of(state);
        if us > 0.0 {
            let percent = 100.0 * us / whole_us;
            writeln!(text, "{us:>11.2} us {percent:>5.1} %  {}", state.name())
                .expect("a String takes everything");
        }
    }
    writeln!(text, "{whole_us:>11.2} us 100.0 %  in all").expect("a String takes everything");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life() -> Vec<Moment> {
        let role = || "worker".to_owned();
        [
            (0.0, Event::Queued { role: role() }),
            (5.0, Event::Taken { role: role() }),
            (5.0, Event::Uses { processor: 1, us: 2.0 }),
            (7.0, Event::Miss { cache: Cache::Data }),
            (7.0, Event::WaitsForDisk { disk: 0 }),
            (17.0, Event::Reads { disk: 0, ms: 0.02 }),
            (37.0, Event::Ready),
            (38.0, Event::Uses { processor: 0, us: 1.0 }),
            (39.0, Event::Locks { lock: 0 }),
            (39.0, Event::Uses { processor: 0, us: 1.0 }),
            (40.0, Event::Done),
        ]
        .map(|(at_us, event)| Moment { at_us, event })
        .into()
    }

    #[test]
    fn a_life_is_a_row_of_stretches() {
        let spans: Vec<(Activity, f64, f64)> =
            spans(&life()).into_iter().map(|span| (span.state, span.from_us, span.to_us)).collect();
        let expected = [
            (Activity::Queued, 0.0, 5.0),
            (Activity::Processor, 5.0, 7.0),
            (Activity::WaitsForDisk, 7.0, 17.0),
            (Activity::Reads, 17.0, 37.0),
            (Activity::Ready, 37.0, 38.0),
            (Activity::Processor, 38.0, 40.0),
        ];
        assert_eq!(spans, expected);
    }

    #[test]
    fn sums_are_the_whole() {
        let text = sums(&spans(&life()));
        assert!(text.contains("      20.00 us  50.0 %  read from the disk"), "{text}");
        assert!(text.contains("       4.00 us  10.0 %  on a processor"), "{text}");
        assert!(text.ends_with("      40.00 us 100.0 %  in all\n"), "{text}");
    }

    #[test]
    fn pictures_show_each_state_that_there_was() {
        let picture = picture::svg("A <title>", &spans(&life()));
        assert!(picture.starts_with("<svg") && picture.contains("A &lt;title&gt;"));
        for state in Activity::ALL {
            let was = spans(&life()).iter().any(|span| span.state == state);
            assert_eq!(picture.contains(&state.name().replace('\'', "&#39;")), was, "{}", state.name());
        }
    }
}
