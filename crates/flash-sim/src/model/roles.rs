//! What a model is made of: the roles of those who run requests, and how one is written down.

use super::program::{Op, Program, RoleId};
use crate::parameters::{Caches, Locks, Parameters};

/// A server.
#[derive(Clone, Debug)]
pub struct Model {
    pub roles: Vec<Role>,
    pub program: Vec<Op>,
    pub caches: Caches,
    /// Address spaces with a server in them: as many have books of their own where these are not shared.
    pub processes: u32,
}

/// Who runs requests: a pool of equal runners, or one group of them for each processor, which stays there.
#[derive(Clone, Debug)]
pub struct Role {
    pub name: &'static str,
    pub kind: Kind,
    pub mode: ServiceMode,
    pub place: Placement,
    /// In the whole pool, or for each processor.
    pub runners: u32,
}

/// What a runner is, which decides what turning to it costs and how much memory it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Thread,
    Process,
    HelperProcess,
}

/// How a runner serves requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceMode {
    /// Stays with a request from its beginning to its end.
    OneAtATime,
    /// Serves every request that is ready: an event loop, or a stage of a pipeline.
    Multiplexed,
    /// Does one job at a time and mostly sleeps. So a time-sharing scheduler gives it the next free processor.
    Helper,
}

/// Where runners run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    Anywhere,
    EachProcessor,
}

impl Model {
    pub(super) fn new(parameters: &Parameters, caches_in_paper: Caches, processes: u32) -> Model {
        let caches = parameters.server.caches.unwrap_or(caches_in_paper);
        Model { roles: Vec::new(), program: Vec::new(), caches, processes }
    }

    pub(super) fn role(
        &mut self,
        name: &'static str,
        kind: Kind,
        mode: ServiceMode,
        place: Placement,
        runners: u32,
    ) -> RoleId {
        self.roles.push(Role { name, kind, mode, place, runners });
        self.roles.len() - 1
    }

    pub(super) fn helpers(&mut self, p: &Parameters, name: &'static str, kind: Kind) -> RoleId {
        self.role(name, kind, ServiceMode::Helper, Placement::EachProcessor, p.server.helpers_per_processor)
    }

    /// Writes the program down. Look-ups in shared caches lock them.
    pub(super) fn runs(mut self, parameters: &Parameters, steps: impl FnOnce(Program) -> Program) -> Model {
        let locks = match self.caches {
            Caches::Shared => parameters.server.locks,
            Caches::Replicated | Caches::Private => Locks::None,
        };
        self.program = steps(Program::new(locks)).done();
        self
    }

    /// Threads, helper processes: what takes memory whatever the caches hold.
    pub fn runners(&self, kind: Kind, processors: u32) -> u64 {
        let of_role = |role: &Role| match role.place {
            Placement::Anywhere => u64::from(role.runners),
            Placement::EachProcessor => u64::from(role.runners) * u64::from(processors),
        };
        self.roles.iter().filter(|role| role.kind == kind).map(of_role).sum()
    }
}
