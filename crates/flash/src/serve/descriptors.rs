//! Divides the table of open files among the server itself, its helpers and programs, clients' connections, and the files that
//! caches hold open.
//!
//! The first thousand connections, or as many as the flag says, have priority over the caches. The caches have priority over
//! more connections. This module does not raise the limit, and does not handle requests while the table is full.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::flags::Arch;

/// Standard streams, signals, logs and what wakes their writers, closers, the root, mounts below it, the fork helper.
const OWN: usize = 25;
/// What a loop waits and is woken by, and what it opens for a moment.
const OF_LOOP: usize = 4;
/// The same for the steps of a pool of pipelined.
const OF_POOL: usize = 12;
/// A worker's channels to its parent, what ends the thread that looks for faults, what bounds how many workers check log-ins, and the parent's descriptors for the admin socket.
const OF_WORKER: usize = 9;
/// A helper's socket, if it is a process, and what it has opened.
const OF_HELPER: usize = 2;
/// Connections that come before the caches, where no flag says how many.
const CONNECTIONS: usize = 1024;
/// Files that are on their way to clients and in no cache: as many as there are connections, up to this.
const SENT_MAX: usize = 512;
/// Caches, helpers and programs are left at least, or have at most, this part each of a small table.
const PART: usize = 8;
const STEP: usize = 256;

/// A table of open files, and who wants what of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// Its size, as the kernel limits it.
    pub(super) limit: usize,
    pub(super) own: usize,
    pub(super) helpers: usize,
    pub(super) programs: usize,
    /// Folders of sites and places. Each that was visited is open.
    pub(super) folders: usize,
    /// Of a connection: its socket, and maybe one to a FastCGI server.
    pub(super) of_connection: usize,
    pub(super) connections: Option<usize>,
    /// Files that the path cache may hold open.
    pub(super) open_files: usize,
}

/// What each gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) helpers: usize,
    pub(super) connections: usize,
    /// Files that caches hold open.
    pub(super) cached: usize,
}

impl Table {
    pub(super) fn share(&self) -> Share {
        let rest = self.limit.saturating_sub(self.own);
        let helpers = self.helpers.min(rest / PART / OF_HELPER);
        let left = rest - helpers * OF_HELPER - self.programs.min(rest / PART);
        let cached = left.saturating_sub(self.of(self.connections.unwrap_or(CONNECTIONS)));
        let cached = self.open_files.min(cached.max(rest / PART));
        let most = self.within(left.saturating_sub(cached)).max(1);
        Share { helpers: helpers.max(1), connections: self.connections.unwrap_or(most).min(most), cached }
    }

    /// What so many connections need, and what is sent over them.
    fn of(&self, connections: usize) -> usize {
        connections * self.of_connection + connections.min(SENT_MAX)
    }

    /// The other way round.
    fn within(&self, descriptors: usize) -> usize {
        let each_with_a_file = descriptors / (self.of_connection + 1);
        each_with_a_file.max(descriptors.saturating_sub(SENT_MAX) / self.of_connection)
    }

    /// The least limit, in round numbers, that gives so many connections and no fewer helpers than are wanted.
    fn limit_for(&self, connections: usize) -> usize {
        let gives = |limit| {
            let share = Self { limit, connections: Some(connections), ..*self }.share();
            share.connections == connections && share.helpers >= self.helpers
        };
        let mut limit = self.limit.next_multiple_of(STEP);
        while !gives(limit) {
            limit += STEP.max(limit / STEP * STEP / 16);
        }
        limit
    }

    /// A warning, where the folders of all sites take more than the half of the table that they may have.
    pub(super) fn folders_warning(&self) -> Option<String> {
        let (folders, limit) = (self.folders, self.limit);
        (folders > folders_max(limit)).then(|| {
            let more = (2 * folders).next_multiple_of(STEP);
            format!(
                "sites have {folders} folders, each open once it was visited, and the limit of open files is {limit}; for \
                 all of them set it to {more} (ulimit -n {more}, or LimitNOFILE={more})"
            )
        })
    }

    /// A warning, where there is room for fewer connections than were asked for, or for few where no number was given.
    pub(super) fn warning(&self) -> Option<String> {
        let Share { connections, .. } = self.share();
        let wanted = self.connections.unwrap_or(CONNECTIONS);
        (connections < wanted).then(|| {
            let (limit, more) = (self.limit, self.limit_for(wanted));
            let unit = if connections == 1 { "connection" } else { "connections" };
            format!(
                "{connections} {unit} at most, because the limit of open files is {limit}; for {wanted} set it \
                 to {more} (ulimit -n {more}, or LimitNOFILE={more})"
            )
        })
    }
}

/// The most open folders of sites that the table is divided for.
pub(super) fn folders_max(limit: usize) -> usize {
    limit / 2
}

