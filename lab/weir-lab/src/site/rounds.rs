//! The rounds of a load on a site, and what is measured beside it: CPU time and memory of its processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;

use super::driver::{self, SiteOutcome, SitePlan};
use super::phase_outcome::PhaseOutcome;
use crate::clock;
use crate::load::LoadFault;
use crate::load::seen::SeenAnswer;
use crate::measure::cpu::{self, CpuSnapshot};
use crate::measure::memory::{self, Memory};
use crate::measure::metric::Metric;
use crate::results::measurement::{Limit, Measurement};
use crate::scenario::site::SiteProtocol;
use crate::topology::product::Product;

/// The longest P99 of the lab's own lateness at which a rate counts as held, µs.
const LATENESS_MAX: f64 = 1000.0;

/// Above this share of a CPU, the lab's thread may be what limits, percent.
const BUSY_MAX: f64 = 85.0;

/// What to measure.
#[derive(Debug)]
pub(super) struct SiteRun<'a> {
    /// The load of a round.
    pub(super) plan: &'a SitePlan,
    /// The names of its phases; one without a name when there is one.
    pub(super) names: &'a [String],
    /// Rounds.
    pub(super) rounds: u32,
    /// The processes of the site, with all that they have started.
    pub(super) pids: &'a [i32],
    /// Set when the user wants it to end.
    pub(super) interrupted: Arc<AtomicBool>,
}

/// What came of it: a measurement for each round and phase, and the latencies of each phase over all rounds.
#[derive(Debug, Default)]
pub(super) struct SiteFigures {
    /// The measurements.
    pub(super) measurements: Vec<Measurement>,
    /// The latencies, ns.
    pub(super) latencies: Vec<(String, Histogram<u64>)>,
}

/// Readings at the end of a phase, and at the beginning of the first.
#[derive(Debug)]
struct ProcessMark {
    cpu: CpuSnapshot,
    memory: Memory,
}

/// Sends the first request once.
///
/// # Errors
/// How it failed: nothing else would come of the load.
pub(super) fn probe(plan: &SitePlan, interrupted: &AtomicBool) -> anyhow::Result<SeenAnswer> {
    let plan = SitePlan {
        clients: 1,
        streams: 1,
        due: super::arrivals::DueTimes::never(),
        is_closed: true,
        warm_up: Duration::ZERO,
        phases: vec![plan.timeout],
        requests_max: Some(1),
        ..plan.clone()
    };
    let outcome = driver::run(&plan, interrupted)?;
    let faults = &outcome.phases[0].faults;
    match outcome.last {
        Some(seen) if faults.is_empty() => Ok(seen),
        _ if interrupted.load(Ordering::Relaxed) => bail!("interrupted"),
        _ => {
            let why = faults.examples.first().map_or("no answer", String::as_str);
            bail!("the first request fails: {why}{}", advice(why, &plan))
        }
    }
}

/// What may help against a fault.
fn advice(why: &str, plan: &SitePlan) -> &'static str {
    if why.contains("CaUsedAsEndEntity") {
        ". The site shows the certificate of an authority itself, as `openssl req -x509` makes them: --insecure takes it, or add \
         `-addext basicConstraints=critical,CA:FALSE` there"
    } else if why.contains("invalid peer certificate") {
        ". --ca FILE trusts an authority of your own, --insecure any certificate; the name is that of the URL, and --connect says where to \
         connect"
    } else if plan.protocol == SiteProtocol::Http2 && plan.secure.is_none() {
        ". Without TLS the site has to know in advance that it is HTTP/2"
    } else if why.starts_with("status ") {
        ". --expect-status says what is right"
    } else {
        ""
    }
}

impl SiteRun<'_> {
    /// Measures all rounds.
    ///
    /// # Errors
    /// When it was interrupted, or the lab itself cannot go on.
    pub(super) fn measure(&self) -> anyhow::Result<SiteFigures> {
        let mut figures = SiteFigures::default();
        for round in 1..=self.rounds {
            let (outcome, marks) = self.round()?;
            ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
            let busy = 100.0 * outcome.own_cpu.as_secs_f64() / self.length().as_secs_f64();
            for (number, phase) in outcome.phases.into_iter().enumerate() {
                let case = self.names[number].clone();
                match figures.latencies.iter_mut().find(|(known, _)| *known == case) {
                    Some((_, all)) => all.add(&phase.latency).context("two histograms of one shape")?,
                    None => figures.latencies.push((case.clone(), phase.latency.clone())),
                }
                let marks = (marks.get(number), marks.get(number + 1));
                let mut measurement = measurement(case, round, phase, marks, self.plan.is_closed, busy);
                if number == 0 && outcome.resent > 0 {
                    measurement.notes.push(format!(
                        "{} requests were sent again: the target had closed their connection, or said that it had not processed them",
                        outcome.resent
                    ));
                }
                eprintln!("{}", progress(&measurement));
                figures.measurements.push(measurement);
            }
        }
        Ok(figures)
    }

    fn length(&self) -> Duration {
        self.plan.phases.iter().sum()
    }

    /// One round, and the readings at the ends of its phases.
    fn round(&self) -> anyhow::Result<(SiteOutcome, Vec<ProcessMark>)> {
        std::thread::scope(|scope| {
            let start = clock::now();
            let running = scope.spawn(|| driver::run(self.plan, &self.interrupted));
            let mut marks = Vec::new();
            let mut end = start + self.plan.warm_up;
            let lengths = std::iter::once(Duration::ZERO).chain(self.plan.phases.iter().copied());
            for length in lengths.filter(|_| !self.pids.is_empty()) {
                end += length;
                wait(end, || running.is_finished() || self.interrupted.load(Ordering::Relaxed));
                marks.push(ProcessMark {
                    cpu: cpu::snapshot_all(self.pids),
                    memory: self
                        .pids
                        .iter()
                        .map(|pid| memory::of_tree(*pid))
                        .fold(Memory::default(), |sum, it| sum + it),
                });
            }
            let outcome = running.join().ok().context("the driver panicked")??;
            for pid in self.pids {
                ensure!(is_running(*pid), "process {pid} (--pid) has ended");
            }
            Ok((outcome, marks))
        })
    }
}

