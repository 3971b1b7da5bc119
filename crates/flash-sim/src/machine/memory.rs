//! What fits into the memory: Table 1 of the PIPELINED paper, and the sizes of the caches.

use crate::SimulationError;
use crate::model::{Kind, Model};
use crate::parameters::{Caches, Parameters};

/// How a server's memory is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Division {
    /// Threads and helper processes.
    pub runners_bytes: f64,
    /// For books and content together; 0 where the runners leave nothing.
    pub caches_bytes: f64,
    /// The data caches that share `caches_bytes`.
    pub data_caches: u32,
    /// What a file in a data cache weighs beside its content.
    pub entry_bytes: f64,
}

impl Division {
    pub fn of(parameters: &Parameters) -> Division {
        Division::for_model(parameters, &Model::of(parameters))
    }

    pub(super) fn for_model(parameters: &Parameters, model: &Model) -> Division {
        let memory = &parameters.memory;
        let number = |kind| model.runners(kind, parameters.machine.processors) as f64;
        let runners_bytes = number(Kind::Thread) * memory.thread_kb * 1e3
            + number(Kind::HelperProcess) * memory.helper_mb * 1e6;
        let (data_caches, books) = match model.caches {
            Caches::Shared => (1, 1),
            Caches::Replicated => (1, model.processes),
            Caches::Private => (model.processes, 1),
        };
        match parameters.machine.data_cache_mb {
            Some(mb) => {
                let caches_bytes = mb * 1e6 * f64::from(data_caches);
                Division { runners_bytes, caches_bytes, data_caches, entry_bytes: 0.0 }
            }
            None => Division {
                runners_bytes,
                caches_bytes: (parameters.machine.memory_mb * 1e6 - runners_bytes).max(0.0),
                data_caches,
                entry_bytes: memory.data_entry_bytes * f64::from(books),
            },
        }
    }

    /// Table 1: the cache overhead of so many cached files, in bytes. In private caches the files are those of all of them.
    pub fn overhead_bytes(&self, cached_files: f64) -> f64 {
        cached_files * self.entry_bytes + self.runners_bytes
    }

    /// §3.4: what is left for content, in bytes, when a file has so many on average. The paper takes 15 KB.
    pub fn content_bytes(&self, mean_file_bytes: f64) -> f64 {
        self.caches_bytes / (1.0 + self.entry_bytes / mean_file_bytes)
    }

    pub(super) fn check(&self, parameters: &Parameters) -> Result<(), SimulationError> {
        if self.caches_bytes >= 1.0 {
            return Ok(());
        }
        let (overhead_mb, memory_mb) = (self.runners_bytes / 1e6, parameters.machine.memory_mb);
        Err(SimulationError::Memory { overhead_mb, memory_mb })
    }
}
