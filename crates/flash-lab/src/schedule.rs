//! The order of measurements. Within a round every server is measured at one place before the next place. So a machine that
//! drifts affects all servers alike. The server that goes first changes from place to place and from round to round.

use crate::plan::{At, Axis, Extent, Plan, ServerEntry};
use crate::record::Measurement;

/// One measurement to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub server: ServerEntry,
    pub at: At,
    pub repeat: u32,
    /// Its turn within the round.
    pub turn: u32,
}

/// All measurements of these servers, in order. The same seed gives the same order.
pub fn schedule(plan: &Plan, extent: Extent, servers: &[ServerEntry], seed: u64) -> Vec<Cell> {
    let mut places = plan.places(extent);
    if measures_capacity(plan) {
        // Levels are parts of the capacity, so that comes first.
        places.rotate_right(1);
    }
    let mut cells = Vec::new();
    for repeat in 0..plan.repeats(extent) {
        let mut turn = 0;
        for (number, at) in places.iter().enumerate() {
            for step in 0..servers.len() {
                let start = (seed as usize).wrapping_add(repeat as usize).wrapping_add(number);
                let server = servers[(start + step) % servers.len()].clone();
                if !plan.can(server.name(), at) {
                    continue;
                }
                cells.push(Cell { server, at: at.clone(), repeat, turn });
                turn += 1;
            }
        }
    }
    cells
}

/// Whether the last place of the sweep, level 1, is infinite demand, which all other levels are parts of.
pub fn measures_capacity(plan: &Plan) -> bool {
    plan.sweep.as_ref().is_some_and(|sweep| sweep.axis == Axis::LoadLevel)
}

/// The requests a second that a cell is asked: its level times what this server did with infinite demand in this round.
/// None where demand is infinite.
pub fn rate(plan: &Plan, cell: &Cell, done: &[Measurement]) -> Result<Option<f64>, String> {
    match &cell.at {
        At::Value(level) if measures_capacity(plan) && *level < 1.0 => {
            let capacity = done.iter().find(|one| {
                one.server == cell.server.name() && one.repeat == cell.repeat && one.x == At::Value(1.0)
            });
            let capacity = capacity.and_then(|one| one.figure("requests_per_second"));
            capacity
                .map(|capacity| Some(capacity * level))
                .ok_or_else(|| "its capacity is not known".to_owned())
        }
        _ => Ok(None),
    }
}

impl Cell {
    /// Whether this is the measurement that was to be made.
    pub fn is(&self, measurement: &Measurement) -> bool {
        measurement.server == self.server.name()
            && measurement.x == self.at
            && measurement.repeat == self.repeat
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.server.name())?;
        match &self.at {
            At::Only => Ok(()),
            at => write!(f, " at {at}"),
        }
    }
}
