//! The figures that the field reports name, each beside the same figure of this suite, for every product.
//!
//! Their figures are of their machines: the two in a cell are no comparison, the ones in a row are. What was not measured says why.

use std::collections::BTreeMap;

use weir_stats::{estimate, table};

use super::{SuiteEntry, SuiteOutcome};
use crate::measure::metric::Metric;
use crate::report::summary;
use crate::results::measurement::Measurement;
use crate::results::run::Run;
use crate::topology::product::Product;
use crate::topology::target::{LabTarget, TargetVariant};

/// The products of the table, in its order.
pub(super) const PRODUCTS: [Product; 6] =
    [Product::Nginx, Product::Haproxy, Product::Envoy, Product::Traefik, Product::Apache, Product::Weir];

/// Which of a scenario's cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaseChoice {
    /// The only one.
    Only,
    /// The one that is called so.
    Named(&'static str),
    /// The one with the most clients.
    Most,
}

/// How a value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FigureUnit {
    /// As in the table of its scenario.
    Usual,
    /// Milliseconds, of microseconds.
    Millis,
    /// Seconds, of microseconds.
    Seconds,
    /// Kilobytes, of bytes.
    Kilobytes,
    /// Percent, of a share.
    Percent,
}

/// One figure of a report.
#[derive(Debug, Clone, Copy)]
struct QuotedFigure {
    /// The figure, its unit, and its report.
    what: &'static str,
    /// How it is measured here.
    how: &'static str,
    scenario: &'static str,
    case: CaseChoice,
    metric: Metric,
    shown: FigureUnit,
    /// The variant of targets that is like the report's.
    variant: TargetVariant,
    /// The report's own figures, by product.
    theirs: &'static [(Product, &'static str)],
}

/// A figure that is like its report's in the usual way.
const USUAL: QuotedFigure = QuotedFigure {
    what: "",
    how: "",
    scenario: "",
    case: CaseChoice::Only,
    metric: Metric::RequestsPerSecond,
    shown: FigureUnit::Usual,
    variant: TargetVariant::Usual,
    theirs: &[],
};

use Product::{Apache, Envoy, Haproxy, Nginx, Traefik};

const ONE_CORE: &str = "64 clients, one core for the target";
const AT_MOST: &str = "the most clients that descriptors allow here, one core";
const AT_100: &str = "100 clients, one core: with the most clients, latency is that of waiting for it";
const HANGS: &str = "one of eight servers hangs, a probe a second";
const TUNNELS: &str = "as many tunnels as descriptors allow here, a message of each every 30 s (short: 6 s)";

