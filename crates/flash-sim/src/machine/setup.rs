//! The machine and the server at the beginning: everybody asleep, the caches warm.

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;

use super::caches::Caches;
use super::entities::{Desk, NONE, Processor, Request, RunQueue, Runner};
use super::lock::Lock;
use super::memory::Division;
use super::prices::Prices;
use super::stream::{Stream, ages};
use super::tally::Tally;
use super::throttle::Throttle;
use super::{Happening, World};
use crate::engine::{Events, Level, Links, Station, WaitQueue, from_us};
use crate::model::{Model, Op, Placement, Read, Role, RoleId};
use crate::parameters::Parameters;
use crate::{Demand, SimulationError};

/// At least so many requests warm the caches, unless all of these are full before; more where there are many files.
const WARMING_REQUESTS_MIN: usize = 100_000;
const WARMING_REQUESTS_PER_FILE: usize = 2;

impl<'a> World<'a> {
    #[expect(clippy::too_many_lines, reason = "a list of the parts of a machine")]
    pub(super) fn new(parameters: &'a Parameters, demand: &'a Demand) -> Result<World<'a>, SimulationError> {
        if parameters.machine.disks.is_empty() {
            return Err(SimulationError::Diskless);
        }
        let prices = Prices::new(parameters);
        if prices.least() == 0 {
            return Err(SimulationError::Free);
        }
        let model = Model::of(parameters);
        let division = Division::for_model(parameters, &model);
        division.check(parameters)?;
        let seed = parameters.run.seed;
        let mut stream = Stream::new(demand, seed)?;
        let caches = warm_caches(parameters, demand, &model, &division, &mut stream);

        let clients = parameters.run.clients;
        let processors = parameters.machine.processors;
        let Staff { desks, first_desk, runners, bound } = Staff::new(&model, processors, &prices);
        let mut run_queues = vec![RunQueue::default(); if bound { processors as usize } else { 1 }];
        let queue_of = |number| if bound { number } else { 0 };
        for number in (0..processors).rev() {
            run_queues[queue_of(number) as usize].idle.push(number);
        }
        let processor = |number| Processor {
            run_queue: queue_of(number),
            runner: NONE,
            last: NONE,
            until: 0,
            spinning: None,
        };
        let request = Request {
            file: 0,
            step: 0,
            bytes_left: 0,
            window_bytes: 0,
            began: 0,
            lane: 0,
            // As though a connection had just ended.
            on_connection: parameters.costs.requests_per_connection - 1,
            is_parked: false,
            found: false,
            is_in_pages: false,
            waiter: NONE,
            desk: NONE,
            read: Read::Content,
            process: 0,
        };
        let locks = model.program.iter().filter_map(|op| match op {
            Op::Lock(lock) => Some(lock + 1),
            _ => None,
        });
        let locks = locks.max().unwrap_or(0);
        let at_once = u64::from(parameters.machine.disk_requests_at_once);
        let clients_work = prices.client(1) > 0;
        // A processor has at most one event to come, and so has a request.
        let events = (processors + clients) as usize;
        Ok(World {
            parameters,
            division,
            prices,
            time_slice: from_us(parameters.server.time_slice_us),
            stream,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            events: Events::<Happening>::with_capacity(events),
            caches,
            requests: vec![request; clients as usize],
            request_links: Links::new(clients as usize),
            runner_links: Links::new(runners.len()),
            runners,
            desks,
            first_desk,
            processors: (0..processors).map(processor).collect(),
            occupied: Level::default(),
            in_hands: Level::default(),
            travelling: Level::default(),
            run_queues,
            kicked: Vec::with_capacity(processors as usize),
            answered: Vec::with_capacity(clients as usize),
            locks: (0..locks).map(|_| Lock::new()).collect(),
            disks: vec![Station::new(at_once); parameters.machine.disks.len()],
            throttles: parameters
                .machine
                .disks
                .iter()
                .map(|disk| Throttle::new(disk.reads_per_s_max))
                .collect(),
            link: parameters.machine.link_mbit_s.map(|_| Station::new(1)),
            clients_processor: clients_work.then(|| Station::new(1)),
            next_lane: 0,
            tally: Tally::new(parameters.run.measured_requests.get()),
            followed: NONE,
            timeline: Vec::new(),
            model,
        })
    }
}

/// All runners, asleep at their desks.
#[derive(Default)]
struct Staff {
    desks: Vec<Desk>,
    first_desk: Vec<(u32, u32)>,
    runners: Vec<Runner>,
    /// Whether they stay on their processors.
    bound: bool,
}

impl Staff {
    fn new(model: &Model, processors: u32, prices: &Prices) -> Staff {
        let bound = model.roles.iter().any(|role| role.place == Placement::EachProcessor);
        let mut staff = Staff { bound, ..Staff::default() };
        for (id, role) in model.roles.iter().enumerate() {
            let places = match role.place {
                Placement::Anywhere => 1,
                Placement::EachProcessor => processors,
            };
            staff.first_desk.push((staff.desks.len() as u32, places));
            for place in 0..places {
                staff.desk(id, role, place, prices);
            }
        }
        staff
    }

    fn desk(&mut self, id: RoleId, role: &Role, place: u32, prices: &Prices) {
        let first = self.runners.len() as u32;
        for member in 0..role.runners {
            let (run_queue, process) = if self.bound { (place, place) } else { (0, member) };
            self.runners.push(Runner {
                role: id,
                mode: role.mode,
                switch: prices.switch(role.kind),
                desk: self.desks.len() as u32,
                run_queue,
                process,
                request: NONE,
                processor: NONE,
                debt: 0,
                slice: 0,
                lock_asked: None,
            });
        }
        let asleep = (first..first + role.runners).collect();
        self.desks.push(Desk { role: id, line: WaitQueue::default(), asleep });
    }
}

fn warm_caches(
    parameters: &Parameters,
    demand: &Demand,
    model: &Model,
    division: &Division,
    stream: &mut Stream,
) -> Caches {
    let files = &demand.workload.catalogue().files;
    let bytes = files.iter().map(|file| file.bytes.unwrap_or(0)).collect();
    let mut caches = Caches::new(parameters, model, division, bytes);
    let mut seen = vec![0; files.len()];
    let requests = (WARMING_REQUESTS_PER_FILE * files.len()).max(WARMING_REQUESTS_MIN);
    let passing = (0..requests).map(|_| {
        let file = stream.next();
        seen[file as usize] += 1;
        file
    });
    caches.warm(passing);
    if caches.any_is_cold() {
        caches.fill(&ages(demand.popularity.as_deref(), &seen, parameters.run.seed));
    }
    caches
}
