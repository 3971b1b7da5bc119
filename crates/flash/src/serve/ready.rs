//! What a server tells when it serves: its predecessor, the service manager, and the terminal.

use std::process;
use std::rc::Rc;
use std::sync::Arc;

use flash_process::{Predecessor, ServiceManager, child};
use flash_upstream::Connector;

use super::certificates::Certificates;
use super::programs::Programs;

pub(super) struct Ready {
    pub(super) predecessor: Option<Rc<Predecessor>>,
    pub(super) manager: ServiceManager,
    /// What is served, where and how.
    pub(super) line: String,
    pub(super) certificates: Arc<Certificates>,
    pub(super) warnings: Vec<String>,
    pub(super) programs: Vec<Arc<Programs>>,
    /// What makes connections in place of a server in its sandbox.
    pub(super) connector: Option<Arc<Connector>>,
}

impl Ready {
    /// `log` takes the lines for an error log that is not on the terminal.
    pub(super) fn tell(self, log: &dyn Fn(&str)) {
        if let Some(Err(error)) = self.predecessor.map(|predecessor| predecessor.ready()) {
            // Nothing has begun here that has to end in order.
            child::log(format_args!("{error}"));
            process::exit(1);
        }
        self.manager.ready(format_args!("{}", self.line));
        let refusals = self.programs.iter().flat_map(|programs| programs.refusals(self.connector.as_deref()));
        let remarks = self.certificates.remarks.iter().cloned();
        for line in [self.line].into_iter().chain(remarks).chain(self.warnings).chain(refusals) {
            child::log(format_args!("{line}"));
            log(&line);
        }
    }
}