/// Whether there is such a process.
pub(super) fn is_running(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/stat")).exists()
}

/// Lets time pass until `deadline`, or until `is_over`.
fn wait(deadline: Instant, is_over: impl Fn() -> bool) {
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() || is_over() {
            return;
        }
        clock::pause(left.min(Duration::from_millis(50)));
    }
}

fn measurement(
    case: String,
    round: u32,
    phase: PhaseOutcome,
    marks: (Option<&ProcessMark>, Option<&ProcessMark>),
    is_closed: bool,
    busy: f64,
) -> Measurement {
    let seconds = (phase.to - phase.from) as f64 / 1e9;
    let target = Product::Url.name().to_owned();
    let mut measurement = Measurement { case, target, round, ..Measurement::default() };
    let (answered, failed) = (phase.answered, phase.faults.total);
    let share = 100.0 * answered as f64 / (answered + failed).max(1) as f64;
    measurement.values = BTreeMap::from([
        (Metric::RequestsPerSecond, answered as f64 / seconds),
        (Metric::Availability, share),
        (Metric::BytesPerSecond, phase.bytes as f64 / seconds),
        (Metric::DriverCpu, busy),
    ]);
    measurement.note_latency(&phase.latency);
    if let (Some(before), Some(after)) = marks {
        note_process(&mut measurement, before, after, phase.answered + phase.faults.total);
    }
    let statuses: Vec<String> =
        phase.statuses.iter().map(|(status, count)| format!("{status} x {count}")).collect();
    measurement.notes.push(format!(
        "statuses: {}",
        if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") }
    ));
    let in_vain =
        phase.faults.of_kind(LoadFault::Timeout.kind()) + phase.faults.of_kind(LoadFault::Unsent.kind());
    if in_vain > 0 {
        measurement.notes.push(format!(
            "{in_vain} requests had no answer in time, or no client; their latency counts as the time that they waited"
        ));
    }
    if !is_closed {
        let lateness = phase.lateness.value_at_quantile(0.99) as f64 / 1000.0;
        measurement.values.insert(Metric::LatenessP99, lateness);
        let is_missed = lateness > LATENESS_MAX || phase.faults.of_kind(LoadFault::Unsent.kind()) > 0;
        measurement.limit = Some(if is_missed { Limit::RateMissed } else { Limit::Rate });
        if phase.waited > 0 {
            measurement.notes.push(format!(
                "{} of {} requests were due while no client was free: the wait is part of their latency",
                phase.waited,
                answered + failed
            ));
        }
    }
    if busy > BUSY_MAX {
        measurement.limit = Some(Limit::Client);
        measurement.notes.push(format!(
            "the lab's own thread was busy for {busy:.0} % of the time: the site may do more, and latencies are too long"
        ));
    }
    let PhaseOutcome { mut series, to, faults, .. } = phase;
    measurement.seconds = series.finish(to);
    measurement.note_failed(faults);
    measurement
}

/// CPU time and memory of the processes of the site.
fn note_process(measurement: &mut Measurement, before: &ProcessMark, after: &ProcessMark, requests: u64) {
    let spent = cpu::between(&before.cpu, &after.cpu);
    measurement.values.insert(Metric::TargetCpu, 100.0 * spent.cpus());
    measurement.values.insert(Metric::Rss, after.memory.rss as f64);
    measurement.values.insert(Metric::Pss, after.memory.pss as f64);
    if requests > 0 {
        let each = spent.total.as_nanos() as f64 / 1000.0 / requests as f64;
        measurement.values.insert(Metric::CpuPerRequest, each);
        measurement.values.insert(Metric::CpuUser, each * spent.user_share);
        measurement.values.insert(Metric::CpuSystem, each * (1.0 - spent.user_share));
    }
}

/// A line for the terminal while it runs.
fn progress(measurement: &Measurement) -> String {
    let figure = |metric: Metric| {
        measurement.values.get(&metric).map_or("-".to_owned(), |value| metric.format_with_unit(*value))
    };
    format!(
        "round {}  {:<18} {}, P99 {}, {} failed",
        measurement.round,
        measurement.case,
        figure(Metric::RequestsPerSecond),
        figure(Metric::P99),
        measurement.faults.total
    )
}
