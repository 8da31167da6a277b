//! The rounds of a run: A B C D, A B C D, ... so that a slow drift of the machine falls on all targets alike.
//!
//! A target that fails is named, left out of the remaining rounds, and does not stop the others.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};

use super::case::LoadCase;
use super::{
    Options, capacity, crowd, flood, idle, ladder, outage, overload, peak, persistence, probes, profiled,
    queue, reload, slow, slow_clients, slow_stream, soak, steady, unfinished,
};
use crate::clock;
use crate::installed::Installed;
use crate::load::tool::{self, LoadTool};
use crate::machine::Machine;
use crate::measure::distance;
use crate::measure::metric::Metric;
use crate::placement::{self, Pinned, Placement};
use crate::results::measurement::Measurement;
use crate::results::run::Run;
use crate::run::bench::Bench;
use crate::scenario::{RequestRate, Scenario};
use crate::target::TargetCertificate;
use crate::target::search::{self, Catalogue};
use crate::topology::product::{Product, ProductLacks};
use crate::topology::target::{LabTarget, TuningClass};

/// Runs `scenario`.
///
/// # Errors
/// When it cannot begin, or was interrupted. Faults of single targets are in the result.
pub fn run(scenario: &Scenario, options: &Options) -> anyhow::Result<Run> {
    placement::raise_descriptor_limit();
    let mut scenario = scenario.clone();
    let mut notes = Vec::from_iter(ladder::fit(&mut scenario));
    let mut scenario = options.length.of(&scenario);
    let mut products = search::find_products(&options.programs)?;
    let (program, version) = (options.launcher.program.clone(), env!("CARGO_PKG_VERSION"));
    let relay = Installed { program, version: format!("weir-lab {version}"), ..Installed::default() };
    products.insert(Product::Relay.name(), relay);
    choose_targets(&mut scenario, options, &products, &mut notes)?;
    scenario.rounds.count = options.rounds.unwrap_or(scenario.rounds.count);
    scenario.rounds.window = options.window.unwrap_or(scenario.rounds.window);
    let tools = choose_tools(&mut scenario, options, &mut notes)?;
    let machine = Machine::look();
    let dir = tempfile::Builder::new().prefix("weir-lab-").tempdir().context("no temporary folder")?;
    let certificate =
        scenario.listener.tls.map(|tls| TargetCertificate::make(tls.key, dir.path())).transpose()?;
    let bench = Bench {
        options,
        products,
        class: scenario.class,
        listener: scenario.listener,
        suite: Cell::new(None),
        traffic: scenario.traffic(),
        upstream: scenario.upstream,
        journal: scenario.needs_journal(),
        large_answer: scenario.slow_stream.map(|work| work.answer),
        needs_servers: !scenario.is_only_seen_from_outside(),
        placement: placement(&scenario, options)?,
        certificate,
        dir,
        records: RefCell::new(BTreeMap::new()),
    };
    let pinned = bench.placement.map(|placement| Pinned::to(placement.client)).transpose();
    let _pinned = pinned.context("cannot pin the client to its CPU")?;
    let cannot = leave_out_unable(&mut scenario, &bench)?;
    let mut run = Run::new(&scenario, machine, bench.placement, options.length);
    run.cannot = cannot;
    run.notes = notes;
    run.tools = tools;
    go_round(&bench, &scenario, &mut run)?;
    run.targets = bench.records.take();
    if let (Some(url), true) = (&options.url, scenario.targets.contains(&LabTarget::of(Product::Url))) {
        run.notes.push(format!(
            "url is {url}, which the lab did not start: its version and configuration are not known, CPU and memory cannot be seen, \
             and what lies between here and there is part of its figures."
        ));
    }
    run.note_ratios();
    Ok(run)
}

/// Takes the requested targets, otherwise those of the scenario; leaves out, when allowed, targets that are not installed.
fn choose_targets(
    scenario: &mut Scenario,
    options: &Options,
    products: &Catalogue,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    let is_missing = |product: Product| product.is_program() && !products.contains_key(product.name());
    let optional = std::mem::take(&mut scenario.optional);
    if let Some(chosen) = &options.targets {
        scenario.targets.clone_from(chosen);
    } else {
        let (missing, there): (Vec<LabTarget>, _) =
            optional.into_iter().partition(|target| is_missing(target.product));
        scenario.targets.extend(there);
        let mut missing: Vec<Product> = missing.into_iter().map(|target| target.product).collect();
        missing.dedup();
        notes.extend(missing.into_iter().map(left_out));
    }
    let url = LabTarget::of(Product::Url);
    if options.url.is_some() && !scenario.targets.contains(&url) {
        scenario.targets.push(url);
    }
    ensure!(
        options.url.is_some() || !scenario.targets.contains(&url),
        "where is the target `url`? {}",
        Product::Url.how_to_get()
    );
    scenario.check()?;
    let mut missing: Vec<Product> = scenario.targets.iter().map(|target| target.product).collect();
    if let Some(RequestRate::OfPeak { of_peak, .. }) = scenario.steady.as_ref().and_then(|steady| steady.rate)
    {
        ensure!(
            !is_missing(of_peak.product),
            "the rate of {} comes from {of_peak}, which is missing: {}",
            scenario.name,
            of_peak.product.how_to_get()
        );
    }
    missing.retain(|product| is_missing(*product));
    missing.dedup();
    for product in missing {
        if !options.peers_optional || product == Product::Weir {
            bail!("{} is missing: {}", product.name(), product.how_to_get());
        }
        notes.push(left_out(product));
        scenario.targets.retain(|target| target.product != product);
    }
    ensure!(!scenario.targets.is_empty(), "none of the targets of {} is installed", scenario.name);
    Ok(())
}

