//! Flash servers behind a balancer. Each has a copy of the site, and its part of the memory, as on a machine of its own. They
//! share the disk.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cgroup::Cgroup;
use crate::disk::drop_pages;
use crate::machine::Machine;
use crate::process::Process;
use crate::setup::Setup;
use crate::undo;

const COUNT: usize = 3;

/// What one of the servers has for as long as it runs.
pub(crate) struct BackEnd {
    pub(crate) port: u16,
    pub(crate) admin: Option<PathBuf>,
    _memory: Option<Cgroup>,
    _site: Copy,
}

/// A copy of a site.
struct Copy(PathBuf);

impl Machine {
    /// Starts the servers behind the balancer at this port.
    pub(crate) fn start_back_ends(&self, setup: &Setup, port: u16) -> Result<Vec<(Process, BackEnd)>> {
        let sites = (0..COUNT).map(|number| Copy::make(setup, port, number)).collect::<Result<Vec<_>>>()?;
        sites.into_iter().map(|site| self.start_back_end(setup, site)).collect()
    }

    fn start_back_end(&self, setup: &Setup, site: Copy) -> Result<(Process, BackEnd)> {
        let memory = setup.group.map(|group| group.part(&self.journal, COUNT as u64)).transpose()?;
        let own = Setup { root: &site.0, group: memory.as_ref(), port: None, program: None, ..setup.clone() };
        let server = self.start(&"amped".parse()?, &own)?;
        let back_end = BackEnd { port: server.port, admin: server.admin, _memory: memory, _site: site };
        Ok((server.process, back_end))
    }
}

impl Copy {
    /// Copies the site. None of its pages stay in memory.
    fn make(setup: &Setup, port: u16, number: usize) -> Result<Copy> {
        let copy = Copy(setup.work.join(format!("site-{port}-{number}")));
        let mut cp = Command::new("cp");
        cp.args(["--recursive", "--reflink=never"]).arg(setup.root).arg(&copy.0);
        undo::run(&mut cp).with_context(|| format!("copying the site to {}", copy.0.display()))?;
        drop_pages(&copy.0)?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
