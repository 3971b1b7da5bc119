//! The static requests of a log.
//!
//! A static request is a GET with a response of 200 or 304, for a file whose size is known. Its target has no `?`, and is not
//! below `/cgi-bin/`. A file's size is that of the largest 200 response for its URL. If all of them were empty, the size is not
//! known. All other requests of a log are counted and left out.

pub mod replay;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use crate::log::{self, Format, LogError, Report, Request};
use crate::name;
use crate::statistics::{TraceStatistics, lru_hits};
use crate::workload::FileId;

/// In which order a log's requests are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// That of the lines, which is when servers wrote them.
    AsLogged,
    /// That of their times, and that of the lines where these are the same.
    ByTime,
}

/// The static requests of a log.
#[derive(Clone, Debug)]
pub struct Trace {
    urls: Vec<Box<[u8]>>,
    sizes: Vec<u64>,
    /// Files are numbered in the order in which they are first asked for.
    asked: Vec<FileId>,
    /// When each was asked for, in seconds as in the log.
    at_seconds: Vec<i64>,
    counts: Counts,
    report: Report,
}

/// What a log holds besides static requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of any kind.
    pub requests: u64,
    /// Those of any kind that were not answered with 200.
    pub not_200: u64,
    /// 200 replies to what would be static requests if every size were known.
    pub replies: u64,
    /// What those replies weighed; where the log has a dash, nothing.
    pub replies_bytes: u64,
}

impl Trace {
    /// Reads a log, in the given format or in the one that it seems to have. If no order is given, a World Cup log is sorted by
    /// time, because it is a sample without order. Other logs keep their order.
    pub fn read(path: &Path, format: Option<Format>, order: Option<Order>) -> Result<Self, LogError> {
        let mut gathered = Gathered::default();
        let report = log::read(path, format, &mut |request| gathered.request(&request))?;
        let unordered = report.formats.contains(&Format::WorldCup);
        let order = order.unwrap_or(if unordered { Order::ByTime } else { Order::AsLogged });
        Ok(gathered.trace(order, report))
    }

    /// What became of the log's lines.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// What the whole log held, truncated or not.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes of each file, by its number.
    pub fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// The requests in order, as numbers of files.
    pub fn asked(&self) -> &[FileId] {
        &self.asked
    }

    /// Its files and requests in numbers.
    pub fn statistics(&self) -> TraceStatistics {
        TraceStatistics::of(&self.sizes, &self.asked)
    }

    /// Which share of the requests hits an LRU cache of so many bytes that begins empty.
    pub fn lru_hit_rate(&self, cache_bytes: u64) -> f64 {
        lru_hits(&self.sizes, &self.asked, cache_bytes) as f64 / (self.asked.len() as f64).max(1.0)
    }

    /// Keeps the first requests, up to the one with which the files asked for reach `data_set_bytes` (Flash §6.2); all of
    /// them where they never do.
    pub fn truncate(&mut self, data_set_bytes: u64) {
        let mut files = 0;
        let mut bytes = 0;
        let enough = self.asked.iter().position(|&file| {
            if file == files {
                files += 1;
                bytes += self.sizes[file as usize];
            }
            bytes >= data_set_bytes
        });
        if let Some(last) = enough {
            self.asked.truncate(last + 1);
            self.at_seconds.truncate(last + 1);
            self.urls.truncate(files as usize);
            self.sizes.truncate(files as usize);
        }
    }
}

/// A log while it is read.
#[derive(Default)]
struct Gathered {
    numbers: HashMap<Box<[u8]>, FileId>,
    /// The largest 200 reply for each URL.
    sizes: Vec<u64>,
    requests: Vec<(i64, FileId)>,
    counts: Counts,
}

impl Gathered {
    fn request(&mut self, request: &Request) {
        self.counts.requests += 1;
        self.counts.not_200 += u64::from(request.status != 200);
        // What is no path at all stays as it is, and is counted when names are given.
        let url = name::origin_form(request.target).unwrap_or(request.target);
        let is_static = request.method == b"GET"
            && matches!(request.status, 200 | 304)
            && !url.contains(&b'?')
            && !url.starts_with(b"/cgi-bin/");
        if !is_static {
            return;
        }
        let next = FileId::try_from(self.sizes.len()).expect("a log has fewer than 2^32 URLs");
        let file = match self.numbers.get(url) {
            Some(&file) => file,
            None => {
                self.numbers.insert(url.into(), next);
                self.sizes.push(0);
                next
            }
        };
        if request.status == 200 {
            let bytes = request.bytes.unwrap_or(0);
            let size = &mut self.sizes[file as usize];
            *size = bytes.max(*size);
            self.counts.replies += 1;
            self.counts.replies_bytes += bytes;
        }
        self.requests.push((request.at_seconds, file));
    }

    fn trace(mut self, order: Order, report: Report) -> Trace {
        self.requests.retain(|&(_, file)| self.sizes[file as usize] > 0);
        if order == Order::ByTime {
            self.requests.sort_by_key(|&(at, _)| at);
        }
        let mut urls = vec![None; self.sizes.len()];
        for (url, file) in self.numbers {
            urls[file as usize] = Some(url);
        }
        let mut trace = Trace {
            urls: Vec::new(),
            sizes: Vec::new(),
            asked: Vec::with_capacity(self.requests.len()),
            at_seconds: Vec::with_capacity(self.requests.len()),
            counts: self.counts,
            report,
        };
        let mut renumbered: Vec<Option<FileId>> = vec![None; self.sizes.len()];
        for (at, file) in self.requests {
            let number = *renumbered[file as usize].get_or_insert_with(|| {
                trace.urls.extend(urls[file as usize].take());
                trace.sizes.push(self.sizes[file as usize]);
                trace.sizes.len() as FileId - 1
            });
            trace.asked.push(number);
            trace.at_seconds.push(at);
        }
        trace
    }
}