/// All of them, in the order of the reports.
const FIGURES: &[QuotedFigure] = &[
    QuotedFigure {
        what: "layer 7, kept connections, req/s (000)",
        how: ONE_CORE,
        scenario: "l7-keepalive",
        theirs: &[(Nginx, "31 989"), (Haproxy, "24 066")],
        ..USUAL
    },
    QuotedFigure {
        what: "layer 7, short connections, req/s (000)",
        how: ONE_CORE,
        scenario: "l7-short",
        theirs: &[(Nginx, "13 413"), (Haproxy, "24 066")],
        ..USUAL
    },
    QuotedFigure {
        what: "layer 4, kept connections, req/s (000)",
        how: ONE_CORE,
        scenario: "l4-keepalive",
        theirs: &[(Nginx, "63 315"), (Haproxy, "66 556")],
        ..USUAL
    },
    QuotedFigure {
        what: "layer 4, short connections, req/s (000)",
        how: ONE_CORE,
        scenario: "l4-short",
        theirs: &[(Nginx, "18 479"), (Haproxy, "22 578")],
        ..USUAL
    },
    QuotedFigure {
        what: "three 20 ms servers, 30 clients, round robin without a limit, req/s (001)",
        how: "as the report had nginx; 150 is all that the servers can do",
        scenario: "queue-single-slot",
        case: CaseChoice::Named("30 clients"),
        variant: TargetVariant::RoundRobin,
        theirs: &[(Nginx, "162")],
        ..USUAL
    },
    QuotedFigure {
        what: "three 20 ms servers, 30 clients, one request each at a time, req/s (001)",
        how: "as the report had HAProxy; nginx has no queue and answers 502 when all are busy",
        scenario: "queue-single-slot",
        case: CaseChoice::Named("30 clients"),
        theirs: &[(Haproxy, "218")],
        ..USUAL
    },
    QuotedFigure {
        what: "availability at 500 clients, % (002)",
        how: "siege, as shipped",
        scenario: "burst-500-1000-2000",
        case: CaseChoice::Named("siege, 500 clients"),
        metric: Metric::Availability,
        variant: TargetVariant::AsShipped,
        theirs: &[(Nginx, "100"), (Apache, "100")],
        ..USUAL
    },
    QuotedFigure {
        what: "availability at 1 000 clients, % (002)",
        how: "siege, as shipped",
        scenario: "burst-500-1000-2000",
        case: CaseChoice::Named("siege, 1000 clients"),
        metric: Metric::Availability,
        variant: TargetVariant::AsShipped,
        theirs: &[(Nginx, "87-93"), (Apache, "100")],
        ..USUAL
    },
    QuotedFigure {
        what: "availability at 2 000 clients, % (002)",
        how: "siege, as shipped",
        scenario: "burst-500-1000-2000",
        case: CaseChoice::Named("siege, 2000 clients"),
        metric: Metric::Availability,
        variant: TargetVariant::AsShipped,
        theirs: &[(Nginx, "100"), (Apache, "100")],
        ..USUAL
    },
    QuotedFigure {
        what: "layer 7 at 10 000 clients, 32 cores, req/s (003)",
        how: AT_MOST,
        scenario: "ladder",
        case: CaseChoice::Most,
        theirs: &[(Nginx, "520 000"), (Haproxy, "490 000"), (Envoy, "450 000"), (Traefik, "410 000")],
        ..USUAL
    },
    QuotedFigure {
        what: "P50, ms (003)",
        how: AT_100,
        scenario: "ladder",
        case: CaseChoice::Named("100 clients"),
        metric: Metric::P50,
        shown: FigureUnit::Millis,
        theirs: &[(Nginx, "0.8"), (Haproxy, "0.9"), (Envoy, "1.1"), (Traefik, "1.2")],
        ..USUAL
    },
    QuotedFigure {
        what: "P95, ms (003)",
        how: AT_100,
        scenario: "ladder",
        case: CaseChoice::Named("100 clients"),
        metric: Metric::P95,
        shown: FigureUnit::Millis,
        theirs: &[(Nginx, "1.5"), (Haproxy, "1.7"), (Envoy, "2.0"), (Traefik, "2.2")],
        ..USUAL
    },
    QuotedFigure {
        what: "P99, ms (003)",
        how: AT_100,
        scenario: "ladder",
        case: CaseChoice::Named("100 clients"),
        metric: Metric::P99,
        shown: FigureUnit::Millis,
        theirs: &[(Nginx, "2.8"), (Haproxy, "3.2"), (Envoy, "3.5"), (Traefik, "3.8")],
        ..USUAL
    },
    QuotedFigure {
        what: "P99.9, ms (003)",
        how: AT_100,
        scenario: "ladder",
        case: CaseChoice::Named("100 clients"),
        metric: Metric::P999,
        shown: FigureUnit::Millis,
        theirs: &[(Nginx, "5.2"), (Haproxy, "5.8"), (Envoy, "6.5"), (Traefik, "7.0")],
        ..USUAL
    },
    QuotedFigure {
        what: "health check: probe, ms (003)",
        how: "how far probes are from their interval, mean: what one takes is known to its sender only, so this is another figure",
        scenario: "health-detection",
        case: CaseChoice::Named("GET"),
        metric: Metric::ProbeOff,
        shown: FigureUnit::Millis,
        theirs: &[(Nginx, "50"), (Haproxy, "45"), (Envoy, "55"), (Traefik, "60")],
        ..USUAL
    },
    QuotedFigure {
        what: "health check: failure detected, s (003)",
        how: HANGS,
        scenario: "health-detection",
        case: CaseChoice::Named("GET"),
        metric: Metric::Detection,
        shown: FigureUnit::Seconds,
        theirs: &[(Nginx, "3"), (Haproxy, "2"), (Envoy, "3"), (Traefik, "4")],
        ..USUAL
    },
    QuotedFigure {
        what: "health check: recovery detected, s (003)",
        how: HANGS,
        scenario: "health-detection",
        case: CaseChoice::Named("GET"),
        metric: Metric::Recovery,
        shown: FigureUnit::Seconds,
        theirs: &[(Nginx, "5"), (Haproxy, "4"), (Envoy, "5"), (Traefik, "6")],
        ..USUAL
    },
    QuotedFigure {
        what: "health check: CPU, % (003)",
        how: "eight servers, a probe a second of each, nothing else",
        scenario: "health-detection",
        case: CaseChoice::Named("GET"),
        metric: Metric::TargetCpu,
        theirs: &[(Nginx, "2"), (Haproxy, "3"), (Envoy, "4"), (Traefik, "3")],
        ..USUAL
    },
    QuotedFigure {
        what: "WebSocket: tunnels (003)",
        how: "as many as descriptors allow here; no product's own limit was met where all have the same",
        scenario: "websocket-capacity",
        metric: Metric::Tunnels,
        theirs: &[(Nginx, "200 000"), (Haproxy, "180 000"), (Envoy, "160 000"), (Traefik, "150 000")],
        ..USUAL
    },
    QuotedFigure {
        what: "WebSocket: KB for each (003)",
        how: "slope of the program's own memory over the number of tunnels",
        scenario: "websocket-capacity",
        metric: Metric::MemoryPerClient,
        shown: FigureUnit::Kilobytes,
        theirs: &[(Nginx, "5"), (Haproxy, "6"), (Envoy, "7"), (Traefik, "8")],
        ..USUAL
    },
    QuotedFigure {
        what: "WebSocket: CPU % of 1 000 (003)",
        how: TUNNELS,
        scenario: "websocket-capacity",
        metric: Metric::CpuOfThousand,
        theirs: &[(Nginx, "2"), (Haproxy, "3"), (Envoy, "4"), (Traefik, "3")],
        ..USUAL
    },
    QuotedFigure {
        what: "of the direct throughput, server connections not kept, % (004)",
        how: ONE_CORE,
        scenario: "upstream-keepalive",
        metric: Metric::OfDirect,
        shown: FigureUnit::Percent,
        variant: TargetVariant::NoReuse,
        theirs: &[(Nginx, "49")],
        ..USUAL
    },
    QuotedFigure {
        what: "of the direct throughput, server connections kept, % (004)",
        how: ONE_CORE,
        scenario: "upstream-keepalive",
        metric: Metric::OfDirect,
        shown: FigureUnit::Percent,
        theirs: &[(Nginx, "92")],
        ..USUAL
    },
];

