//! The simplest workloads: one target, or a list of them, in turn and for ever.

use std::collections::HashMap;
use std::sync::Arc;

use flash_traffic::{Ask, Catalogue, File, Part, Sequence, Workload};

/// Targets that are asked for in turn; a part begins where it would be if the parts took turns.
pub struct Urls {
    catalogue: Arc<Catalogue>,
    order: Arc<[u32]>,
}

impl Urls {
    /// A list may name a target again, which is then asked for more often. There must be one at least.
    pub fn new(targets: impl IntoIterator<Item = String>, class: &str) -> Urls {
        let mut files = Vec::new();
        let mut known = HashMap::new();
        let order = targets.into_iter().map(|target| {
            *known.entry(target).or_insert_with_key(|target| {
                files.push(File { target: target.as_str().into(), bytes: None, class: 0, program: false });
                files.len() as u32 - 1
            })
        });
        let order: Arc<[u32]> = order.collect();
        assert!(!order.is_empty(), "a workload asks for something");
        Urls { catalogue: Arc::new(Catalogue { files, classes: vec![class.to_owned()] }), order }
    }
}

impl Workload for Urls {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, _seed: u64) -> Box<dyn Sequence> {
        Box::new(Turns { order: self.order.clone(), at: part.index as usize, step: part.of as usize })
    }
}

struct Turns {
    order: Arc<[u32]>,
    at: usize,
    step: usize,
}

impl Sequence for Turns {
    fn next(&mut self) -> Option<Ask> {
        let file = self.order[self.at % self.order.len()];
        self.at = self.at.wrapping_add(self.step);
        Some(Ask::of(file))
    }
}