/// What the server opens before anybody comes, its listeners among it.
pub(super) fn own(arch: Arch, loops: usize, listeners: usize) -> usize {
    let of_loops = match arch {
        Arch::Amped | Arch::Uring | Arch::Sped => loops * OF_LOOP,
        Arch::Pipelined => loops * OF_POOL,
        Arch::Mt => 0,
        Arch::Mp => OF_WORKER,
    };
    OWN + listeners + of_loops
}

/// Raises the limit of open files as far as it goes, and returns it.
pub(crate) fn raise_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { limit.current };
    current.map_or(1 << 20, |current| current as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table {
        limit: 20_000,
        own: 31,
        helpers: 64,
        programs: 0,
        folders: 1,
        of_connection: 1,
        connections: None,
        open_files: 6_000,
    };

    fn share(limit: usize, connections: Option<usize>) -> (usize, usize, usize) {
        let Share { helpers, connections, cached } = Table { limit, connections, ..TABLE }.share();
        (helpers, connections, cached)
    }

    #[test]
    fn a_table_that_is_too_small_for_all_folders_is_told() {
        let said = |folders, limit| Table { folders, limit, ..TABLE }.folders_warning();
        assert_eq!(said(500, 1024), None);
        let warning = said(600, 1024).expect("600 folders are more than half of the table");
        assert!(
            warning.contains("limit of open files is 1024") && warning.contains("ulimit -n 1280"),
            "{warning}"
        );
    }

    #[test]
    fn a_small_table_is_mostly_for_connections() {
        assert_eq!(share(64, None), (2, 12, 4));
        assert_eq!(share(128, None), (6, 36, 12));
        assert_eq!(share(256, None), (14, 84, 28));
        assert_eq!(share(512, None), (30, 180, 60));
        assert_eq!(share(1024, None), (62, 372, 124));
    }

    #[test]
    fn a_large_one_has_room_for_all() {
        assert_eq!(share(4096, None), (64, 1024, 2401));
        assert_eq!(share(20_000, None), (64, 13_329, 6_000));
        assert_eq!(share(1 << 20, None), (64, (1 << 20) - 31 - 128 - 512 - 6_000, 6_000));
    }

    #[test]
    fn caches_shrink_before_connections_that_were_asked_for() {
        assert_eq!(share(20_000, Some(100)), (64, 100, 6_000));
        assert_eq!(share(4096, Some(100)), (64, 100, 3737));
        assert_eq!(share(4096, Some(2_900)), (64, 2_900, 525));
        assert_eq!(share(4096, Some(10_000)), (64, 2_917, 508));
        assert_eq!(share(256, Some(20)), (14, 20, 157));
    }

    #[test]
    fn there_is_always_a_connection_and_never_more_than_the_table() {
        assert_eq!(share(0, None), (1, 1, 0));
        for limit in 48..3_000 {
            for (connections, programs, of_connection) in
                [(None, 0, 1), (Some(50), 1280, 2), (Some(5_000), 10, 1)]
            {
                let table = Table { limit, connections, programs, of_connection, ..TABLE };
                let Share { helpers, connections, cached } = table.share();
                assert!(helpers > 0 && connections > 0, "{limit}");
                let used = 31 + 2 * helpers + cached + table.of(connections);
                assert!(used <= limit, "{limit}: {used}");
            }
        }
    }

    #[test]
    fn programs_have_their_part_and_no_more_of_a_small_table() {
        let table = Table { programs: 1280, ..TABLE };
        assert_eq!(table.share().connections, 13_329 - 1280);
        assert_eq!(Table { limit: 1024, ..table }.share().connections, 310);
        assert_eq!(Table { of_connection: 2, ..TABLE }.share().connections, 13_329 / 2);
    }

    #[test]
    fn the_warning_names_a_limit_that_is_enough() {
        let warning = |limit, connections| Table { limit, connections, ..TABLE }.warning();
        assert_eq!(warning(20_000, None), None);
        assert_eq!(warning(20_000, Some(10_000)), None);
        assert_eq!(warning(64, Some(12)), None);
        assert_eq!(
            warning(256, None).unwrap(),
            "84 connections at most, because the limit of open files is 256; for 1024 set it to 2048 (ulimit -n 2048, or \
             LimitNOFILE=2048)"
        );
        for wanted in [13, 100, 1_000, 10_000, 1 << 24] {
            let table = Table { limit: 64, connections: Some(wanted), ..TABLE };
            let limit = table.limit_for(wanted);
            assert!(table.warning().unwrap().contains(&format!("LimitNOFILE={limit}")), "{wanted}");
            let (helpers, connections, _) = share(limit, Some(wanted));
            assert_eq!((helpers, connections), (64, wanted));
            assert!(limit < 2048 + wanted * 5 / 4, "{limit} for {wanted}");
        }
    }
}