/// A figure of one product: the report's, and the one measured here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeadlineCell {
    /// On their machine.
    pub(super) theirs: Option<&'static str>,
    /// Here, or why not.
    pub(super) ours: Result<String, String>,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeadlineRow {
    /// The figure.
    pub(super) what: &'static str,
    /// How it was measured here, with the scenario.
    pub(super) how: String,
    /// By product, in the order of `PRODUCTS`.
    pub(super) cells: Vec<HeadlineCell>,
}

/// The rows of the table for `entries`; empty when none of its scenarios is among them.
pub(super) fn lines(entries: &[SuiteEntry]) -> Vec<HeadlineRow> {
    let by_name: BTreeMap<&str, &SuiteEntry> =
        entries.iter().map(|entry| (entry.scenario.name.as_str(), entry)).collect();
    if !FIGURES.iter().any(|figure| by_name.contains_key(figure.scenario)) {
        return Vec::new();
    }
    let line = |figure: &QuotedFigure| HeadlineRow {
        what: figure.what,
        how: format!("{}: {}", figure.scenario, figure.how),
        cells: PRODUCTS.map(|product| cell(figure, by_name.get(figure.scenario).copied(), product)).into(),
    };
    FIGURES.iter().map(line).collect()
}

fn cell(figure: &QuotedFigure, entry: Option<&SuiteEntry>, product: Product) -> HeadlineCell {
    let theirs = figure.theirs.iter().find(|(of, _)| *of == product).map(|(_, value)| *value);
    let ours = match entry.map(|entry| &entry.outcome) {
        None => Err("not run yet".to_owned()),
        Some(SuiteOutcome::Failed(why)) => Err(why.clone()),
        Some(SuiteOutcome::Run(run, _)) => ours(figure, run, product),
    };
    HeadlineCell { theirs, ours }
}

