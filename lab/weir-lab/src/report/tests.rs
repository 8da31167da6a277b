//! Reports of made-up runs: ratios, verdicts, and saved files.

use std::collections::BTreeMap;

use super::summary::rows;
use super::verdict::verdicts;
use super::{compare, figures, folder, html, markdown};
use crate::load::Faults;
use crate::machine::Machine;
use crate::measure::metric::Metric;
use crate::placement::Placement;
use crate::profile::Profile;
use crate::results::measurement::{Limit, Measurement};
use crate::results::record::TargetRecord;
use crate::results::run::Run;
use crate::scenario::{RunLength, Scenario, catalogue};
use crate::topology::target::TuningClass;

fn machine() -> Machine {
    Machine {
        cpu: "Test CPU".to_owned(),
        cpus: 2,
        memory: 8 << 30,
        kernel: "6.1.0".to_owned(),
        is_virtual: true,
        descriptors: 1024,
        settings: vec![("net.core.somaxconn".to_owned(), "4096".to_owned())],
        load: 0.5,
    }
}

fn empty_run(scenario: &Scenario) -> Run {
    let placement = Placement { client: 0, target: 1, siblings: false };
    let mut run = Run::new(scenario, machine(), Some(placement), RunLength::Full);
    run.debug_build = false;
    run
}

/// A run of `l7-keepalive` with the given CPU per request in each round.
fn run_with(costs: &[(&str, &[f64])]) -> Run {
    let mut run = empty_run(&catalogue::find("l7-keepalive").unwrap());
    let rounds = costs.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    for round in 0..rounds {
        for (target, values) in costs {
            let Some(cost) = values.get(round) else { continue };
            let values = BTreeMap::from([
                (Metric::CpuPerRequest, *cost),
                (Metric::RequestsPerSecond, 1_000_000.0 / cost),
            ]);
            run.measurements.push(Measurement {
                target: (*target).to_owned(),
                round: round as u32 + 1,
                values,
                limit: Some(Limit::Target),
                ..Measurement::default()
            });
        }
    }
    run
}

fn sentences(run: &Run) -> Vec<(String, Option<bool>)> {
    verdicts(run, &rows(run)).into_iter().map(|verdict| (verdict.sentence, verdict.is_met)).collect()
}

#[test]
fn the_ratio_is_the_median_within_rounds_to_the_better_peer() {
    // The machine slows down from round to round; within a round weir is at 0.8 of nginx.
    let run = run_with(&[
        ("weir", &[8.0, 10.0, 12.0]),
        ("nginx", &[10.0, 12.5, 15.0]),
        ("haproxy", &[11.0, 12.6, 15.5]),
    ]);
    let rows = rows(&run);
    let ratio = &rows[0].ratios[&Metric::CpuPerRequest];
    assert_eq!((ratio.peer.as_str(), ratio.estimate.median), ("nginx", 0.8));
    assert_eq!((ratio.estimate.low, ratio.estimate.high), (0.8, 0.8));
    assert_eq!(rows[0].spreads[&Metric::CpuPerRequest].median, 10.0);
    // For throughput, more is better: the best peer is still nginx, and weir is at 1.25 of it.
    assert_eq!(rows[0].ratios[&Metric::RequestsPerSecond].estimate.median, 1.25);
}

#[test]
fn verdicts_say_by_how_much_and_whether_noise_could_decide() {
    let run = run_with(&[("weir", &[8.0, 8.0, 8.0]), ("nginx", &[10.0, 10.0, 10.0])]);
    let sentence = "CPU per request 0.80 of nginx's, the better peer (95 % interval 0.80 to 0.80); \
                    bar at most 0.85 of the better peer: met";
    assert_eq!(sentences(&run), [(sentence.to_owned(), Some(true))]);

    let run = run_with(&[("weir", &[8.0, 8.0]), ("nginx", &[10.0, 10.0])]);
    let sentence = "CPU per request 0.80 of nginx's, the better peer (2 rounds: too few for an interval); \
                    bar at most 0.85 of the better peer: met";
    assert_eq!(sentences(&run), [(sentence.to_owned(), Some(true))]);

    let run = run_with(&[("weir", &[9.0, 9.0, 9.0]), ("nginx", &[10.0, 10.0, 10.0])]);
    assert!(sentences(&run)[0].0.ends_with(": missed"));

    let run = run_with(&[("weir", &[8.0, 8.2, 9.5, 8.1, 9.2]), ("nginx", &[10.0; 5])]);
    let (sentence, is_met) = sentences(&run).remove(0);
    assert!(is_met == Some(true) && sentence.contains("but inside the noise"), "{sentence}");
}

