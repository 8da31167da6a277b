//! Handshakes that never end: the memory of each, whether others are served meanwhile, and when the last is gone.
//!
//! Each number of connections gets a fresh target, as in `idle`. With the largest, one client sends requests all the time, with a new
//! connection for each request, until the target has ended the last of the others.

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use weir_stats::trend;

use crate::clock;
use crate::load::exchange::{RequestShape, prepare};
use crate::load::unfinished::UnfinishedHandshakes;
use crate::load::{self, ExchangeOrder, LoadPattern, LoadPlan, LoadProgress, TlsClient, driver};
use crate::measure::memory::{self, Memory};
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::scenario::work::UnfinishedWork;
use crate::topology::target::LabTarget;

/// Room besides the unfinished ones: for the active client, and one that watches.
const ROOM: u64 = 16;

/// Time limits that may pass until the target has to be rid of all.
const LIMITS: u32 = 3;

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &UnfinishedWork,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::default();
    for &clients in &work.clients {
        let is_last = Some(&clients) == work.clients.last();
        let memory = with_clients(bench, work, target, clients, is_last, &mut measurement)
            .with_context(|| format!("with {clients} unfinished handshakes"))?;
        measurement.series.push((clients as f64, memory.anonymous as f64));
        measurement.values.insert(Metric::Rss, memory.rss as f64);
        measurement.values.insert(Metric::Pss, memory.pss as f64);
    }
    if let Some(slope) = trend::slope(&measurement.series) {
        measurement.values.insert(Metric::MemoryPerClient, slope);
    }
    Ok(measurement)
}

/// Memory of a fresh target with so many. If it is the largest number, `measurement` gets what another client saw of it, and
/// when all were gone.
fn with_clients(
    bench: &Bench<'_>,
    work: &UnfinishedWork,
    target: LabTarget,
    clients: usize,
    is_last: bool,
    measurement: &mut Measurement,
) -> anyhow::Result<Memory> {
    let mut testbed = bench.set_up(target, clients as u64 + ROOM)?;
    let secure = bench.secure_with(target)?.context("the listener has TLS")?;
    let limit =
        bench.listener.tls.and_then(|tls| tls.handshake_timeout).context("handshakes have a limit")?;
    let mut connections = UnfinishedHandshakes::new(testbed.addr, &secure)?;
    if !is_last {
        return fill(bench, work, &testbed, &mut connections, clients);
    }
    let plan = plan(&testbed, work, secure, limit);
    let progress = LoadProgress::default();
    let memory = std::thread::scope(|scope| {
        let going_on = scope.spawn(|| driver::run(&plan, &progress));
        let watched = watch(bench, work, &testbed, &mut connections, clients, limit);
        progress.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let outcome = going_on.join().ok().context("the driver panicked")??;
        let (memory, gone) = watched?;
        measurement.values.insert(Metric::GoneOfLimit, gone.as_secs_f64() / limit.as_secs_f64());
        measurement.note_latency(&outcome.latency);
        measurement.note_failed(outcome.faults);
        ensure!(!outcome.latency.is_empty(), "no other client was served");
        Ok(memory)
    })?;
    testbed.is_alive()?;
    Ok(memory)
}

/// Opens all; memory of the target then.
fn fill(
    bench: &Bench<'_>,
    work: &UnfinishedWork,
    testbed: &Testbed,
    connections: &mut UnfinishedHandshakes,
    clients: usize,
) -> anyhow::Result<Memory> {
    connections.grow_to(clients).map_err(|fault| anyhow!("{fault}"))?;
    clock::pause(work.settle);
    ensure!(!bench.options.is_interrupted(), "interrupted");
    let memory = memory::of_tree(testbed.target.as_ref().context("the target has TLS")?.pid());
    let open = connections.open_now()?;
    ensure!(open == clients, "the target has ended {} before memory could be read", clients - open);
    Ok(memory)
}

/// The same, and how long after the last was opened all were gone.
fn watch(
    bench: &Bench<'_>,
    work: &UnfinishedWork,
    testbed: &Testbed,
    connections: &mut UnfinishedHandshakes,
    clients: usize,
    limit: Duration,
) -> anyhow::Result<(Memory, Duration)> {
    // The active client has begun by then.
    clock::pause(work.settle);
    connections.grow_to(clients).map_err(|fault| anyhow!("{fault}"))?;
    let opened = clock::now();
    let memory = fill(bench, work, testbed, connections, clients)?;
    let left = connections.wait_until_gone(LIMITS * limit, || bench.options.is_interrupted())?;
    ensure!(!bench.options.is_interrupted(), "interrupted");
    ensure!(left == 0, "{left} are still open {LIMITS} time limits later");
    Ok((memory, opened.elapsed()))
}

/// The load of the active client, for longer than is needed.
fn plan(testbed: &Testbed, work: &UnfinishedWork, secure: TlsClient, limit: Duration) -> LoadPlan {
    let shape = RequestShape {
        host: &testbed.authority,
        path: "/",
        body_len: 0,
        answer_len: PAGE_LEN,
        close: true,
        cookie: None,
    };
    LoadPlan {
        target: testbed.addr,
        secure: Some(secure),
        exchanges: prepare(&shape),
        choice: ExchangeOrder::ByClient,
        clients: 1,
        connections: load::Connections::PerExchange,
        arrival: LoadPattern::Rate(work.rate),
        warm_up: Duration::ZERO,
        window: 2 * LIMITS * limit + 2 * work.settle,
        timeout: limit,
        faults_max: u64::MAX,
        trace: false,
        pace: None,
        name: None,
    }
}
