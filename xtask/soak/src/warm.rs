//! Before the clients come, each thread or process that serves one connection does everything once.
//!
//! Each of them keeps the most memory that it needed so far. By chance the last of them would get a long listing only after an
//! hour. Until then memory would grow, and hide a leak. As many connections as threads or processes, all open at the same time,
//! reach each of them.

use std::thread;
use std::time::Instant;

use super::ask::{Ask, RequestVariant, Target, said};
use super::client::{Broken, Connection, VISITOR};
use super::report::Fault;
use super::scene::Scene;
use super::site::{self, COLD_FILES, COLD_FOLDERS, NAMES};

/// More than the entries and the bytes that one process of mp has room for.
const COLD_FILES_EACH: usize = 600;
/// The largest file that each reads.
const BYTES_MAX: u64 = 10 << 20;
const ECHO_BYTES: usize = 100_000;

/// Has each runner do everything.
pub(crate) fn run(scene: &Scene) {
    // The first answer says that a runner has the connection, and goes on having it.
    let held: Vec<_> = (0..scene.crowd.runners).filter_map(|number| first(scene, number)).collect();
    thread::scope(|scope| {
        for (number, mut connection) in held.into_iter().enumerate() {
            scope.spawn(move || {
                for ask in everything(scene, number) {
                    if scene.is_over() || !perform(scene, &ask, &mut connection) {
                        return;
                    }
                }
            });
        }
    });
}

fn first(scene: &Scene, number: usize) -> Option<Connection> {
    match Connection::open(scene.port, VISITOR, None) {
        Ok(mut connection) => perform(scene, &cold(number), &mut connection).then_some(connection),
        Err(error) => {
            scene.report.violation(Fault::Silence, format_args!("cannot connect: {error}"));
            None
        }
    }
}

fn everything<'a>(scene: &Scene<'a>, number: usize) -> impl Iterator<Item = Ask<'a>> {
    let sized = scene.site.sized.iter().filter(|still| still.bytes <= BYTES_MAX);
    let sized = sized.map(|still| Target::Still(still.clone())).collect::<Vec<_>>();
    let folder = Target::Listing {
        target: site::cold_folder(number % COLD_FOLDERS),
        names: COLD_FILES / COLD_FOLDERS,
    };
    let names = Target::Listing { target: "/names/".into(), names: NAMES };
    let rest = [folder, names, Target::Echo(said(number as u64, ECHO_BYTES)), Target::File];
    let targets = sized.into_iter().chain(rest);
    let cold = (0..COLD_FILES_EACH).map(move |file| cold(number * COLD_FILES_EACH + file));
    cold.chain(targets.map(|target| Ask { target, variant: RequestVariant::Whole }))
}

fn cold<'a>(number: usize) -> Ask<'a> {
    Ask { target: Target::Still(site::cold(number % COLD_FILES)), variant: RequestVariant::Whole }
}

/// Whether the connection may be used again.
fn perform(scene: &Scene, ask: &Ask, connection: &mut Connection) -> bool {
    let mut request = Vec::new();
    ask.write(false, &mut request);
    let asked = Instant::now();
    // A failure shows when the answer is read.
    let _ = connection.send(&request);
    match ask.answer(connection, asked, scene.report) {
        Ok((head, _)) => head.keeps(),
        Err(broken) => {
            let fault = if matches!(broken, Broken::Silent) { Fault::Silence } else { Fault::Cut };
            scene.report.violation(fault, format_args!("{}, before the clients came: {broken}", ask.name()));
            false
        }
    }
}
