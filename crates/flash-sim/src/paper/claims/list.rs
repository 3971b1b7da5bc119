//! The claims themselves, in the paper's order.

use flash_sim::Architecture::{self, Amped, Mp, Mt, Pipelined, Sped};
use flash_sim::Outcome;

use super::super::exhibit::Exhibit::{self, Figure, Table};
use super::super::overhead::{data_cache_mb, flash_servers_mb};
use super::claim::{Claim, One, growth, largest_lead_over_mt, least, most, percent_more};
use super::reasons::{
    ALIKE, BALANCED, BLOCKS, LOG, MEASURED, are_alike, farthest, is_as_with_blocks, leads_grow,
};

const OTHERS: [Architecture; 4] = [Mp, Mt, Sped, Amped];

fn overhead_mb(architecture: Architecture, processors: u32) -> f64 {
    4096.0 - data_cache_mb(architecture, processors, 4096.0)
}

/// What is left of the data cache at 16 processors of what it is at one, in per cent, with 1,000 MB.
fn left_at_16(architecture: Architecture) -> f64 {
    let cache = |n| data_cache_mb(architecture, n, 1000.0);
    100.0 * cache(16) / cache(1)
}

fn bandwidth(one: &One, panel: &str, architecture: Architecture, x: u32) -> f64 {
    one.at(panel, architecture, x, |outcome| outcome.mbit_per_s)
}

/// From what a request waits at locks.
fn lock_wait_us(outcome: &Outcome) -> f64 {
    let waits = outcome.locks.iter().map(|lock| lock.wait_mean_us * lock.taken as f64);
    waits.sum::<f64>() / outcome.requests as f64
}

fn busiest_disk(outcome: &Outcome) -> f64 {
    100.0 * outcome.disks.iter().map(|disk| disk.busy).fold(0.0, f64::max)
}

const FIG2: &[Exhibit] = &[Figure(2)];
const FIG5: &[Exhibit] = &[Figure(5)];
const FIG6: &[Exhibit] = &[Figure(6)];
const FIG7: &[Exhibit] = &[Figure(7)];
const FIG8: &[Exhibit] = &[Figure(8)];

