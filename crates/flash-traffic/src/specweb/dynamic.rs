//! SPECweb99's whole mix: of a hundred requests thirty are for programs, which wrap one of the same files into a page. The
//! shares are those of its white paper, section 6; visitors, advertisements and the log of posts are simpler than there.

use std::sync::Arc;

use rand::RngExt;
use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

use super::{SpecWeb, place};
use crate::programs::{ADS, PAGE_BYTES, VISITORS};
use crate::sample::{Generator, generator, mix};
use crate::workload::{Ask, Catalogue, File, FileId, Message, Part, Sequence, Workload};

/// The classes, and the percentage of requests that each gets.
const KINDS: [(&str, f64); 5] =
    [("static", 70.0), ("dynamic", 12.45), ("custom", 12.6), ("post", 4.8), ("cgi", 0.15)];

/// Five targets for each file: so many directories are 1.8 million.
const DIRECTORIES_MAX: u32 = 10_000;

/// The class that is always answered by a program of its own process.
const CGI: &str = "/cgi-bin/specweb99";

/// The static mix with programs in it.
#[derive(Clone, Debug)]
pub struct Dynamic {
    of: SpecWeb,
    catalogue: Arc<Catalogue>,
    kinds: Arc<WeightedAliasIndex<f64>>,
}

impl Dynamic {
    /// `program` is the target that answers, such as `/specweb99.php`, also what would be for a CGI program; without one, the CGI
    /// program does. None for more than
    /// 10,000 directories.
    pub fn new(of: SpecWeb, program: Option<&str>) -> Option<Self> {
        let program = program.unwrap_or(CGI);
        let still = &of.catalogue.files;
        if still.len() > (DIRECTORIES_MAX * super::DIRECTORY_FILES) as usize {
            return None;
        }
        let mut files = Vec::with_capacity(KINDS.len() * still.len());
        for (class, (kind, _)) in (0..).zip(KINDS) {
            files.extend(still.iter().map(|file| match kind {
                "static" => File { class, ..file.clone() },
                _ => File {
                    target: match kind {
                        "post" => program.into(),
                        _ => format!("{program}?{}", file.target).into(),
                    },
                    bytes: file.bytes.map(|bytes| PAGE_BYTES + bytes),
                    class,
                    program: true,
                },
            }));
        }
        let classes = KINDS.map(|(kind, _)| kind.to_owned()).to_vec();
        let kinds = WeightedAliasIndex::new(KINDS.map(|(_, share)| share).to_vec());
        Some(Self {
            of,
            catalogue: Arc::new(Catalogue { files, classes }),
            kinds: Arc::new(kinds.expect("five shares, none of them negative")),
        })
    }
}

impl Workload for Dynamic {
    fn catalogue(&self) -> &Arc<Catalogue> {
        &self.catalogue
    }

    fn sequence(&self, part: Part, seed: u64) -> Box<dyn Sequence> {
        Box::new(Mixed {
            of: self.of.sequence(part, seed),
            kinds: Arc::clone(&self.kinds),
            // Not what the files are drawn from.
            random: generator(mix(seed), part.index.into()),
            files: self.of.catalogue.files.len() as FileId,
        })
    }
}

struct Mixed {
    of: Box<dyn Sequence>,
    kinds: Arc<WeightedAliasIndex<f64>>,
    random: Generator,
    /// Of each kind.
    files: FileId,
}

impl Sequence for Mixed {
    fn next(&mut self) -> Option<Ask> {
        let ask = self.of.next()?;
        let kind = self.kinds.sample(&mut self.random);
        let message = match KINDS[kind].0 {
            "custom" => Some(self.cookie()),
            "post" => Some(self.form(ask.file)),
            _ => None,
        };
        let file = kind as FileId * self.files + ask.file;
        Some(Ask { file, message: message.map(Arc::new), ..ask })
    }
}

impl Mixed {
    fn cookie(&mut self) -> Message {
        let (visitor, ad) = (self.random.random_range(0..VISITORS), self.random.random_range(0..ADS));
        Message { fields: format!("Cookie: my_cookie=user_id={visitor}&last_ad={ad}\r\n"), body: None }
    }

    /// What a visitor fills in to get this file.
    fn form(&mut self, file: FileId) -> Message {
        let (directory, class, nth) = place(file);
        let visitor = self.random.random_range(0..VISITORS);
        let body = format!("urlroot=/file_set/&dir={directory:05}&class={class}&num={nth}&client={visitor}");
        Message {
            fields: "Content-Type: application/x-www-form-urlencoded\r\n".into(),
            body: Some(body.into_bytes().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specweb::Sessions;
    use crate::testing::asks;

    fn dynamic(program: Option<&str>) -> Dynamic {
        Dynamic::new(SpecWeb::new(2, Sessions::Fixed(5)).unwrap(), program).unwrap()
    }

    #[test]
    fn every_kind_gets_its_share() {
        let mix = dynamic(None);
        let drawn = asks(&mix, Part::WHOLE, 200_000);
        for (class, (kind, percent)) in (0..).zip(KINDS) {
            let count =
                drawn.iter().filter(|ask| mix.catalogue.files[ask.file as usize].class == class).count();
            let expected = drawn.len() as f64 * percent / 100.0;
            let deviations = (count as f64 - expected).abs() / expected.sqrt();
            assert!(deviations < 5.0, "{kind}: {count} of {expected}");
        }
        // The files, and how sessions end, are those of the static mix.
        let still = asks(&mix.of, Part::WHOLE, 1_000);
        let alike = |(one, other): (&Ask, &Ask)| one.file % 72 == other.file && one.closes == other.closes;
        assert!(drawn.iter().zip(&still).all(alike));
    }

    #[test]
    fn requests_say_what_programs_need() {
        let mix = dynamic(Some("/specweb99.php"));
        let seen = |class: u16| {
            let ask = asks(&mix, Part::WHOLE, 10_000).into_iter();
            let mut of = ask.filter(|ask| mix.catalogue.files[ask.file as usize].class == class);
            let ask = of.next().unwrap();
            let file = &mix.catalogue.files[ask.file as usize];
            let still = &mix.catalogue.files[(ask.file % 72) as usize];
            assert_eq!(file.program, class > 0);
            let page = if class > 0 { PAGE_BYTES } else { 0 };
            assert_eq!(file.bytes, still.bytes.map(|bytes| bytes + page));
            (file.target.replace(&*still.target, "FILE"), still.target.to_string(), ask.message)
        };
        assert_eq!((seen(0).0, seen(0).2), ("FILE".into(), None));
        assert_eq!((seen(1).0, seen(1).2), ("/specweb99.php?FILE".into(), None));
        let (target, _, message) = seen(2);
        let cookie = message.unwrap().fields.clone();
        assert!(
            target == "/specweb99.php?FILE" && cookie.starts_with("Cookie: my_cookie=user_id="),
            "{cookie}"
        );
        let (target, file, message) = seen(3);
        let body = String::from_utf8(message.unwrap().body.clone().unwrap().to_vec()).unwrap();
        let named = format!("dir={}&class={}&num={}&", &file[13..18], &file[24..25], &file[26..27]);
        assert!(target == "/specweb99.php" && body.contains(&named), "{file}: {body}");
        assert_eq!(seen(4).0, "/specweb99.php?FILE");
    }
}