#[test]
fn a_bar_against_a_named_peer_is_judged_by_that_one() {
    let mut run = run_with(&[("weir", &[9.5; 3]), ("nginx", &[10.0; 3]), ("haproxy", &[9.4; 3])]);
    run.scenario.bars = catalogue::find("l4-keepalive").unwrap().bars;
    let judged = sentences(&run);
    let sentence =
        "CPU per request 0.95 of nginx's (95 % interval 0.95 to 0.95); bar at most 1.00 of nginx: met";
    assert_eq!(judged[0], (sentence.to_owned(), Some(true)));
    assert!(judged[1].0.ends_with("; bar at most 0.90 of haproxy: missed"), "{}", judged[1].0);
    run.measurements.retain(|measurement| measurement.target != "haproxy");
    assert_eq!(sentences(&run)[1].1, None);
}

#[test]
fn without_weir_or_without_peers_nothing_is_judged() {
    for costs in [vec![("nginx", &[10.0][..])], vec![("weir", &[8.0][..])]] {
        let (sentence, is_met) = sentences(&run_with(&costs)).remove(0);
        assert!(is_met.is_none() && sentence.ends_with("not judged"), "{sentence}");
    }
}

#[test]
fn the_variant_without_reuse_is_no_peer() {
    let run = run_with(&[("weir", &[8.0]), ("nginx/no-reuse", &[5.0]), ("haproxy", &[10.0])]);
    assert_eq!(rows(&run)[0].ratios[&Metric::CpuPerRequest].peer, "haproxy");
}

#[test]
fn an_absolute_bar_is_judged_by_the_worst_round() {
    let mut run = empty_run(&catalogue::find("idle-memory").unwrap());
    for (round, bytes) in [(1, 1500.0), (2, 2049.0), (3, 1600.0)] {
        for (target, bytes) in [("weir", bytes), ("nginx", 2500.0)] {
            run.measurements.push(Measurement {
                target: target.to_owned(),
                round,
                values: BTreeMap::from([(Metric::MemoryPerClient, bytes)]),
                ..Measurement::default()
            });
        }
    }
    let sentences = sentences(&run);
    assert_eq!(sentences[0].1, Some(false));
    assert!(sentences[0].0.contains("1 600 bytes (worst of 3 rounds 2 049 bytes)"), "{}", sentences[0].0);
    assert_eq!(sentences[1].1, Some(true), "{}", sentences[1].0);
}

#[test]
fn full_availability_in_every_case_is_one_sentence_and_a_lost_request_is_seen() {
    let mut run = empty_run(&catalogue::find("clients-default").unwrap());
    for case in ["wrk, 500 clients", "wrk, 1000 clients"] {
        run.measurements.push(Measurement {
            case: case.to_owned(),
            target: "weir".to_owned(),
            round: 1,
            values: BTreeMap::from([(Metric::Availability, 100.0)]),
            ..Measurement::default()
        });
    }
    let sentence = "Availability: bar at least 100 % met in all 2 cases";
    assert_eq!(sentences(&run), [(sentence.to_owned(), Some(true))]);
    run.measurements[1].values.insert(Metric::Availability, 100.0 * 999_999.0 / 1e6);
    let judged = sentences(&run);
    assert_eq!(judged.iter().map(|(_, is_met)| *is_met).collect::<Vec<_>>(), [Some(true), Some(false)]);
    assert!(judged[1].0.contains("(wrk, 1000 clients) 99.999 %"), "{}", judged[1].0);
}

