//! The architectures, a file each, to be held against the papers side by side. A model names the roles of those who run
//! requests, and writes down a request's life as a program of steps. It says who does what and who waits for whom; what
//! anything costs is in the parameters, and [`crate::machine`] interprets it.

mod amped;
mod mp;
mod mt;
mod newflash;
mod pipelined;
mod program;
mod roles;
mod sped;
mod uring;

pub use self::program::{Cache, Op, Program, Read, RoleId, Work};
pub use self::roles::{Kind, Model, Placement, Role, ServiceMode};
use crate::parameters::{Architecture, Parameters};

impl Model {
    /// The server that the parameters ask for.
    pub fn of(parameters: &Parameters) -> Model {
        match parameters.architecture {
            Architecture::Mp => mp::model(parameters),
            Architecture::Mt => mt::model(parameters),
            Architecture::Sped => sped::model(parameters),
            Architecture::Amped => amped::model(parameters),
            Architecture::Pipelined => pipelined::model(parameters),
            Architecture::Uring => uring::model(parameters),
            Architecture::NewFlash => newflash::model(parameters),
        }
    }
}
