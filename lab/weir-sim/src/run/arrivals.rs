//! When requests begin: closed loads of clients that wait for their answers, and open ones that do not.
//!
//! Only the seed decides, never the variant: the nth request of a client (closed) or of a class (open) is the same in all.

use weir_stats::random::{Purpose, RandomStream};

use super::{SimEvent, Simulation};
use crate::model::{Arrivals, ClassLoad, Model, SECOND};

/// Which request comes next.
#[derive(Debug)]
pub(super) struct ArrivalCounters {
    classes: Vec<ClassCounters>,
}

#[derive(Debug)]
struct ClassCounters {
    /// The number of its first client among all.
    first: u32,
    /// Requests so far: of each client in a closed load, of all in an open one.
    requests: Vec<u32>,
}

/// A request that begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrivingRequest {
    pub(super) class: u32,
    /// The number of its client among all.
    pub(super) client: u32,
    /// The balancer that it meets.
    pub(super) balancer: u32,
    /// The seed of its demand.
    pub(super) coordinates: [u64; 2],
}

impl ArrivalCounters {
    pub(super) fn new(model: &Model) -> Self {
        let mut first = 0;
        let classes = model.clients.iter().map(|class| {
            let counters = if matches!(class.load, ClassLoad::Closed { .. }) { class.count } else { 1 };
            let entry = ClassCounters { first, requests: vec![0; counters as usize] };
            first += class.count;
            entry
        });
        Self { classes: classes.collect() }
    }

    /// The number of the first client of a class.
    pub(super) fn first_of(&self, class: u32) -> u32 {
        self.classes[class as usize].first
    }
}

impl Simulation<'_> {
    /// The first request of each client and of each open load.
    pub(super) fn start_clients(&mut self) {
        for (index, class) in self.model.clients.iter().enumerate() {
            let index = index as u32;
            match &class.load {
                ClassLoad::Closed { .. } => {
                    for client in 0..class.count {
                        self.think_then_begin(index, client, 0);
                    }
                }
                ClassLoad::Open { .. } => self.next_arrival(index),
            }
        }
    }

    /// A client of a closed load has had its answer, or its failure and a `pause`.
    pub(super) fn think_then_begin(&mut self, class: u32, client: u32, pause: u64) {
        let ClassLoad::Closed { think, .. } = &self.model.clients[class as usize].load else { return };
        let requests = self.clients.classes[class as usize].requests[client as usize];
        let coordinates = [key(class, client), u64::from(requests)];
        let mut random = RandomStream::new(self.seed, Purpose::Think, coordinates);
        let at = self.agenda.now() + pause + think.draw(&mut random);
        if at < self.model.length {
            self.agenda.enter(at, SimEvent::Begin { class, client });
        }
    }

    pub(super) fn begin_closed(&mut self, class: u32, client: u32) {
        let entry = &mut self.clients.classes[class as usize];
        let request = entry.requests[client as usize];
        entry.requests[client as usize] += 1;
        let number = entry.first + client;
        let coordinates = [key(class, client), u64::from(request)];
        self.begin(ArrivingRequest {
            class,
            client: number,
            balancer: number % self.model.balancers,
            coordinates,
        });
    }

    pub(super) fn arrive(&mut self, class: u32) {
        let request = self.clients.classes[class as usize].requests[0];
        let coordinates = [key(class, u32::MAX), u64::from(request)];
        let mut random = RandomStream::new(self.seed, Purpose::Origin, coordinates);
        let count = self.model.clients[class as usize].count;
        let client = self.clients.classes[class as usize].first + random.below(u64::from(count)) as u32;
        let balancer = random.below(u64::from(self.model.balancers)) as u32;
        self.begin(ArrivingRequest { class, client, balancer, coordinates });
        self.clients.classes[class as usize].requests[0] = request + 1;
        self.next_arrival(class);
    }

    fn next_arrival(&mut self, class: u32) {
        let ClassLoad::Open { arrivals, rates } = &self.model.clients[class as usize].load else { return };
        let request = self.clients.classes[class as usize].requests[0];
        let coordinates = [key(class, u32::MAX), u64::from(request)];
        let expected = match arrivals {
            Arrivals::Constant => 1.0,
            Arrivals::Poisson => -RandomStream::new(self.seed, Purpose::Arrival, coordinates).unit().ln(),
        };
        let at = after(rates, self.agenda.now(), expected);
        if let Some(at) = at.filter(|at| *at < self.model.length) {
            self.agenda.enter(at, SimEvent::Arrive { class });
        }
    }
}

fn key(class: u32, client: u32) -> u64 {
    u64::from(class) << 32 | u64::from(client)
}

/// The time at which `expected` requests have come since `from`; `None` when they never do.
fn after(rates: &[(u64, f64)], from: u64, mut expected: f64) -> Option<u64> {
    let mut from = from;
    for (index, (begins, rate)) in rates.iter().enumerate() {
        let ends = rates.get(index + 1).map_or(u64::MAX, |(next, _)| *next);
        if ends <= from {
            continue;
        }
        from = from.max(*begins);
        let needed = expected / rate * SECOND as f64;
        if needed < (ends - from) as f64 {
            return Some(from + needed.round() as u64);
        }
        expected -= (ends - from) as f64 / SECOND as f64 * rate;
        from = ends;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_at_the_rate_of_the_moment() {
        let rates = [(0, 10.0), (SECOND, 0.0), (2 * SECOND, 100.0)];
        for (from, expected, at) in [
            (0, 1.0, Some(SECOND / 10)),
            (0, 9.5, Some(SECOND * 95 / 100)),
            // Half of it in the first second, nothing in the next, half at ten times the rate.
            (SECOND * 95 / 100, 1.0, Some(2 * SECOND + SECOND / 200)),
            (SECOND, 1.0, Some(2 * SECOND + SECOND / 100)),
            (3 * SECOND, 2.0, Some(3 * SECOND + SECOND / 50)),
        ] {
            assert_eq!(after(&rates, from, expected), at, "{expected} from {from}");
        }
        assert_eq!(after(&[(0, 1.0), (SECOND, 0.0)], 0, 2.0), None);
    }
}
