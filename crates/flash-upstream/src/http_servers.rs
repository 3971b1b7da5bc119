//! HTTP servers that answer the same: which of them gets a request, and which is next if that one cannot be reached.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use flash_core::upstream::{OnOpened, Open, OpenError, Opened};

use crate::server::Server;
use crate::settings::Balance;

#[derive(Debug)]
pub(crate) struct HttpServers {
    servers: Vec<Arc<Server>>,
    balance: Balance,
    /// Counts the requests, to take turns.
    turn: AtomicUsize,
}

/// More than these are not tried for one request.
pub(crate) const TRIED_MAX: usize = 3;

/// A request that has reached no server yet.
struct Search {
    servers: Arc<HttpServers>,
    request: Open,
    tried: Vec<usize>,
    /// Taken by the attempt that answers.
    reply: Arc<Mutex<Option<OnOpened>>>,
}

impl HttpServers {
    pub(crate) fn new(servers: Vec<Arc<Server>>, balance: Balance) -> Self {
        Self { servers, balance, turn: AtomicUsize::new(0) }
    }

    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    pub(crate) fn begin(self: &Arc<Self>, begin: Open, reply: OnOpened) -> Option<Opened> {
        match &self.servers[..] {
            [server] => server.begin(begin, reply),
            _ => {
                let reply = Arc::new(Mutex::new(Some(reply)));
                Search { servers: Arc::clone(self), request: begin, tried: Vec::new(), reply }
                    .go_on(OpenError::Broken)
            }
        }
    }

    /// The server for a request that has reached none of those that were `tried`. One that was not reached a moment ago is the last
    /// choice.
    fn choose(&self, tried: &[usize], now: Instant) -> Option<usize> {
        let left = |is_open: bool| {
            let all = self.servers.iter().enumerate();
            all.filter(move |(which, server)| !tried.contains(which) && server.is_open(now) == is_open)
        };
        let is_open = left(false).next().is_none();
        let count = left(is_open).count();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        // It may have been reached meanwhile, or not.
        let at = |number: usize| left(is_open).nth(number % count.max(1)).or_else(|| left(is_open).next());
        let found = match self.balance {
            Balance::RoundRobin => at(turn),
            Balance::LeastRequests => {
                let (one, other) = two_of(count, turn);
                at(one).into_iter().chain(at(other)).min_by_key(|(_, server)| server.under_way())
            }
        };
        found.map(|(which, _)| which)
    }
}

/// Two of so many, in no order that can be seen. They differ, if there are two. The second one may lie behind the last, for the first
/// ones.
fn two_of(count: usize, turn: usize) -> (usize, usize) {
    let one = scattered(turn) % count.max(1);
    (one, one + 1 + scattered(!turn) % count.saturating_sub(1).max(1))
}

/// The same numbers in no order that can be seen (SplitMix64).
fn scattered(number: usize) -> usize {
    let mut bits = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) as usize
}

impl Search {
    /// Tries the next servers, until one is there at once or has to be waited for.
    fn go_on(mut self, mut last: OpenError) -> Option<Opened> {
        while self.tried.len() < TRIED_MAX
            && let Some(which) = self.servers.choose(&self.tried, Instant::now())
        {
            self.tried.push(which);
            let server = Arc::clone(&self.servers.servers[which]);
            match server.begin(self.request.again(), self.next().on_opened()) {
                None => return None,
                Some(Opened::Failed(error)) => last = error,
                opened => return opened,
            }
        }
        Some(Opened::Failed(last))
    }

    fn next(&self) -> Self {
        Self {
            servers: Arc::clone(&self.servers),
            request: self.request.again(),
            tried: self.tried.clone(),
            reply: Arc::clone(&self.reply),
        }
    }

    /// Takes the result of an attempt that had to be waited for.
    fn on_opened(self) -> OnOpened {
        Box::new(move |opened| {
            let reply = Arc::clone(&self.reply);
            let opened = match opened {
                Opened::Failed(error) => self.go_on(error),
                opened => Some(opened),
            };
            let answer = || reply.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(opened) = opened
                && let Some(reply) = answer()
            {
                reply(opened);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_two() {
        for count in 2..6 {
            let mut seen = vec![0; count];
            for turn in 0..1000 {
                let (one, other) = two_of(count, turn);
                assert!(one < count && one != other % count, "{turn} of {count}");
                seen[one] += 1;
                seen[other % count] += 1;
            }
            let each = 2000 / count;
            assert!(seen.iter().all(|seen: &usize| seen.abs_diff(each) < each / 4), "{seen:?}");
        }
        assert_eq!(two_of(1, 5), (0, 1), "which is the first again");
    }

    #[test]
    fn numbers_are_scattered() {
        let mut counts = [0; 5];
        (0..5000).for_each(|number| counts[scattered(number) % 5] += 1);
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }
}
