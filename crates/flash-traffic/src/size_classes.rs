//! Any workload with its files in classes by size, so that results are told apart by it.

use std::sync::Arc;

use crate::workload::{Catalogue, Part, Sequence, Workload};

/// The same requests; only the classes are others.
pub struct SizeClasses {
    catalogue: Arc<Catalogue>,
    workload: Arc<dyn Workload>,
}

impl SizeClasses {
    /// A class for sizes up to each of these, which are sorted, and one for all larger sizes: `up to 1000 B`, `above 1000 B`.
    /// If only the server knows the sizes of some files, they have a class too: `unknown size`.
    pub fn new(workload: Arc<dyn Workload>, upto_bytes: &[u64]) -> Self {
        let mut upto_bytes = upto_bytes.to_vec();
        upto_bytes.sort_unstable();
        upto_bytes.dedup();
        let mut classes: Vec<String> = upto_bytes.iter().map(|bytes| format!("up to {bytes} B")).collect();
        classes.push(upto_bytes.last().map_or("any size".into(), |bytes| format!("above {bytes} B")));
        let mut files = workload.catalogue().files.clone();
        for file in &mut files {
            let class = match file.bytes {
                Some(bytes) => upto_bytes.partition_point(|upto| *upto < bytes),
                None => upto_bytes.len() + 1,
            };
            file.class = u16::try_from(class).expect("nobody lists 65,000 sizes");
        }
        if files.iter().any(|file| file.bytes.is_none()) {
            classes.push("unknown size".into());
        }
        Self { catalogue: Arc::new(Catalogue { files, classes }), workload }
    }
}

impl Workload for SizeClasses {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, seed: u64) -> Box<dyn Sequence> {
        self.workload.sequence(part, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listed;
    use crate::testing::targets;

    #[test]
    fn each_size_has_its_class() {
        let sweep: Arc<dyn Workload> = Arc::new(Listed::sweep(&[0, 1_000, 1_001, 5_000, 5_001]));
        let classed = SizeClasses::new(Arc::clone(&sweep), &[5_000, 1_000, 1_000]);
        assert_eq!(classed.catalogue().classes, ["up to 1000 B", "up to 5000 B", "above 5000 B"]);
        let classes: Vec<u16> = classed.catalogue().files.iter().map(|file| file.class).collect();
        assert_eq!(classes, [0, 0, 1, 1, 2]);
        assert_eq!(targets(&classed, Part::WHOLE, 7), targets(&*sweep, Part::WHOLE, 7));
    }

    #[test]
    fn unknown_sizes_have_one_too() {
        let listed = SizeClasses::new(Arc::new(Listed::parse(["/a"]).unwrap()), &[]);
        assert_eq!(listed.catalogue().classes, ["any size", "unknown size"]);
        assert_eq!(listed.catalogue().files[0].class, 1);
    }
}