/// The meaning of a cell without a figure.
pub(super) const VOID: &str = "Void: client or origin was the limit and not the target, so it is no result; in brackets what came through.";

/// The median of the rounds that count, or why there is none.
fn ours(figure: &QuotedFigure, run: &Run, product: Product) -> Result<String, String> {
    let target = LabTarget { product, variant: figure.variant }.to_string();
    let own = run.measurements.iter().filter(|it| it.failure.is_none() && it.target == target);
    let of_case = own.filter(|it| match figure.case {
        CaseChoice::Only => true,
        CaseChoice::Named(name) => it.case == name,
        CaseChoice::Most => run.measurements.iter().all(|other| clients(&other.case) <= clients(&it.case)),
    });
    let own: Vec<&Measurement> = of_case.collect();
    let counting: Vec<f64> =
        summary::rounds(&own, figure.metric).into_iter().map(|round| round.value).collect();
    let all: Vec<f64> = own.iter().filter_map(|it| it.values.get(&figure.metric).copied()).collect();
    let is_void = counting.is_empty();
    let Some(median) = estimate::median(if is_void { &all } else { &counting }) else {
        return Err(why_not(run, &target, product));
    };
    let value = shown(figure, median);
    let value = if is_void { format!("void ({value})") } else { value };
    let case = own.last().filter(|_| figure.case == CaseChoice::Most).map(|it| it.case.as_str());
    Ok(case.map_or_else(|| value.clone(), |case| format!("{value} ({case})")))
}

fn shown(figure: &QuotedFigure, median: f64) -> String {
    match figure.shown {
        FigureUnit::Usual => figure.metric.format(median),
        FigureUnit::Millis => format!("{:.2}", median / 1000.0),
        FigureUnit::Seconds => format!("{:.1}", median / 1e6),
        FigureUnit::Kilobytes => format!("{:.1}", median / 1000.0),
        FigureUnit::Percent => format!("{:.0}", median * 100.0),
    }
}

