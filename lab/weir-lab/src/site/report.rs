//! The run of a site, for the report that all runs have.

use std::time::Duration;

use crate::machine::Machine;
use crate::measure::metric::Metric;
use crate::results::measurement::Measurement;
use crate::results::run::Run;
use crate::scenario::bar::BarBase;
use crate::scenario::site::{SiteProtocol, SiteWork};
use crate::scenario::{Bar, Rounds, RunLength, Scenario};
use crate::topology::listener::ListenerSetup;
use crate::topology::product::Product;
use crate::topology::target::{LabTarget, TuningClass};
use crate::topology::upstream::UpstreamSetup;

/// What was run, in words and numbers.
#[derive(Debug, Clone)]
pub(super) struct SiteDescription {
    pub(super) url: String,
    pub(super) protocol: SiteProtocol,
    pub(super) clients: usize,
    pub(super) streams: usize,
    pub(super) requests: String,
    pub(super) load: String,
    pub(super) checks: String,
    pub(super) is_open_loop: bool,
    pub(super) has_process: bool,
    pub(super) keeps_connections: bool,
    pub(super) warm_up: Duration,
    pub(super) window: Duration,
    pub(super) max_p99: Option<Duration>,
    pub(super) min_available: Option<f64>,
    pub(super) notes: Vec<String>,
}

/// The run of `site` in which `measurements` were made.
pub(super) fn run(
    site: &SiteDescription,
    rounds: u32,
    is_short: bool,
    measurements: Vec<Measurement>,
) -> Run {
    let length = if is_short { RunLength::Trial } else { RunLength::Full };
    let mut run = Run::new(&scenario(site, rounds), Machine::look(), None, length);
    run.command = without_values(std::env::args().skip(1));
    let is_dead =
        measurements.iter().all(|it| it.values.get(&Metric::Availability).is_none_or(|share| *share == 0.0));
    if is_dead {
        run.failed.insert(Product::Url.name().to_owned(), "no request was answered as expected".to_owned());
    }
    run.measurements = measurements;
    let streams =
        if site.streams > 1 { format!(" with {} requests at a time", site.streams) } else { String::new() };
    let kept = if site.keeps_connections { "kept" } else { "for one request each" };
    run.notes.push(format!(
        "url is {}: {}, {}, by {} over {} connections{streams}, {kept}; expected is {}. The lab did not start it: its version and \
         configuration are not known, and what lies between here and there is part of its figures.",
        site.url,
        site.requests,
        site.load,
        site.protocol.name(),
        site.clients,
        site.checks
    ));
    let latency = if site.is_open_loop {
        "Latency counts from the time at which a request was due, whether or not a client was free to send it."
    } else {
        "A closed loop: a client sends its next request when it has its answer, so that a slow site is asked less. Whether a given rate \
         is held, `--rate` says."
    };
    run.notes.push(latency.to_owned());
    if !site.has_process {
        run.notes.push(
            "CPU and memory of the site are not known: `--pid` measures them, on the machine of the site."
                .to_owned(),
        );
    }
    run.notes.extend(site.notes.iter().cloned());
    run
}

fn scenario(site: &SiteDescription, rounds: u32) -> Scenario {
    let target = LabTarget::of(Product::Url);
    let bar = |metric, at_most, at_least| Bar {
        metric,
        target: Some(target),
        case: None,
        of: BarBase::Itself,
        at_most,
        at_least,
    };
    let latency = site.max_p99.map(|most| bar(Metric::P99, Some(most.as_secs_f64() * 1e6), None));
    let available = site.min_available.map(|least| bar(Metric::Availability, None, Some(least)));
    Scenario {
        name: "site".to_owned(),
        question: format!(
            "Does {} hold {}?",
            site.url,
            if site.is_open_loop { &*site.load } else { "this load" }
        ),
        requirements: Vec::new(),
        reports: Vec::new(),
        targets: vec![target],
        optional: Vec::new(),
        class: TuningClass::AsShipped,
        rounds: Rounds { count: rounds, warm_up: site.warm_up, window: site.window },
        listener: ListenerSetup::default(),
        upstream: UpstreamSetup::default(),
        steady: None,
        idle: None,
        crowd: None,
        queue: None,
        outage: None,
        overload: None,
        slow: None,
        probes: None,
        persistence: None,
        unfinished: None,
        ladder: None,
        slow_clients: None,
        reload: None,
        slow_stream: None,
        flood: None,
        soak: None,
        site: Some(SiteWork {
            url: site.url.clone(),
            protocol: site.protocol,
            clients: site.clients,
            streams: site.streams,
            requests: site.requests.clone(),
            load: site.load.clone(),
            checks: site.checks.clone(),
            is_open_loop: site.is_open_loop,
            has_process: site.has_process,
        }),
        bars: latency.into_iter().chain(available).collect(),
    }
}

/// The command line without the values of fields, which may be credentials, and without the folders of this machine.
fn without_values(args: impl Iterator<Item = String>) -> String {
    let mut line = "weir-lab".to_owned();
    let mut is_field = false;
    for arg in args {
        let (option, value) =
            arg.split_once('=').filter(|(option, _)| option.starts_with("--")).unwrap_or(("", &arg));
        let equals = if option.is_empty() { "" } else { "=" };
        let value = if is_field || option == "--field" {
            format!("'{}: ...'", value.split(':').next().unwrap_or_default())
        } else if value.starts_with('/') && option != "--path" && !line.ends_with(" --path") {
            value.rsplit('/').next().unwrap_or_default().to_owned()
        } else {
            value.to_owned()
        };
        is_field = arg == "--field";
        line.push_str(&format!(" {option}{equals}{value}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::without_values;

    #[test]
    fn credentials_are_not_saved() {
        let args = [
            "run",
            "--url",
            "http://a/",
            "--field",
            "Authorization: Bearer abc",
            "--field=Cookie: id=1",
            "--path",
            "/a/b",
            "--ca",
            "/etc/ca.pem",
        ];
        assert_eq!(
            without_values(args.into_iter().map(str::to_owned)),
            "weir-lab run --url http://a/ --field 'Authorization: ...' --field='Cookie: ...' --path /a/b --ca ca.pem"
        );
    }
}
