//! Some of a folder's names, on their way from the disk.

use super::name::Kind;

/// Names in the order in which the disk returns them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each name ends.
    ends: Vec<(u32, Kind)>,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn push(&mut self, name: &[u8], kind: Kind) {
        self.bytes.extend_from_slice(name);
        self.ends.push((self.bytes.len() as u32, kind));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Kind)> + Clone {
        let mut from = 0;
        self.ends.iter().map(move |&(end, kind)| {
            let name = &self.bytes[from..end as usize];
            from = end as usize;
            (name, kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_keeps_names_and_kinds() {
        let mut batch = Batch::default();
        let all = [(&b"a"[..], Kind::File), (b"", Kind::Unclear), (b"bcd", Kind::Folder)];
        all.iter().for_each(|(name, kind)| batch.push(name, *kind));
        assert!(batch.iter().eq(all) && batch.len() == 3 && !batch.is_empty());
    }
}
