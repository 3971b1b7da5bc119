//! What a user without root can run of a plan: the same servers and clients, on the machine as it is.

use super::contents::{Axis, MachineNeeds, Plan};
use super::read::PlanError;

impl Plan {
    /// The plan without what takes root, and what that leaves out, in words. Nothing is left out of a plan that needs no root.
    ///
    /// # Errors
    /// When the plan varies what only root can change, or what matters on a limited machine only.
    pub fn reduced(&self) -> Result<(Plan, Vec<String>), PlanError> {
        let needs = &self.machine;
        let why = match self.sweep.as_ref().map(|sweep| sweep.axis) {
            Some(Axis::DeviceMilliseconds) => {
                Some("it varies the time of a disk read, by mounting a slow disk")
            }
            Some(Axis::Helpers) if *needs != MachineNeeds::default() => {
                Some("it varies helpers, which have nothing to wait for without a limited disk")
            }
            _ => None,
        };
        if let Some(why) = why {
            return Err(PlanError::NeedsRoot { name: self.name.clone(), why });
        }
        let left_out = [
            needs.memory_mb.map(|mb| format!("no memory limit of {mb} MB")),
            needs.disk_reads_per_second.map(|reads| format!("no limit of {reads} disk reads a second")),
            needs.read_ahead_kb.map(|kb| format!("the disk's own read-ahead instead of {kb} KB")),
            needs.seek_ms.map(|ms| format!("the disk as it is, and none with seeks of {ms} ms")),
            needs.arm.as_ref().map(|arm| format!("the disk as it is, and none with an arm ({arm})")),
            needs
                .cold
                .then(|| "only the pages of files are dropped before a measurement, and no names".to_owned()),
        ];
        let machine = MachineNeeds { cold: needs.cold, ..MachineNeeds::default() };
        Ok((Plan { machine, ..self.clone() }, left_out.into_iter().flatten().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Extent, built_in, find};
    use super::*;

    #[test]
    fn what_takes_root_is_left_out_and_said() {
        let (plan, _) = find("hot-cold").expect("it comes along");
        let (reduced, left_out) = plan.reduced().expect("something is left");
        assert_eq!(reduced.machine, MachineNeeds { cold: true, ..MachineNeeds::default() });
        assert_eq!(left_out.len(), 4, "{left_out:?}");
        assert_eq!(left_out[0], "no memory limit of 256 MB");
        assert_eq!((reduced.load, reduced.servers), (plan.load, plan.servers));
    }

    #[test]
    fn plans_without_needs_are_whole_and_others_say_why_nothing_is_left() {
        for built_in in built_in() {
            let (plan, _) = find(built_in.name).expect("it comes along");
            match plan.reduced() {
                Ok((_, left_out)) => {
                    assert_eq!(left_out.is_empty(), plan.machine == MachineNeeds::default(), "{}", plan.name);
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(["device-class", "helpers"].contains(&&*plan.name), "{said}");
                    assert!(said.contains(&format!("sudo flash lab run {}", plan.name)), "{said}");
                }
            }
        }
    }

    #[test]
    fn a_case_has_memory_of_its_own_where_there_is_a_limit() {
        let (plan, _) = find("memory-short").unwrap();
        let memory = |plan: &Plan| -> Vec<Option<u64>> {
            let places = plan.places(Extent::Full);
            [0, 4].map(|at| plan.memory_mb(&places[at])).into()
        };
        assert_eq!(memory(&plan), [Some(128), Some(256)]);
        assert_eq!(memory(&plan.reduced().unwrap().0), [None, None]);
    }
}