/// Number of clients of a case.
fn clients(case: &str) -> u64 {
    case.strip_suffix(" clients").and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn why_not(run: &Run, target: &str, product: Product) -> String {
    let cannot = run.cannot.get(target).cloned();
    let failed =
        run.failed.iter().find(|(name, _)| *name == target || name.starts_with(&format!("{target},")));
    let missing =
        run.notes.iter().any(|note| note.starts_with(&format!("{} is not installed", product.name())));
    let is_asked = run.scenario.all_targets().any(|other| other.to_string() == target);
    cannot
        .or_else(|| failed.map(|(_, why)| format!("failed: {why}")))
        .or_else(|| missing.then(|| "not installed".to_owned()))
        .unwrap_or_else(|| {
            if is_asked {
                "not measured in this run".to_owned()
            } else {
                "not part of this scenario".to_owned()
            }
        })
}

/// The table as Markdown.
pub(super) fn markdown(lines: &[HeadlineRow], caveat: Option<&str>) -> String {
    let heading = ["figure", "measured here"].into_iter().chain(PRODUCTS.map(Product::name));
    let row = |line: &HeadlineRow| {
        let cells = line.cells.iter().map(|cell| {
            let ours = cell.ours.as_ref().map_or_else(|why| format!("- ({why})"), Clone::clone);
            cell.theirs.map_or_else(|| ours.clone(), |theirs| format!("their machine {theirs}; here {ours}"))
        });
        [line.what.to_owned(), line.how.clone()].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> =
        std::iter::once(heading.map(str::to_owned).collect()).chain(lines.iter().map(row)).collect();
    let table = table::write(&rows, 2);
    let caveat = caveat.map(|caveat| format!("**{caveat}**\n\n")).unwrap_or_default();
    format!("# The figures of the field reports, and the same measured here\n\n{caveat}{table}\n{VOID}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{RunLength, catalogue};

    fn entry(name: &str, measured: &[(&str, &str, Metric, f64)]) -> SuiteEntry {
        let scenario = catalogue::find(name).unwrap();
        let mut run = Run::new(&scenario, crate::suite::tests::machine(), None, RunLength::Brief);
        for (target, case, metric, value) in measured {
            let (target, case) = ((*target).to_owned(), (*case).to_owned());
            let values = BTreeMap::from([(*metric, *value)]);
            run.measurements.push(Measurement { target, case, values, ..Measurement::default() });
        }
        run.cannot.insert("traefik".to_owned(), "it cannot".to_owned());
        run.notes.push("envoy is not installed and was left out".to_owned());
        SuiteEntry { scenario, outcome: crate::suite::judged(run) }
    }

    #[test]
    fn every_figure_is_of_a_scenario_that_has_it() {
        for figure in FIGURES {
            let scenario = catalogue::find(figure.scenario).unwrap();
            assert!(catalogue::REPORTS.contains(&figure.scenario), "{}", figure.scenario);
            assert!(scenario.columns().contains(&figure.metric), "{}: {:?}", figure.what, figure.metric);
            for (product, _) in figure.theirs {
                let target = LabTarget { product: *product, variant: figure.variant };
                assert!(scenario.all_targets().any(|it| *it == target), "{}: {target}", figure.what);
                assert!(PRODUCTS.contains(product));
            }
        }
    }

    #[test]
    fn a_value_limited_by_the_client_is_no_figure() {
        let metric = Metric::RequestsPerSecond;
        let mut entry = entry("l7-short", &[("weir", "", metric, 10.0), ("haproxy", "", metric, 20.0)]);
        let SuiteOutcome::Run(run, _) = &mut entry.outcome else { panic!("it was run") };
        run.measurements[1].void.insert(metric);
        let text = markdown(&lines(&[entry]), None);
        let line = text.lines().find(|line| line.contains("layer 7, short")).unwrap();
        let weir = line.trim_end_matches(['|', ' ']).rsplit('|').next().map(str::trim);
        assert!(line.contains("here void (20)") && weir == Some("10"), "{line}");
        assert!(text.contains(VOID), "{text}");
    }

    #[test]
    fn the_figure_of_a_report_is_shown_beside_the_one_measured_here() {
        let metric = Metric::RequestsPerSecond;
        let entries = [
            entry("l7-keepalive", &[("nginx", "", metric, 40_000.0), ("weir", "", metric, 50_000.0)]),
            entry(
                "ladder",
                &[("nginx", "100 clients", metric, 1.0), ("nginx", "8800 clients", metric, 30_000.0)],
            ),
        ];
        let lines = lines(&entries);
        assert_eq!(lines.len(), FIGURES.len());
        let cell = |what: &str, product: Product| {
            let line = lines.iter().find(|line| line.what.starts_with(what)).unwrap();
            line.cells[PRODUCTS.iter().position(|it| *it == product).unwrap()].clone()
        };
        let kept = "layer 7, kept";
        assert_eq!(cell(kept, Nginx), HeadlineCell { theirs: Some("31 989"), ours: Ok("40 000".to_owned()) });
        assert_eq!(cell(kept, Product::Weir), HeadlineCell { theirs: None, ours: Ok("50 000".to_owned()) });
        assert_eq!(cell(kept, Envoy).ours, Err("not installed".to_owned()));
        assert_eq!(cell(kept, Traefik).ours, Err("it cannot".to_owned()));
        assert_eq!(cell("layer 7 at 10 000", Nginx).ours, Ok("30 000 (8800 clients)".to_owned()));
        assert_eq!(cell("layer 4, kept", Nginx).ours, Err("not run yet".to_owned()));
        let text = markdown(&lines, Some("These mean nothing."));
        assert!(text.contains("\n\n**These mean nothing.**\n\n"), "{text}");
        assert!(text.contains("their machine 31 989; here 40 000"), "{text}");
        assert!(super::lines(&[entry("bulk", &[])]).is_empty());
    }
}
