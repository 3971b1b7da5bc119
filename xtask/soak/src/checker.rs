//! Compares a body with what its file holds, as it comes. Of a file that changes, the first bytes tell the version, and
//! the others must be of the same one.

use flash_traffic::content::Content;

use super::live::Live;

/// As many bytes tell a version from all others.
const TELLING_BYTES: usize = 16;

pub(crate) struct Checker<'a> {
    source: Source<'a>,
    /// The place in the file of the next byte.
    at: u64,
    /// The first bytes, while they are too few to tell the version.
    lead: Vec<u8>,
    wrong: Option<String>,
}

enum Source<'a> {
    Known(Content),
    Live { live: &'a Live, version: Option<u64> },
}

impl<'a> Checker<'a> {
    /// A body that begins at this place of a file that never changes.
    pub(crate) fn still(target: &str, from: u64) -> Checker<'a> {
        Checker { source: Source::Known(Content::new(0, target)), at: from, lead: Vec::new(), wrong: None }
    }

    pub(crate) fn live(live: &'a Live, from: u64) -> Checker<'a> {
        Checker { source: Source::Live { live, version: None }, at: from, lead: Vec::new(), wrong: None }
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        if self.wrong.is_some() || bytes.is_empty() {
            return;
        }
        if let Source::Live { version: None, .. } = self.source {
            self.lead.extend_from_slice(bytes);
            if self.lead.len() >= TELLING_BYTES {
                let lead = std::mem::take(&mut self.lead);
                match self.version_of(&lead) {
                    Some(version) => self.settle(version),
                    None => self.wrong = Some(format!("the bytes from {} on are of no version", self.at)),
                }
                self.take(&lead);
            }
            return;
        }
        let content = match &self.source {
            Source::Known(content) => *content,
            Source::Live { live, version } => live.content(version.unwrap_or_default()),
        };
        if let Some(place) = content.first_difference(self.at, bytes) {
            self.wrong = Some(self.describe(place, &bytes[(place - self.at) as usize..]));
        }
        self.at += bytes.len() as u64;
    }

    /// The version, once enough bytes have come to tell it.
    pub(crate) fn version(&self) -> Option<u64> {
        match self.source {
            Source::Live { version, .. } => version,
            Source::Known(_) => None,
        }
    }

    /// What is wrong with the body, if anything is.
    pub(crate) fn finish(self) -> Option<String> {
        let unknown = !self.lead.is_empty();
        self.wrong.or(unknown.then(|| "too few bytes to tell their version".into()))
    }

    fn settle(&mut self, told: u64) {
        if let Source::Live { version, .. } = &mut self.source {
            *version = Some(told);
        }
    }

    fn version_of(&self, bytes: &[u8]) -> Option<u64> {
        let Source::Live { live, .. } = &self.source else { return None };
        let versions = live.history().versions();
        let telling = &bytes[..bytes.len().min(TELLING_BYTES)];
        versions
            .into_iter()
            .find(|&version| live.content(version).first_difference(self.at, telling).is_none())
    }

    fn describe(&self, place: u64, bytes: &[u8]) -> String {
        let Source::Live { live, version: Some(version) } = &self.source else {
            return format!("byte {place} is another");
        };
        let telling = &bytes[..bytes.len().min(TELLING_BYTES)];
        let is = |&other: &u64| live.content(other).first_difference(place, telling).is_none();
        match live.history().versions().into_iter().find(is) {
            Some(other) => {
                format!("a mixture: version {version} up to byte {place}, version {other} from there")
            }
            None => format!("byte {place} is not that of version {version}, nor of another"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(live: &Live, version: u64, from: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        live.content(version).fill(from, &mut bytes);
        bytes
    }

    /// A file of which versions 0 to 3 are known.
    fn replaced() -> (tempfile::TempDir, Live) {
        let folder = tempfile::tempdir().expect("a folder");
        let live = Live::make_all(folder.path()).expect("files").swap_remove(0);
        let mut rng = fastrand::Rng::with_seed(1);
        (0..3).for_each(|_| live.change(&mut rng).expect("a change"));
        (folder, live)
    }

    fn check(live: &Live, from: u64, pieces: &[&[u8]]) -> (Option<u64>, Option<String>) {
        let mut checker = Checker::live(live, from);
        pieces.iter().for_each(|piece| checker.take(piece));
        (checker.version(), checker.finish())
    }

    #[test]
    fn versions_are_told_from_any_place_and_in_any_pieces() {
        let (_folder, live) = replaced();
        for from in [0, 5, 8] {
            let bytes = body(&live, 2, from, 100);
            for piece in [1, 15, 16, 100] {
                let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
                assert_eq!(check(&live, from, &pieces), (Some(2), None));
            }
        }
    }

    #[test]
    fn mixtures_and_foreign_bytes_are_wrong() {
        let (_folder, live) = replaced();
        let mixed = [body(&live, 1, 0, 50), body(&live, 3, 50, 50)].concat();
        let (version, wrong) = check(&live, 0, &[&mixed]);
        assert_eq!(version, Some(1));
        let wrong = wrong.expect("it is wrong");
        assert_eq!(wrong, "a mixture: version 1 up to byte 50, version 3 from there");
        assert!(check(&live, 0, &[&[7; 100]]).1.expect("wrong").contains("no version"));
        assert!(check(&live, 0, &[&body(&live, 1, 0, 5)]).1.expect("wrong").contains("too few"));
    }

    #[test]
    fn still_files_are_compared_from_their_place_on() {
        let mut bytes = vec![0; 100];
        Content::new(0, "/x").fill(7, &mut bytes);
        let mut checker = Checker::still("/x", 7);
        checker.take(&bytes[..50]);
        checker.take(&bytes[50..]);
        assert_eq!(checker.finish(), None);
        bytes[60] ^= 1;
        let mut checker = Checker::still("/x", 7);
        checker.take(&bytes);
        assert_eq!(checker.finish().as_deref(), Some("byte 67 is another"));
    }
}
