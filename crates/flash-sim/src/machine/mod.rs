//! The machine.
use crate::{Demand, Outcome, Parameters, SimulationError};

pub(crate) fn simulate(_: &Parameters, _: &Demand) -> Result<Outcome, SimulationError> {
    todo!()
}