pub(super) static CLAIMS: [Claim; 28] = [
    Claim {
        id: "C1a",
        about: &[Table(1)],
        claimed: "At 16 processors AMPED carries 8 times PIPELINED's overhead",
        measure: "AMPED's overhead over PIPELINED's with 4 GB",
        unit: "",
        rule: "8 to 10 times",
        check: |_| {
            let times = overhead_mb(Amped, 16) / overhead_mb(Pipelined, 16);
            (times, (8.0..10.0).contains(&times))
        },
        otherwise: "",
        is_borne_out: |_| true,
    },
    Claim {
        id: "C1b",
        about: &[Figure(3)],
        claimed: "MP's data cache reduces drastically with processors",
        measure: "MP's data cache at 16 processors, of that at one",
        unit: "%",
        rule: "below 25 %",
        check: |_| (left_at_16(Mp), left_at_16(Mp) < 25.0),
        otherwise: "",
        is_borne_out: |_| true,
    },
    Claim {
        id: "C1c",
        about: &[Figure(3)],
        claimed: "MT's and PIPELINED's data caches stay almost constant",
        measure: "the smaller of the two at 16 processors, of that at one",
        unit: "%",
        rule: "above 95 %",
        check: |_| {
            let left = left_at_16(Mt).min(left_at_16(Pipelined));
            (left, left > 95.0)
        },
        otherwise: "",
        is_borne_out: |_| true,
    },
    Claim {
        id: "C2a",
        about: FIG2,
        claimed: "Eight Flash servers with a data cache of 100 MB have 120 MB of overhead",
        measure: "by the paper's own parameters",
        unit: "MB",
        rule: "105 to 135 MB",
        check: |_| {
            let overhead = flash_servers_mb(8.0, 100.0) - 100.0;
            (overhead, (105.0..135.0).contains(&overhead))
        },
        otherwise: MEASURED,
        is_borne_out: |_| true,
    },
    Claim {
        id: "C2b",
        about: FIG2,
        claimed: "and almost 200 MB with one of 200 MB",
        measure: "by the paper's own parameters",
        unit: "MB",
        rule: "175 to 205 MB",
        check: |_| {
            let overhead = flash_servers_mb(8.0, 200.0) - 200.0;
            (overhead, (175.0..205.0).contains(&overhead))
        },
        otherwise: MEASURED,
        is_borne_out: |_| true,
    },
    Claim {
        id: "C3a",
        about: FIG5,
        claimed: "Validation: bandwidth drops once the data set passes the cache's 100 MB",
        measure: "150 MB against 90 MB, the model that drops least",
        unit: "%",
        rule: "-10 % or less",
        check: |one| {
            let change =
                |a| percent_more(bandwidth(one, "figure5a", a, 150), bandwidth(one, "figure5a", a, 90));
            let smallest = most(OTHERS.map(change));
            (smallest, smallest <= -10.0)
        },
        otherwise: LOG,
        is_borne_out: |one| {
            OTHERS.iter().all(|&a| one.at("figure5a", a, 150, |outcome| outcome.data_hit_rate) > 0.97)
        },
    },
    Claim {
        id: "C3b",
        about: FIG5,
        claimed: "and AMPED holds best",
        measure: "AMPED over the best other at 150 MB",
        unit: "%",
        rule: "not below -1 %",
        check: |one| {
            let best = most([Mp, Mt, Sped].map(|a| bandwidth(one, "figure5a", a, 150)));
            let lead = percent_more(bandwidth(one, "figure5a", Amped, 150), best);
            (lead, lead >= -1.0)
        },
        otherwise: "",
        is_borne_out: |_| true,
    },
    Claim {
        id: "C3c",
        about: FIG5,
        claimed: "and MP is lowest",
        measure: "MP over the lowest other, where it comes closest to it",
        unit: "%",
        rule: "below 0 for each data set",
        check: |one| {
            let over = |x| {
                let lowest = least([Mt, Sped, Amped].map(|a| bandwidth(one, "figure5a", a, x)));
                percent_more(bandwidth(one, "figure5a", Mp, x), lowest)
            };
            let closest = most(one.xs("figure5a", |_| true).into_iter().map(over));
            (closest, closest < 0.0)
        },
        otherwise: "SPED is lowest: its one process waits for the disk. MP shares content by mapping, as in Table 1. Here the cache is fixed, so MP's cache entries take nothing from it.",
        is_borne_out: |one| {
            let at = |a| bandwidth(one, "figure5a", a, 150);
            at(Sped) < least([Mp, Mt, Amped].map(at))
        },
    },
    Claim {
        id: "C4",
        about: FIG5,
        claimed: "Validation: MP sinks slowly past 200 clients",
        measure: "500 clients against 200",
        unit: "%",
        rule: "-50 to -2 %",
        check: |one| {
            let change =
                percent_more(bandwidth(one, "figure5b", Mp, 500), bandwidth(one, "figure5b", Mp, 200));
            (change, (-50.0..=-2.0).contains(&change))
        },
        otherwise: "One processor is the bottleneck from 5 clients on, and MP has 32 processes with any number of clients. No cost that the paper gives a number for grows with clients.",
        is_borne_out: |one| {
            [200, 500].iter().all(|&x| one.at("figure5b", Mp, x, |outcome| outcome.processors.busy) > 0.9)
        },
    },
    Claim {
        id: "C5a",
        about: FIG6,
        claimed: "Penn State CSE, 4 GB: PIPELINED up to 30 % over MT, SPED and AMPED",
        measure: "its largest lead over the best of them",
        unit: "%",
        rule: "15 to 45 %",
        check: |one| {
            let leads = one.xs("figure6a", |_| true).into_iter();
            let lead = most(leads.map(|x| one.lead("figure6a", Pipelined, &[Mt, Sped, Amped], x)));
            (lead, (15.0..=45.0).contains(&lead))
        },
        otherwise: ALIKE,
        is_borne_out: |one| are_alike(one, "figure6a"),
    },
    Claim {
        id: "C5b",
        about: FIG6,
        claimed: "and the gap grows with processors",
        measure: "its lead at 16 processors less that at 5",
        unit: "points",
        rule: "above 2",
        check: |one| {
            let lead = |x| one.lead("figure6a", Pipelined, &[Mt, Sped, Amped], x);
            let wider = lead(16) - lead(5);
            (wider, wider > 2.0)
        },
        otherwise: "For PIPELINED against MT, see C5a. Against SPED and AMPED alone its lead does grow, because their cache entries take memory from their cache.",
        is_borne_out: |one| {
            let lead = |x| one.lead("figure6a", Pipelined, &[Sped, Amped], x);
            lead(16) > lead(5) && are_alike(one, "figure6a")
        },
    },
    Claim {
        id: "C5c",
        about: FIG6,
        claimed: "and MP is worst",
        measure: "MP over the worst other at 16 processors",
        unit: "%",
        rule: "below 0",
        check: |one| {
            let worst = least([Mt, Sped, Amped, Pipelined].map(|a| one.throughput("figure6a", a, 16)));
            let over = percent_more(one.throughput("figure6a", Mp, 16), worst);
            (over, over < 0.0)
        },
        otherwise: "",
        is_borne_out: |_| true,
    },
    Claim {
        id: "C6a",
        about: FIG6,
        claimed: "UC Berkeley, 3.5 GB: PIPELINED noticeably outperforms all others",
        measure: "its lead over the best other at 16 processors",
        unit: "%",
        rule: "above 5 %",
        check: |one| {
            let lead = one.lead("figure6b", Pipelined, &OTHERS, 16);
            (lead, lead > 5.0)
        },
        otherwise: "MT and PIPELINED have the same cache and the same disk, which is always busy. Against SPED and AMPED it holds.",
        is_borne_out: |one| {
            let busy = least([Mt, Pipelined].map(|a| one.at("figure6b", a, 16, busiest_disk)));
            busy > 95.0 && one.lead("figure6b", Pipelined, &[Sped, Amped], 16) > 5.0
        },
    },
    Claim {
        id: "C6b",
        about: FIG6,
        claimed: "but AMPED is best up to 3 processors",
        measure: "its smallest lead over the best other",
        unit: "%",
        rule: "not below -1 %",
        check: |one| {
            let few = one.xs("figure6b", |x| x <= 3).into_iter();
            let lead = least(few.map(|x| one.lead("figure6b", Amped, &[Mp, Mt, Sped, Pipelined], x)));
            (lead, lead >= -1.0)
        },
        otherwise: "The disk is the bottleneck from the second processor on, and AMPED's cache entries take some of its cache with each processor. At one processor AMPED saves switches. MT, with 32 threads, gains more by starting disk reads early.",
        is_borne_out: |one| {
            one.at("figure6b", Amped, 3, busiest_disk) > 90.0 && one.lead("figure6b", Amped, &[Mt], 3) < 0.0
        },
    },
    Claim {
        id: "C7a",
        about: FIG6,
        claimed: "Penn State, 1.5 GB: PIPELINED best past 8 processors",
        measure: "its smallest lead over the best other past 8",
        unit: "%",
        rule: "not below -1 %",
        check: |one| {
            let many = one.xs("figure6c", |x| x > 8).into_iter();
            let lead = least(many.map(|x| one.lead("figure6c", Pipelined, &OTHERS, x)));
            (lead, lead >= -1.0)
        },
        otherwise: "Each connection is assigned to one of PIPELINED's pools, so a pool with large responses works while another is idle. MT's threads run on any free processor. SPED and AMPED are behind, as claimed.",
        is_borne_out: |one| most([Sped, Amped].map(|a| one.lead("figure6c", a, &[Pipelined], 16))) < 0.0,
    },
    Claim {
        id: "C7b",
        about: FIG6,
        claimed: "SPED and AMPED comparable with it up to 8",
        measure: "the farthest that one of them is from PIPELINED",
        unit: "%",
        rule: "within 10 %",
        check: |one| {
            let farthest = most([Sped, Amped].map(|a| farthest(one, a)));
            (farthest, farthest <= 10.0)
        },
        otherwise: "AMPED is comparable; SPED waits for each miss itself. With one disk access for each file the claim would hold.",
        is_borne_out: |one| farthest(one, Amped) <= 10.0 && farthest(one, Sped) > 10.0,
    },
    Claim {
        id: "C7c",
        about: FIG6,
        claimed: "and falling past 9",
        measure: "16 processors against 9, the one that falls less",
        unit: "%",
        rule: "below 0",
        check: |one| {
            let change = most([Sped, Amped].map(|a| growth(one, "figure6c", a, 9, 16)));
            (change, change < 0.0)
        },
        otherwise: "Both fall, but from 12 processors on. With an access for each 4 KB, SPED falls from 8.",
        is_borne_out: |one| most([Sped, Amped].map(|a| growth(one, "figure6c", a, 12, 16))) < 0.0,
    },
    Claim {
        id: "C8",
        about: FIG6,
        claimed: "WorldCup98, 110 MB: MT level with PIPELINED",
        measure: "the farthest that MT is behind",
        unit: "%",
        rule: "not below -5 %",
        check: |one| {
            let behind = least(
                one.xs("figure6d", |_| true).into_iter().map(|x| one.lead("figure6d", Mt, &[Pipelined], x)),
            );
            (behind, behind >= -5.0)
        },
        otherwise: "",
        is_borne_out: |_| true,
    },
    Claim {
        id: "C9a",
        about: FIG7,
        claimed: "1 GB: throughput does not scale",
        measure: "16 processors against 5, the model that grows most",
        unit: "%",
        rule: "below 20 %, where processors alone would give 220 %",
        check: |one| {
            let change = most(Architecture::ALL.map(|a| growth(one, "figure7a", a, 5, 16)));
            (change, change < 20.0)
        },
        otherwise: BLOCKS,
        is_borne_out: is_as_with_blocks,
    },
    Claim {
        id: "C9b",
        about: FIG7,
        claimed: "SPED and AMPED rise to 5 processors and fall after",
        measure: "16 processors against 5, the one that falls less",
        unit: "%",
        rule: "below -2 %, and more at 5 than at 1",
        check: |one| {
            let change = most([Sped, Amped].map(|a| growth(one, "figure7a", a, 5, 16)));
            let rises = [Sped, Amped].into_iter().all(|a| growth(one, "figure7a", a, 1, 5) > 0.0);
            (change, change < -2.0 && rises)
        },
        otherwise: BLOCKS,
        is_borne_out: is_as_with_blocks,
    },
    Claim {
        id: "C9c",
        about: FIG7,
        claimed: "MT and PIPELINED stay stable",
        measure: "16 processors against 5, the one that changes more",
        unit: "%",
        rule: "within 10 %",
        check: |one| {
            let change = most([Mt, Pipelined].map(|a| growth(one, "figure7a", a, 5, 16).abs()));
            (change, change <= 10.0)
        },
        otherwise: BLOCKS,
        is_borne_out: is_as_with_blocks,
    },
    Claim {
        id: "C10",
        about: FIG7,
        claimed: "3 GB: the disk still bounds SPED and AMPED past 12 processors",
        measure: "the disk is busy at 16 processors, the less of the two",
        unit: "%",
        rule: "above 90 %",
        check: |one| {
            let busy = least([Sped, Amped].map(|a| one.at("figure7c", a, 16, busiest_disk)));
            (busy, busy > 90.0)
        },
        otherwise: "",
        is_borne_out: |_| true,
    },
    Claim {
        id: "C11a",
        about: FIG7,
        claimed: "5 GB: PIPELINED 32 % over MT",
        measure: "its largest lead over MT",
        unit: "%",
        rule: "20 to 45 %",
        check: |one| {
            let leads = one.xs("figure7d", |_| true).into_iter();
            let lead = most(leads.map(|x| one.lead("figure7d", Pipelined, &[Mt], x)));
            (lead, (20.0..=45.0).contains(&lead))
        },
        otherwise: ALIKE,
        is_borne_out: |one| are_alike(one, "figure7d"),
    },
    Claim {
        id: "C11b",
        about: FIG7,
        claimed: "all but MP benefit from the large memory",
        measure: "5 GB against 3 GB at 16 processors, the one that gains least",
        unit: "%",
        rule: "above 2 %, and more than MP",
        check: |one| {
            let gain = |a| percent_more(one.throughput("figure7d", a, 16), one.throughput("figure7c", a, 16));
            let smallest = least([Mt, Sped, Amped, Pipelined].map(gain));
            (smallest, smallest > 2.0 && smallest > gain(Mp))
        },
        otherwise: "At 3 GB the disk slows only SPED and MP.",
        is_borne_out: |one| {
            most([Mt, Amped, Pipelined].map(|a| one.at("figure7c", a, 16, busiest_disk))) < 90.0
        },
    },
    Claim {
        id: "C12a",
        about: FIG8,
        claimed: "500 clients: PIPELINED over MT by up to 12 %",
        measure: "its largest lead",
        unit: "%",
        rule: "6 to 18 %",
        check: |one| lead_over_mt(one, "figure8a", 6.0, 18.0),
        otherwise: BALANCED,
        is_borne_out: leads_grow,
    },
    Claim {
        id: "C12b",
        about: FIG8,
        claimed: "2,000 clients: about 18 %",
        measure: "its largest lead",
        unit: "%",
        rule: "12 to 24 %",
        check: |one| lead_over_mt(one, "figure8c", 12.0, 24.0),
        otherwise: BALANCED,
        is_borne_out: leads_grow,
    },
    Claim {
        id: "C12c",
        about: FIG8,
        claimed: "2,500 clients: 26 %",
        measure: "its largest lead",
        unit: "%",
        rule: "20 to 32 %",
        check: |one| lead_over_mt(one, "figure8d", 20.0, 32.0),
        otherwise: BALANCED,
        is_borne_out: leads_grow,
    },
    Claim {
        id: "C13",
        about: FIG8,
        claimed: "MT's wait for synchronisation grows by 20 % from 500 to 2,500 clients",
        measure: "at 16 processors",
        unit: "%",
        rule: "10 to 30 %",
        check: |one| {
            let wait = |panel| one.at(panel, Mt, 16, lock_wait_us);
            let more = percent_more(wait("figure8d"), wait("figure8a"));
            (more, (10.0..=30.0).contains(&more))
        },
        otherwise: "The locks are held for less than a tenth of the time. The number of threads is fixed, so more clients do not make more threads wait at the locks. With a thread for each client (server.thread_per_client) the wait grows many times.",
        is_borne_out: |one| {
            one.at("figure8d", Mt, 16, |outcome| {
                outcome.locks.iter().map(|lock| lock.held).fold(0.0, f64::max)
            }) < 0.1
        },
    },
];

fn lead_over_mt(one: &One, panel: &str, from: f64, to: f64) -> (f64, bool) {
    let lead = largest_lead_over_mt(one, panel);
    (lead, (from..=to).contains(&lead))
}