/// The sentence about a product that is not there.
fn left_out(product: Product) -> String {
    format!("{} is not installed and was left out; `weir-lab targets` says how to get it.", product.name())
}

/// Leaves out the targets that lack a feature which the scenario needs; returns their reasons.
fn leave_out_unable(scenario: &mut Scenario, bench: &Bench<'_>) -> anyhow::Result<BTreeMap<String, String>> {
    let mut cannot = BTreeMap::new();
    scenario.targets.retain(|target| {
        let why = bench.cannot(*target);
        if let Some(ProductLacks(why)) = why {
            eprintln!("{target} cannot take part: it {why}");
            cannot.insert(target.to_string(), format!("it {why}"));
        }
        why.is_none()
    });
    let reasons: Vec<&str> = cannot.values().map(String::as_str).collect();
    ensure!(!scenario.targets.is_empty(), "no target can take part: {}", reasons.join("; "));
    Ok(cannot)
}

/// Finds the tools a scenario names; gives the versions of those used.
fn choose_tools(
    scenario: &mut Scenario,
    options: &Options,
    notes: &mut Vec<String>,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut wanted: Vec<LoadTool> =
        scenario.crowd.as_ref().map_or_else(Vec::new, |crowd| crowd.tools.clone());
    let is_http3 = scenario.steady.as_ref().is_some_and(|steady| steady.http3);
    if let Some(steady) = scenario.steady.as_ref().filter(|_| is_http3) {
        let tool = options.tool_for(steady);
        ensure!(tool == LoadTool::Driver || steady.rate.is_none(), "h2load holds no rate");
        wanted.push(tool);
    } else if let Some(steady) = scenario.steady.as_ref().filter(|steady| steady.streams.is_some()) {
        // h2load sends the first call of gRPC as well.
        wanted.extend([LoadTool::H2load, options.tool_for(steady)]);
        wanted.dedup();
    } else if let (Some(steady), tool @ (LoadTool::Wrk | LoadTool::Vegeta)) = (&scenario.steady, options.tool)
    {
        let name = tool.name();
        let plain = steady.keep_alive && steady.body == 0 && scenario.listener.tls.is_none();
        ensure!(
            plain && steady.message.is_none() && !scenario.is_bulk(),
            "{name} plays kept connections with GET of the page only"
        );
        ensure!(tool == LoadTool::Vegeta || steady.rate.is_none(), "wrk holds no rate; vegeta does");
        let cookies = steady.cookie.is_some() || scenario.upstream.persistence_cookie;
        ensure!(!cookies, "{name} sends no cookies");
        wanted.push(tool);
    } else {
        ensure!(options.tool != LoadTool::H2load, "h2load plays loads with `streams` only");
    }
    let mut versions = BTreeMap::new();
    for tool in wanted {
        if tool == LoadTool::Driver {
            continue;
        }
        match tool::installed_for(tool, is_http3) {
            Ok(installed) => {
                versions.insert(tool.name().to_owned(), installed.version);
            }
            Err(_) if options.peers_optional && !is_http3 => {
                notes.push(format!("{} is not installed and was left out.", tool.name()));
                if let Some(crowd) = &mut scenario.crowd {
                    crowd.tools.retain(|other| *other != tool);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(versions)
}

/// The placement. Targets as shipped use all CPUs, as their users have it.
fn placement(scenario: &Scenario, options: &Options) -> anyhow::Result<Option<Placement>> {
    match (scenario.class, options.cpus) {
        (TuningClass::AsShipped, _) => Ok(None),
        (TuningClass::Tuned, Some((client, target))) => Ok(Some(Placement::of(client, target))),
        (TuningClass::Tuned, None) => Placement::choose().map(Some),
    }
}

fn go_round(bench: &Bench<'_>, scenario: &Scenario, run: &mut Run) -> anyhow::Result<()> {
    let mut rate = None;
    if let Some(steady) = &scenario.steady
        && let Some((found, sentence)) = peak::rate(bench, steady, &scenario.rounds)?
    {
        eprintln!("{sentence}");
        run.notes.push(sentence);
        rate = Some(found);
    }
    // Another tool is not the lab's to prove.
    if let Some(steady) = &scenario.steady
        && bench.placement.is_some()
        && bench.options.tool_for(steady) == LoadTool::Driver
        // The origin does not speak it.
        && !steady.http3
    {
        run.capacity = capacity::measure(bench, steady, &scenario.rounds)?;
    }
    let cases = cases(scenario);
    for round in 1..=scenario.rounds.count {
        // Targets that are over, where clients are doubled until then.
        let mut over = BTreeSet::new();
        for case in &cases {
            for target in &scenario.targets {
                if run.failed.contains_key(&name_of(*target, *case)) || over.contains(target) {
                    continue;
                }
                let before = distance(bench);
                let result = measure(bench, scenario, *case, rate, *target);
                ensure!(!bench.options.is_interrupted(), "interrupted");
                let distance = before.zip(distance(bench)).map(|(before, after)| before.max(after));
                note(run, round, *case, *target, result.map(|it| Measurement { distance, ..it }));
                if run.measurements.last().is_some_and(|last| ladder::is_over(scenario, last)) {
                    over.insert(*target);
                }
            }
        }
    }
    if bench.options.profile {
        note_profiles(bench, scenario, rate, run)?;
    }
    if let Some(capacity) = run.capacity {
        run.notes.push(capacity.sentence(&run.measurements));
    }
    Ok(())
}

/// How far apart the two CPUs are, measured while they are idle.
fn distance(bench: &Bench<'_>) -> Option<f64> {
    bench.placement.and_then(distance::between)
}

/// Profiles the targets that are programs and have not failed.
fn note_profiles(
    bench: &Bench<'_>,
    scenario: &Scenario,
    rate: Option<f64>,
    run: &mut Run,
) -> anyhow::Result<()> {
    let Some(steady) = &scenario.steady else {
        run.notes.push("There are no profiles: they are taken under a steady load only.".to_owned());
        return Ok(());
    };
    for target in scenario.targets.iter().filter(|target| target.product.is_program()) {
        let name = target.to_string();
        if !run.failed.contains_key(&name) {
            let profile = profiled::profile(bench, steady, &scenario.rounds, rate, *target);
            ensure!(!bench.options.is_interrupted(), "interrupted");
            eprintln!("{} profile   {name:<18} {}", time_of_day(), profile.sentence());
            run.profiles.insert(name, profile);
        }
    }
    Ok(())
}

/// The loads of a scenario; one without a name when there is only one.
fn cases(scenario: &Scenario) -> Vec<Option<LoadCase>> {
    if let Some(crowd) = &scenario.crowd {
        let of = |tool: &LoadTool| {
            let tool = *tool;
            crowd.clients.iter().map(move |clients| Some(LoadCase::Crowd { tool, clients: *clients }))
        };
        return crowd.tools.iter().flat_map(of).collect();
    }
    if let Some(ladder) = &scenario.ladder {
        return ladder.clients.iter().map(|clients| Some(LoadCase::Clients(*clients))).collect();
    }
    if let Some(steady) = scenario.steady.as_ref().filter(|steady| !steady.suites.is_empty()) {
        return steady.suites.iter().map(|suite| Some(LoadCase::Suite(*suite))).collect();
    }
    if let Some(queue) = &scenario.queue {
        return queue.clients.iter().map(|clients| Some(LoadCase::Clients(*clients))).collect();
    }
    if let Some(flood) = &scenario.flood {
        return flood.attacks.iter().map(|kind| Some(LoadCase::Flood(*kind))).collect();
    }
    if let Some(outage) = &scenario.outage {
        return outage.bodies.iter().map(|len| Some(LoadCase::Body(*len))).collect();
    }
    vec![None]
}

fn measure(
    bench: &Bench<'_>,
    scenario: &Scenario,
    case: Option<LoadCase>,
    rate: Option<f64>,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let rounds = &scenario.rounds;
    if let Some(work) = &scenario.steady {
        bench.suite.set(if let Some(LoadCase::Suite(suite)) = case { Some(suite) } else { None });
        return steady::measure(bench, work, rounds, rate, target);
    }
    if let Some(work) = &scenario.idle {
        return idle::measure(bench, work, rounds, target);
    }
    if let Some(work) = &scenario.overload {
        return overload::measure(bench, work, rounds, target);
    }
    if let Some(work) = &scenario.slow {
        return slow::measure(bench, work, rounds, target);
    }
    if let Some(work) = &scenario.probes {
        return probes::measure(bench, work, rounds, target);
    }
    if let Some(work) = &scenario.persistence {
        return persistence::measure(bench, work, rounds, target);
    }
    if let Some(work) = &scenario.unfinished {
        return unfinished::measure(bench, work, target);
    }
    if let Some(work) = &scenario.slow_clients {
        return slow_clients::measure(bench, work, rounds, target);
    }
    if let Some(work) = &scenario.slow_stream {
        return slow_stream::measure(bench, work, rounds, target);
    }
    if let (Some(work), Some(LoadCase::Flood(kind))) = (&scenario.flood, case) {
        return flood::measure(bench, work, rounds, kind, target);
    }
    if let Some(work) = &scenario.reload {
        return reload::measure(bench, work, rounds, target);
    }
    if let Some(work) = &scenario.soak {
        return soak::measure(bench, work, rounds, target);
    }
    if let (Some(_), Some(LoadCase::Clients(clients))) = (&scenario.ladder, case) {
        return ladder::measure(bench, clients, rounds, target);
    }
    if let (Some(work), Some(LoadCase::Body(len))) = (&scenario.outage, case) {
        return outage::measure(bench, work, rounds, len, target);
    }
    match (&scenario.queue, case) {
        (_, Some(LoadCase::Crowd { tool, clients })) => crowd::measure(bench, tool, clients, rounds, target),
        (Some(work), Some(LoadCase::Clients(clients))) => {
            queue::measure(bench, work, rounds, clients, target)
        }
        _ => bail!("the scenario describes no work"),
    }
}

/// The part that is left out when it fails: a target, or one load on it.
fn name_of(target: LabTarget, case: Option<LoadCase>) -> String {
    case.map_or_else(|| target.to_string(), |case| format!("{target}, {case}"))
}

/// Keeps a measurement, says so, and leaves a target out that failed.
fn note(
    run: &mut Run,
    round: u32,
    case: Option<LoadCase>,
    target: LabTarget,
    result: anyhow::Result<Measurement>,
) {
    let mut measurement = result.unwrap_or_else(|error| Measurement {
        failure: Some(format!("{error:#}")),
        ..Measurement::default()
    });
    measurement.target = target.to_string();
    measurement.round = round;
    measurement.case = case.map(|case| case.to_string()).unwrap_or_default();
    eprintln!("{}", progress_line(run, &measurement));
    if let Some(failure) = &measurement.failure {
        run.failed.insert(name_of(target, case), format!("round {round}: {failure}"));
    }
    if round > 1 {
        // One round of single requests is enough.
        measurement.responses.clear();
    }
    run.measurements.push(measurement);
}

/// One line per measurement, for a user who watches the run.
fn progress_line(run: &Run, measurement: &Measurement) -> String {
    let mut line = format!(
        "{} round {}/{} {:<18}",
        time_of_day(),
        measurement.round,
        run.scenario.rounds.count,
        measurement.target
    );
    if !measurement.case.is_empty() {
        line.push_str(&format!(" {:<22}", measurement.case));
    }
    let shown = [
        Metric::RequestsPerSecond,
        Metric::CpuPerRequest,
        Metric::CpuPerGib,
        Metric::P99,
        Metric::Availability,
        Metric::MemoryPerClient,
        Metric::HeartbeatCpu,
        Metric::OfCapacity,
        Metric::LongestOfIdeal,
        Metric::Failed,
        Metric::Detection,
        Metric::Recovery,
        Metric::AvailabilityAfter,
        Metric::LongestOfLimit,
        Metric::P95OfPlain,
        Metric::TargetCpu,
        Metric::ProbeBurst,
        Metric::Kept,
        Metric::MovedOnRemoval,
        Metric::MovedOnReturn,
        Metric::P99OfPlain,
        Metric::SlowWhole,
        Metric::CutOff,
        Metric::RssGrowth,
        Metric::LostTunnels,
        Metric::TakesEffect,
        Metric::RssPerMinute,
        Metric::Unexplained,
    ];
    for metric in shown {
        if let Some(value) = measurement.values.get(&metric) {
            line.push_str(&format!("  {} {}", metric.heading(), metric.format(*value)));
        }
    }
    if let Some(limit) = measurement.limit {
        line.push_str(&format!("  limit: {}", limit.label()));
    }
    if let (true, Some(foreign), Some(stolen)) = (
        measurement.is_disturbed(),
        measurement.values.get(&Metric::ForeignCpu),
        measurement.values.get(&Metric::Stolen),
    ) {
        line.push_str(&format!("  [disturbed: {foreign:.0} % of a CPU by others, {stolen:.0} % stolen]"));
    }
    for note in measurement.notes.iter().chain(&measurement.failure) {
        line.push_str(&format!("  [{note}]"));
    }
    line
}

fn time_of_day() -> String {
    clock::today().strftime("%H:%M:%S").to_string()
}