#[test]
fn a_bar_that_is_met_in_every_case_still_says_where_noise_could_decide() {
    let mut run = empty_run(&catalogue::find("l7-keepalive").unwrap());
    run.scenario.bars.retain(|bar| bar.metric == Metric::CpuPerRequest);
    for (case, weir) in [("a", [5.0; 9]), ("b", [5.0, 9.9, 5.0, 9.9, 5.0, 9.9, 5.0, 9.9, 5.0])] {
        for (round, own) in weir.into_iter().enumerate() {
            for (target, value) in [("weir", own), ("nginx", 10.0)] {
                run.measurements.push(Measurement {
                    case: case.to_owned(),
                    target: target.to_owned(),
                    round: round as u32 + 1,
                    values: BTreeMap::from([(Metric::CpuPerRequest, value)]),
                    ..Measurement::default()
                });
            }
        }
    }
    let judged = sentences(&run);
    assert_eq!(judged.len(), 1, "{judged:?}");
    assert_eq!(judged[0].1, Some(true), "{judged:?}");
    assert!(judged[0].0.ends_with("met in all 2 cases, but inside the noise in 1"), "{}", judged[0].0);
}

#[test]
fn a_bar_for_one_case_says_nothing_of_the_others() {
    let mut run = empty_run(&catalogue::find("queue-single-slot").unwrap());
    run.scenario.bars.retain(|bar| bar.metric == Metric::OfCapacity);
    for (case, share) in [("3 clients", 0.5), ("30 clients", 0.995)] {
        run.measurements.push(Measurement {
            case: case.to_owned(),
            target: "weir".to_owned(),
            round: 1,
            values: BTreeMap::from([(Metric::OfCapacity, share)]),
            ..Measurement::default()
        });
    }
    let judged = sentences(&run);
    assert_eq!(judged.len(), 1);
    assert!(judged[0].1 == Some(true) && judged[0].0.contains("(30 clients) 0.995"), "{}", judged[0].0);
    run.measurements[1].values.insert(Metric::OfCapacity, 0.98);
    assert_eq!(sentences(&run)[0].1, Some(false));
}

#[test]
fn throughput_relative_to_direct_is_taken_within_the_round() {
    let mut run = run_with(&[("direct", &[5.0, 10.0]), ("weir", &[10.0, 20.0])]);
    run.note_ratios();
    for measurement in run.measurements.iter().filter(|measurement| measurement.target == "weir") {
        assert_eq!(measurement.values[&Metric::OfDirect], 0.5);
    }
}

#[test]
fn cost_relative_to_no_persistence_is_taken_within_the_round_and_the_product() {
    let mut run = run_with(&[
        ("weir", &[11.0, 22.0]),
        ("weir/no-persistence", &[10.0, 20.0]),
        ("haproxy", &[30.0, 15.0]),
        ("haproxy/no-persistence", &[20.0, 10.0]),
        ("nginx", &[10.0, 10.0]),
    ]);
    run.note_ratios();
    for measurement in &run.measurements {
        let ratio = measurement.values.get(&Metric::OfNoPersistence).copied();
        let expected = match measurement.target.as_str() {
            "weir" => Some(1.1),
            "haproxy" => Some(1.5),
            _ => None,
        };
        assert_eq!(ratio, expected, "{}, round {}", measurement.target, measurement.round);
    }
}

#[test]
fn a_failed_target_is_named_and_has_no_figures() {
    let mut run = run_with(&[("weir", &[8.0]), ("nginx", &[10.0])]);
    let mut faults = Faults::default();
    faults.note(&crate::load::LoadFault::Status(502, "HTTP/1.1 502".to_owned()));
    run.measurements[1].failure = Some(format!("wrong answers: {faults}"));
    run.failed.insert("nginx".to_owned(), format!("round 1: wrong answers: {faults}"));
    let text = markdown::findings(&run);
    assert!(text.contains("nginx FAILED") && text.contains("1 x status; first: status 502"), "{text}");
    assert!(!text.contains("| nginx"), "{text}");
}

