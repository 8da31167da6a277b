//! A few requests that take long: their effect on the others, compared with the same load without slow ones.
//!
//! Which requests are slow is drawn once from a fixed seed, so all targets get the same ones in the same order. Both halves of a
//! measurement have servers and a target of their own.

use hdrhistogram::Histogram;

use super::queue::overlaps;
use super::traced::{self, TracedLoad};
use crate::load::exchange::{SignedRequest, sign};
use crate::load::{ExchangeOrder, LoadPattern, LoadPlan, TracedExchange, driver};
use crate::measure::metric::Metric;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::scenario::Rounds;
use crate::scenario::work::SlowWork;
use crate::topology::target::LabTarget;

/// The seed from which slow requests are drawn.
const SEED: u64 = 0x5765_6972;

/// A client waits for a few slow requests in a row.
const PATIENCE: u32 = 30;

/// Measures `target` once: without slow requests, then with.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &SlowWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let requests = (work.rate * (rounds.warm_up + rounds.window).as_secs_f64()).ceil() as usize + 1;
    let (plain, _) = with(bench, work, rounds, target, &vec![false; requests])?;
    let (mut measurement, p95) = with(bench, work, rounds, target, &draw(requests, work.one_in))?;
    if let (Some(plain), Some(p95)) = (plain.values.get(&Metric::P95).copied(), p95)
        && plain > 0.0
    {
        measurement.values.insert(Metric::P95Plain, plain);
        measurement.values.insert(Metric::P95OfPlain, p95 / plain);
    }
    Ok(measurement)
}

/// Which requests are slow: one in `one_in`.
fn draw(requests: usize, one_in: usize) -> Vec<bool> {
    let mut random = fastrand::Rng::with_seed(SEED);
    (0..requests).map(|_| random.usize(..one_in) == 0).collect()
}

/// Measures the load with these requests slow; gives P95 of the others as well.
fn with(
    bench: &Bench<'_>,
    work: &SlowWork,
    rounds: &Rounds,
    target: LabTarget,
    is_slow: &[bool],
) -> anyhow::Result<(Measurement, Option<f64>)> {
    let mut testbed = bench.set_up_with_servers(target, work.clients)?;
    let SlowWork { clients, service, slow, .. } = *work;
    let arrival = LoadPattern::Rate(work.rate);
    let load = TracedLoad { clients, service, body_len: 0, arrival, timeout: PATIENCE * slow };
    let request = |(number, is_slow): (usize, &bool)| {
        let service = if *is_slow { slow } else { service };
        sign(&SignedRequest { host: testbed.addr, service, body_len: 0 }, number)
    };
    let exchanges = is_slow.iter().enumerate().map(request).collect();
    let plan = LoadPlan { exchanges, choice: ExchangeOrder::InTurn, ..load.plan(&testbed, rounds) };
    let (mut measurement, outcome) = traced::drive(bench, &mut testbed, &plan, &mut [])?;
    let from = rounds.warm_up.as_nanos() as u64;
    let others = others(&outcome.trace, is_slow, from);
    measurement.note_latency(&others.latency);
    let p95 = (!others.latency.is_empty()).then(|| others.latency.value_at_quantile(0.95) as f64 / 1000.0);
    measurement.values.extend(p95.map(|p95| (Metric::P95, p95)));
    measurement.values.insert(Metric::Availability, 100.0 * others.answered());
    let slots = bench.upstream.slots.unwrap_or(usize::MAX);
    let overlaps: usize = testbed.journals()?.iter().map(|journal| overlaps(journal, slots)).sum();
    measurement.values.insert(Metric::Overlaps, overlaps as f64);
    Ok((measurement, p95))
}

/// The figures of the requests that are not slow.
struct UsualRequests {
    latency: Histogram<u64>,
    asked: usize,
}

impl UsualRequests {
    /// The share that was answered.
    fn answered(&self) -> f64 {
        self.latency.len() as f64 / self.asked.max(1) as f64
    }
}

/// Requests that were due from `from` on, in nanoseconds since the start.
fn others(trace: &[TracedExchange], is_slow: &[bool], from: u64) -> UsualRequests {
    let mut others = UsualRequests { latency: driver::histogram(), asked: 0 };
    let is_other =
        |event: &&TracedExchange| event.due >= from && !is_slow.get(event.exchange).copied().unwrap_or(false);
    for event in trace.iter().filter(is_other) {
        others.asked += 1;
        if event.is_answered {
            others.latency.saturating_record(event.latency_ns());
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::{TracedExchange, draw, others};

    const MS: u64 = 1_000_000;

    #[test]
    fn one_in_so_many_is_slow_and_always_the_same() {
        let drawn = draw(100_000, 100);
        let slow = drawn.iter().filter(|is_slow| **is_slow).count();
        // The standard deviation is 31.
        assert!((850..1150).contains(&slow), "{slow}");
        assert_eq!(drawn, draw(100_000, 100));
    }

    #[test]
    fn the_others_are_those_that_are_not_slow() {
        let is_slow: Vec<bool> = (0..200).map(|number| number % 100 == 50).collect();
        let trace: Vec<TracedExchange> = (0..200)
            .map(|number| {
                let due = number as u64 * 10 * MS;
                let length = if is_slow[number] { 2000 } else { 20 + number as u64 / 100 };
                let ended = due + length * MS;
                TracedExchange {
                    client: 0,
                    exchange: number,
                    due,
                    began: due,
                    ended,
                    is_answered: number != 199,
                }
            })
            .collect();
        let all = others(&trace, &is_slow, 0);
        assert_eq!((all.asked, all.latency.len()), (198, 197));
        assert!(all.latency.max() < 22 * MS, "{}", all.latency.max());
        // The warm-up does not count.
        let late = others(&trace, &is_slow, 1000 * MS);
        assert!(late.asked == 99 && late.latency.min() >= 20 * MS + MS / 2, "{}", late.latency.min());
        // Taken for one of the others, a slow one is seen.
        assert!(others(&trace, &[], 0).latency.max() > 1990 * MS);
    }
}