#[test]
fn a_report_names_machine_command_and_versions_and_is_saved_with_its_figures() {
    let mut run = run_with(&[("weir", &[8.0, 8.1]), ("nginx", &[10.0, 10.1])]);
    run.targets.insert(
        "nginx".to_owned(),
        TargetRecord {
            version: "nginx/1.22.1".to_owned(),
            tls_library: Some("OpenSSL 3.0.19".to_owned()),
            class: Some(TuningClass::Tuned),
            command: "nginx -c nginx.conf".to_owned(),
            file: "nginx.conf".to_owned(),
            config: "worker_processes 1;\n".to_owned(),
            second: Some(("mime.types".to_owned(), "types {}\n".to_owned())),
        },
    );
    run.cannot.insert("apache".to_owned(), "it passes no plain TCP".to_owned());
    run.notes.push("haproxy is not installed and was left out.".to_owned());
    let root = tempfile::tempdir().unwrap();
    let first = folder::save(&run, root.path()).unwrap();
    let second = folder::save(&run, root.path()).unwrap();
    assert_ne!(first, second);
    let report = std::fs::read_to_string(first.join("report.md")).unwrap();
    for part in [
        "# l7-keepalive, ",
        "| weir   | 124 228 |",
        "Test CPU, 2 CPUs, virtual, 8 GiB, Linux 6.1.0",
        "net.core.somaxconn = 4096",
        "- nginx: nginx/1.22.1, tuned by its own documentation, TLS library OpenSSL 3.0.19: `nginx -c nginx.conf`",
        "- apache cannot take part: it passes no plain TCP\n",
        "- nginx: [mime.types](configs/nginx-mime.types)\n",
        "haproxy is not installed",
        "Medians of 9 interleaved rounds, 4.0 s each",
    ] {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    assert_eq!(folder::load(&first).unwrap(), as_saved(&run));
    assert_eq!(
        std::fs::read_to_string(first.join("configs/nginx-nginx.conf")).unwrap(),
        "worker_processes 1;\n"
    );
    assert_eq!(std::fs::read_to_string(first.join("configs/nginx-mime.types")).unwrap(), "types {}\n");
    let page = std::fs::read_to_string(first.join("report.html")).unwrap();
    for part in ["cannot take part: it passes no plain TCP", "TLS library OpenSSL 3.0.19", "mime.types"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
}

#[test]
fn figures_of_a_short_run_carry_a_warning() {
    let mut run = run_with(&[("weir", &[8.0])]);
    assert_eq!(run.caveat(), None);
    run.short = true;
    assert!(markdown::findings(&run).contains("these figures mean nothing"));
}

#[test]
fn no_bar_is_met_or_missed_by_figures_that_mean_nothing() {
    for weir in [8.0, 9.5] {
        let sound = run_with(&[("weir", &[weir; 3]), ("nginx", &[10.0; 3])]);
        assert!(sentences(&sound)[0].1.is_some());
        let short = Run { short: true, ..sound.clone() };
        for run in [short, Run { debug_build: true, ..sound }] {
            let (sentence, is_met) = sentences(&run).remove(0);
            assert!(is_met.is_none(), "{sentence}");
            assert!(
                sentence.ends_with(
                    "bar at most 0.85 of the better peer: not judged, since these figures mean nothing"
                ),
                "{sentence}"
            );
            let page = html::page(&run).unwrap();
            assert!(!page.contains("\"met\"") && !page.contains("\"missed\""), "{page}");
        }
    }
}

#[test]
fn disturbed_measurements_are_counted_and_when_they_prevail_warned_of() {
    let mut run = run_with(&[("weir", &[8.0, 8.0, 8.0]), ("nginx", &[10.0, 10.0, 10.0])]);
    for (index, foreign) in [(0, 80.0), (1, 4.0), (2, 6.0)] {
        run.measurements[index].values.insert(Metric::ForeignCpu, foreign);
    }
    run.measurements[3].values.insert(Metric::Stolen, 2.5);
    let text = markdown::findings(&run);
    assert!(text.contains("3 of 6 measurements were disturbed: other processes used up to 80 %"), "{text}");
    assert_eq!(run.caveat(), None);
    run.measurements[4].values.insert(Metric::Stolen, 2.5);
    assert!(run.caveat().is_some_and(|caveat| caveat.contains("quiet machine")));
}

#[test]
fn a_difference_that_may_be_chance_is_called_that() {
    let before = run_with(&[("weir", &[10.0, 10.1, 10.2]), ("nginx", &[20.0, 21.0, 22.0])]);
    let mut after = run_with(&[("weir", &[9.0, 9.1, 9.2]), ("nginx", &[20.5, 21.5, 20.9])]);
    let text = compare::compare(&before, &after);
    let changes = |target: &str, figure: &str| {
        let is_it = |line: &&str| line.contains(target) && line.contains(figure);
        text.lines().find(is_it).unwrap().rsplit('|').nth(1).unwrap().trim().to_owned()
    };
    assert_eq!(changes("weir", "CPU"), "better");
    assert_eq!(changes("weir", "req/s"), "better", "more of them is better: {text}");
    assert_eq!(changes("nginx", "CPU"), "inside the noise");
    assert!(!text.contains('>'), "nothing else differs: {text}");
    after.machine.kernel = "6.2.0".to_owned();
    assert!(compare::compare(&before, &after).contains("> The runs are from different machines or kernels"));
    let other = empty_run(&catalogue::find("idle-memory").unwrap());
    assert!(compare::compare(&before, &other).contains("no figure in common"));
}

#[test]
fn rounds_on_cpus_that_are_farther_apart_are_not_compared_with_others() {
    let at = |cost: [f64; 4], distances: [f64; 4]| {
        let mut run = run_with(&[("weir", &cost)]);
        run.measurements.iter_mut().zip(distances).for_each(|(it, ns)| it.distance = Some(ns));
        run
    };
    let line = |before: &Run, after: &Run| {
        let text = compare::compare(before, after);
        text.lines().find(|line| line.contains("CPU")).unwrap().to_owned()
    };
    let near = at([10.0, 10.1, 10.0, 10.1], [50.0; 4]);
    let mixed = at([12.0, 10.1, 10.0, 10.1], [400.0, 51.0, 49.0, 50.0]);
    let far = at([12.0, 12.1, 12.0, 12.1], [400.0; 4]);
    assert!(line(&near, &mixed).contains("inside the noise"), "{}", line(&near, &mixed));
    assert!(line(&near, &far).contains("not measured alike"), "{}", line(&near, &far));
    assert!(line(&near, &at([12.0, 12.1, 12.0, 12.1], [50.0; 4])).contains("worse"));
    let warns = |run: &Run| {
        markdown::findings(run).contains("1 of 4 measurements the two CPUs were far apart: 400 ns")
    };
    assert_eq!([&near, &mixed, &far].map(warns), [false, true, false]);
}

#[test]
fn measurements_are_one_a_line_and_are_read_back() {
    let mut run = run_with(&[("weir", &[8.5, 9.0])]);
    for measurement in &mut run.measurements {
        (measurement.limit, measurement.distance) = (None, None);
    }
    let first = &mut run.measurements[0];
    first.case = "a \"b\", c".to_owned();
    first.void.insert(Metric::RequestsPerSecond);
    (first.limit, first.distance) = (Some(Limit::Client), Some(50.25));
    first.percentiles = vec![(50.0, 12.5), (99.9, 1e6)];
    run.measurements[1].notes.push("a note".to_owned());
    let expected = "case,target,round,limit,cpu-distance,void,requests-per-second,cpu-per-request,latency-p50,latency-p99.9\r\n\
                    \"a \"\"b\"\", c\",\"weir\",1,client,50.25,requests-per-second,117647,8.5,12.5,1000000\r\n\
                    \"\",\"weir\",2,,,,111111.1,9,,\r\n";
    let text = figures::csv(&run).unwrap();
    assert_eq!(text, expected);
    // What it cannot hold comes from elsewhere.
    let read = figures::read(&text, &run.measurements[1..]).unwrap();
    assert_eq!(read, as_saved(&run).measurements);
    for (wrong, says) in
        [("target,round\r\n", "names of its columns"), (&text.replace(",12.5", ""), "line 2")]
    {
        let error = format!("{:#}", figures::read(wrong, &[]).unwrap_err());
        assert!(error.contains(says), "{error}");
    }
}

/// As a run is saved.
fn as_saved(run: &Run) -> Run {
    let mut run = run.clone();
    for value in run.measurements.iter_mut().flat_map(|it| it.values.values_mut()) {
        *value = figures::short(*value).parse().unwrap();
    }
    run
}

#[test]
fn a_run_of_nothing_still_has_a_page() {
    let run = empty_run(&catalogue::find("l7-keepalive").unwrap());
    assert!(html::page(&run).unwrap().contains("Not judged"));
}

#[test]
fn a_figure_that_is_void_is_called_that_and_judges_nothing() {
    let mut run = run_with(&[("weir", &[8.0, 8.0]), ("nginx", &[10.0, 10.0])]);
    for measurement in run.measurements.iter_mut().filter(|it| it.target == "weir") {
        measurement.void = [Metric::RequestsPerSecond].into();
        measurement.limit = Some(Limit::Origin);
    }
    let rows = rows(&run);
    assert!(!rows[0].ratios.contains_key(&Metric::RequestsPerSecond), "{:?}", rows[0]);
    let text = markdown::findings(&run);
    let line = text.lines().find(|line| line.starts_with("| weir")).unwrap();
    assert!(line.contains(" void ") && line.contains(" 8.00 ") && line.contains(" origin "), "{line}");
    assert!(text.contains("the target was not the limit: weir could have done more"), "{text}");
    assert!(html::page(&run).unwrap().contains("void"));
    // One of two rounds that counts is a figure, without an interval.
    run.measurements[0].void.clear();
    let row = super::summary::rows(&run).remove(0);
    assert!(row.spreads.contains_key(&Metric::RequestsPerSecond));
    assert_eq!(row.ratios[&Metric::RequestsPerSecond].in_brief(), "1.25 (1 round)");
}

#[test]
fn a_figure_that_is_void_in_most_rounds_is_void() {
    let mut run = run_with(&[("weir", &[8.0; 5]), ("nginx", &[10.0; 5])]);
    let own = run.measurements.iter_mut().filter(|it| it.target == "nginx");
    own.skip(2).for_each(|it| it.void = [Metric::RequestsPerSecond].into());
    let rows = rows(&run);
    let row = |name: &str| rows.iter().find(|row| row.target == name).unwrap();
    assert!(row("nginx").void.contains(&Metric::RequestsPerSecond), "{:?}", row("nginx"));
    assert!(row("weir").spreads.contains_key(&Metric::RequestsPerSecond));
    assert!(!row("weir").ratios.contains_key(&Metric::RequestsPerSecond), "{:?}", row("weir"));
    // Nor is it compared with another run, in which it counts.
    let sound = run_with(&[("nginx", &[10.0; 5])]);
    for text in [compare::compare(&run, &sound), compare::compare(&sound, &run)] {
        let lines = text.lines().filter(|line| line.starts_with("| nginx"));
        let figures: Vec<&str> = lines.map(|line| line.split('|').nth(2).unwrap().trim()).collect();
        assert_eq!(figures, ["CPU µs/req"], "{text}");
    }
}

#[test]
fn the_report_shows_where_the_memory_of_sampled_targets_is() {
    let mut run = run_with(&[("direct", &[1.0]), ("weir", &[8.0])]);
    assert!(!markdown::findings(&run).contains("Where the memory is"));
    let values = &mut run.measurements[1].values;
    for (metric, mib) in [(Metric::MemoryHeap, 3.5), (Metric::Pss, 9.0), (Metric::MemoryFile, 5.5)] {
        values.insert(metric, mib * 1_048_576.0);
    }
    let text = markdown::findings(&run);
    let table = text.split("Where the memory is:").nth(1).unwrap();
    let line = table.lines().find(|line| line.starts_with("| weir")).unwrap();
    assert!(line.contains("9.0") && line.contains("3.5") && !table.contains("| direct"), "{table}");
    assert!(html::page(&run).unwrap().contains("<h2>Where the memory is</h2>"));
}

#[test]
fn profiles_are_drawn_in_the_page_and_beside_it_or_their_lack_is_explained() {
    let mut run = run_with(&[("weir", &[8.0])]);
    let stacks = BTreeMap::from([("weir;main;send_[k]".to_owned(), 3), ("weir;main".to_owned(), 1)]);
    run.profiles.insert("weir".to_owned(), Profile::Stacks(stacks));
    run.profiles
        .insert("nginx/tuned".to_owned(), Profile::Missing("perf is not installed: get it".to_owned()));
    let page = html::page(&run).unwrap();
    assert!(
        page.contains("weir: 4 samples, 75 % of them in the kernel") && page.contains("send_[k]: 3 samples"),
        "{page}"
    );
    assert!(
        page.contains("nginx/tuned: no profile: perf is not installed: get it") && !page.contains("<script"),
        "{page}"
    );
    let root = tempfile::tempdir().unwrap();
    folder::save_as(&run, root.path()).unwrap();
    assert!(std::fs::read_to_string(root.path().join("profiles/weir.svg")).unwrap().starts_with("<svg"));
    assert_eq!(std::fs::read_dir(root.path().join("profiles")).unwrap().count(), 1);
    assert!(markdown::findings(&run).contains("75 % of them in the kernel (profiles/weir.svg)."));
    assert_eq!(folder::load(root.path()).unwrap().profiles, run.profiles);
}

#[test]
fn seconds_and_requests_are_files_where_they_were_noted() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = run_with(&[("weir", &[8.0])]);
    folder::save_as(&run, folder.path()).unwrap();
    assert!(!folder.path().join("seconds.csv").exists() && !folder.path().join("requests.csv").exists());
    let second = crate::load::Second { requests: 7, errors: 1, p50: 20.5, p99: 30.0 };
    run.measurements[0].seconds = vec![second, second];
    run.measurements[0].responses = vec![900, 1000];
    folder::save_as(&run, folder.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("seconds.csv").lines().last(), Some("\"\",\"weir\",1,2,7,1,20.5,30"));
    assert_eq!(read("requests.csv").lines().last(), Some("\"\",\"weir\",1,2,1000"));
    assert!(read("run.json").contains("\"responses\":\"900 1000\"") && !read("run.json").contains("p50"));
    assert_eq!(folder::load(folder.path()).unwrap(), as_saved(&run));
}

#[test]
fn a_regression_is_what_is_worse_by_more_than_noise_and_more_than_is_allowed() {
    let before = run_with(&[("weir", &[10.0, 10.1, 9.9])]);
    let worse = run_with(&[("weir", &[13.0, 13.1, 12.9])]);
    let verdict = |after: &Run, percent| compare::regression(&before, after, percent);
    let compare::RegressionVerdict::Worse(figures) = verdict(&worse, 10.0) else { panic!("it is worse") };
    assert!(
        figures[0].starts_with("weir: requests per second was 100 000 req/s and is 76 923"),
        "{figures:?}"
    );
    assert!(figures[1].contains("CPU per request was 10.00 µs and is 13.00 µs (1.30"), "{figures:?}");
    assert_eq!(verdict(&worse, 40.0), compare::RegressionVerdict::None);
    assert_eq!(verdict(&before, 0.0), compare::RegressionVerdict::None);
    // Better is no regression.
    assert_eq!(compare::regression(&worse, &before, 0.0), compare::RegressionVerdict::None);
}

#[test]
fn runs_that_cannot_be_compared_are_not_called_good() {
    let run = run_with(&[("weir", &[10.0, 10.1, 9.9])]);
    let cannot = |before: &Run, after: &Run| match compare::regression(before, after, 0.0) {
        compare::RegressionVerdict::Incomparable(why) => why,
        other => panic!("{other:?}"),
    };
    let mut few = run.clone();
    few.scenario.rounds.count = 2;
    assert!(cannot(&run, &few).contains("three rounds"));
    assert!(cannot(&run, &run_with(&[("nginx", &[1.0])])).contains("no figure in common"));
    let mut other = run.clone();
    other.scenario.name = "site".to_owned();
    assert!(cannot(&run, &other).contains("different scenarios"));
}
