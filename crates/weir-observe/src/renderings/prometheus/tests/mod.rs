//! The rendered text against a strict reader of the exposition format.

mod documents;
mod fixture;
mod golden;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use self::fixture::Fixture;
use super::*;
use crate::counters::memory::{
    CgroupStats, MemoryClassStats, MemoryFreedStats, MemoryStats, MemoryStep, TcpMemoryStats,
};
use crate::counters::per_worker::PerWorker;
use crate::counters::shard::{RouteShard, ShardSizes, WorkerShard};
use crate::counters::stats::{CertificateStats, IssuanceStats, ProcessStats};
use crate::counters::traces::TraceStats;
use crate::failure::{Cause, Failure};
use crate::words::phase::Phase;

/// One line `name{labels} value`.
#[derive(Debug, Clone, PartialEq)]
struct ParsedSample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// One family as the format has it: HELP, TYPE, samples.
#[derive(Debug)]
struct ParsedFamily {
    name: String,
    help: String,
    kind: String,
    samples: Vec<ParsedSample>,
}

/// Reads the text format strictly, by its description: anything unexpected is a panic.
fn read(text: &str) -> Vec<ParsedFamily> {
    assert!(text.ends_with('\n'), "the last line ends with a newline");
    let mut families: Vec<ParsedFamily> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(help.ends_with('.') && !help.contains('\\'), "{help}");
            let kind = lines
                .next()
                .and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")))
                .expect("TYPE follows");
            families.push(ParsedFamily {
                name: name.to_owned(),
                help: help.to_owned(),
                kind: kind.to_owned(),
                samples: Vec::new(),
            });
        } else {
            families.last_mut().expect("a family before its samples").samples.push(read_sample(line));
        }
    }
    families
}

fn read_sample(line: &str) -> ParsedSample {
    let mut labels = BTreeMap::new();
    let Some((name, rest)) = line.split_once('{') else {
        let (name, value) = line.split_once(' ').expect("one space");
        return ParsedSample { name: name.to_owned(), labels, value: value.parse().expect("a number") };
    };
    let mut chars = rest.chars();
    loop {
        let label: String = chars.by_ref().take_while(|char| *char != '=').collect();
        assert!(is_name(&label) && !label.contains(':'), "label {label} in {line}");
        assert_eq!(chars.next(), Some('"'), "{line}");
        let mut value = String::new();
        loop {
            match chars.next().expect("a closing quote") {
                '"' => break,
                '\\' => value.push(match chars.next() {
                    Some('n') => '\n',
                    Some(char @ ('\\' | '"')) => char,
                    other => panic!("escape {other:?} in {line}"),
                }),
                char => value.push(char),
            }
        }
        assert_eq!(labels.insert(label, value), None, "{line}");
        match chars.next() {
            Some(',') => {}
            Some('}') => break,
            other => panic!("{other:?} after a label in {line}"),
        }
    }
    let value = chars.as_str().strip_prefix(' ').expect("one space").parse().expect("a number");
    ParsedSample { name: name.to_owned(), labels, value }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// The checks of `promtool check metrics`, and the requirements of the format for histograms.
fn check(families: &[ParsedFamily]) {
    let mut names = HashSet::new();
    let mut series = HashSet::new();
    for ParsedFamily { name, kind, samples, .. } in families {
        let is_ours = name.starts_with("weir_") || name.starts_with("process_");
        assert!(is_name(name) && is_ours && names.insert(name), "{name}");
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        for word in name.split('_') {
            assert!(
                !["", "ms", "us", "micros", "milliseconds", "kb", "gauge", "counter"].contains(&word),
                "{name}"
            );
        }
        for sample in samples {
            assert!(series.insert(format!("{}{:?}", sample.name, sample.labels)), "twice: {sample:?}");
            assert!(
                kind == "histogram" || (sample.name == *name && !sample.labels.contains_key("le")),
                "{sample:?}"
            );
        }
        if kind == "histogram" {
            check_histogram(name, samples);
        }
    }
}

fn check_histogram(name: &str, samples: &[ParsedSample]) {
    assert!(name.ends_with("_seconds"), "{name}");
    let per_row = samples.iter().position(|sample| sample.name.ends_with("_count")).map_or(0, |at| at + 1);
    for row in samples.chunks(per_row.max(1)) {
        let [buckets @ .., sum, count] = row else { panic!("{name} without sum and count") };
        assert_eq!((sum.name.clone(), count.name.clone()), (format!("{name}_sum"), format!("{name}_count")));
        let (mut bound_before, mut count_before) = (0.0, 0.0);
        for bucket in buckets {
            let bound: f64 = bucket.labels["le"].parse().expect("a bound");
            assert!(bound > bound_before && bucket.value >= count_before, "{bucket:?}");
            (bound_before, count_before) = (bound, bucket.value);
            let mut labels = bucket.labels.clone();
            labels.remove("le");
            assert_eq!((labels, &bucket.name), (count.labels.clone(), &format!("{name}_bucket")));
        }
        assert_eq!((bound_before, count_before), (f64::INFINITY, count.value));
        assert_eq!(buckets.last().expect("buckets").labels["le"], "+Inf");
    }
}

/// The whole text, from pieces.
fn rendered(fixture: &Fixture) -> String {
    filtered(fixture, &FamilyFilter::default())
}

fn filtered(fixture: &Fixture, filter: &FamilyFilter) -> String {
    let (mut text, mut scrape) = (String::new(), Scrape::new(fixture, filter));
    while scrape.write_piece(&mut text) {}
    text
}

fn small_fixture() -> Fixture {
    let shard = WorkerShard::new(ShardSizes { listeners: 1, servers: &[1] });
    shard.connections_accepted.add(7);
    shard.connections_handed_out.add(2);
    let listener = &shard.listeners[0];
    listener.requests.add(12);
    listener.bytes_out.add(4096);
    listener.responses.record(200);
    listener.responses.record(502);
    listener.failures.record(Failure::server(Phase::Connect, Cause::Refused));
    [4, 3].into_iter().zip(&listener.tls_handshakes[1]).for_each(|(count, counter)| counter.add(count));
    let upstream = &shard.upstreams[0];
    upstream.requests.add(3);
    upstream.failures.record(Failure::server(Phase::Connect, Cause::Refused));
    for status in [200, 200, 404] {
        upstream.responses.record(status);
    }
    upstream.affinity[0].increment();
    upstream.grpc_statuses[0].increment();
    upstream.exchange_time.record(2_000);
    upstream.queue_time.record(3);
    let server = &upstream.servers[0];
    server.attempts.add(4);
    server.connections_idle.set(5);
    server.error_lines.add(2);
    server.failures.record(Phase::Connect);
    for micros in [100, 128, 1_000_000, 40_000_000] {
        server.response_time.record(micros);
    }
    server.connect_time.record(200);
    let mut fixture = Fixture::new(&[shard], &["web"], &[("api", &["10.0.0.1:80"])]);
    let reload = &mut fixture.general.reload;
    (reload.routes_said_seconds, reload.routes_lost_seconds) = (Some(1_700_000_100), Some(1_700_000_200));
    let server = &mut fixture.upstreams[0].servers[0];
    (server.is_down, server.ejections) = (true, vec![("trial", 2)]);
    server.probes = Some(golden::used_probes());
    fixture.general.process = process_figures();
    fixture.general.memory = memory_figures();
    fixture.general.admin.refusals[0] = 3;
    fixture.general.issuance = issuance();
    fixture.general.traces = TraceStats { spans_exported: 40, spans_dropped: [0, 6, 0], exports_failed: 2 };
    let listener = &mut fixture.listeners[0];
    listener.routes = vec![("/api/".to_owned(), route_shard(9, 1, &[200]))];
    note_certificates(listener);
    fixture
}

fn issuance() -> Option<IssuanceStats> {
    Some(IssuanceStats { hosts: vec![("failed", 1), ("valid", 2)], orders: [5, 3] })
}

fn memory_figures() -> MemoryStats {
    MemoryStats {
        used_bytes: 200 << 20,
        max_bytes: Some(256 << 20),
        cgroup: Some(CgroupStats { used_bytes: 210 << 20, max_bytes: 300 << 20 }),
        step: MemoryStep::Caches,
        entered: [3, 2, 1, 0],
        classes: vec![
            MemoryClassStats { name: "buffers", bytes: 100 << 20 },
            MemoryClassStats { name: "other", bytes: 100 << 20 },
        ],
        kernel_tcp: Some(TcpMemoryStats { used_bytes: 4096, max_bytes: 1 << 30 }),
        freed: MemoryFreedStats { idle_closed: 40, slow_ended: 7, refused: 0 },
    }
}

fn process_figures() -> ProcessStats {
    ProcessStats {
        cpu_micros: 12_340_000,
        open_fds: 12,
        max_fds: Some(1024),
        resident_bytes: 5 << 20,
        virtual_bytes: 1 << 30,
        temporary_file_bytes: 0,
        landlock_abi: 7,
        filters_system_calls: true,
        denied_system_calls: 0,
        framing_violations: 0,
        task_restarts: 2,
        panics: 1,
        node_state: "handed-over",
        is_watched: Some(true),
        failing_announcements: 1,
        started_micros: 1_800_000_000_500_000,
    }
}

fn route_shard(requests: u64, failures: u64, statuses: &[u16]) -> PerWorker<RouteShard> {
    let shard = RouteShard::default();
    shard.requests.add(requests);
    shard.failures.add(failures);
    statuses.iter().for_each(|status| shard.responses.record(*status));
    let mirror = &shard.mirror;
    for (counter, count) in
        [(&mirror.requests, 5), (&mirror.failures, 1), (&mirror.too_long, 2), (&mirror.compared, 4)]
    {
        counter.add(count);
    }
    mirror.differences[0].increment();
    [Arc::new(shard)].into_iter().collect()
}

fn note_certificates(listener: &mut fixture::FixtureListener) {
    let certificate = |file: &str, expiry_seconds| CertificateStats { file: file.to_owned(), expiry_seconds };
    listener.certificates = vec![certificate("a.pem", 4_102_444_800)];
    listener.certificate_reloads = [2, 1];
    listener.revocations = Some(certificate("revoked.pem", 1_800_000_000));
}

/// `golden.txt` has the whole text for these stats; `UPDATE=1` writes it anew.
#[test]
fn the_pieces_are_the_text_that_was_made_at_once() {
    let upstreams: [(&str, &[&str]); 2] = [("app", &["a", "b"]), ("api", &["10.0.0.1:80"])];
    let mut fixture = Fixture::new(&golden::used_shards(), &["web", "in \"quotes\"\\"], &upstreams);
    let [a, b] = &mut fixture.upstreams[0].servers[..] else { panic!("two servers") };
    (a.is_ejected, a.ejections, a.attempts_open) = (true, vec![("failures", 2), ("trial", 0)], 9);
    (b.is_down, b.probes, b.idle_shared) = (true, Some(golden::used_probes()), 3);
    fixture.upstreams[1].servers[0].mode = "draining";
    fixture.upstreams[1].is_in_panic = true;
    let general = &mut fixture.general;
    general.process = process_figures();
    general.memory = memory_figures();
    (general.admin.requests, general.admin.refusals[0], general.own_log_lines_dropped) = (17, 3, 11);
    general.issuance = issuance();
    general.traces = TraceStats { spans_exported: 40, spans_dropped: [0, 6, 0], exports_failed: 2 };
    let shard = route_shard(9, 1, &[200, 200, 200, 200, 200, 200, 200, 404]);
    fixture.listeners[0].routes = vec![("/api/".to_owned(), shard)];
    note_certificates(&mut fixture.listeners[0]);
    if std::env::var_os("UPDATE").is_some() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/renderings/prometheus/tests/golden.txt");
        let text = rendered(&fixture).replace(env!("CARGO_PKG_VERSION"), "VERSION");
        std::fs::write(golden, text).expect("the golden text is written");
        return;
    }
    let expected = include_str!("golden.txt").replace("VERSION", env!("CARGO_PKG_VERSION"));
    for (found, expected) in rendered(&fixture).lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(rendered(&fixture), expected);
}

#[test]
fn figures_are_rendered_to_the_letter() {
    let text = rendered(&small_fixture());
    check(&read(&text));
    for part in [
        "# HELP weir_worker_connections_accepted_total Connections accepted by the worker.\n\
         # TYPE weir_worker_connections_accepted_total counter\n\
         weir_worker_connections_accepted_total{worker=\"0\"} 7\n",
        "weir_worker_connections_handed_over_total{worker=\"0\",direction=\"in\"} 0\n\
         weir_worker_connections_handed_over_total{worker=\"0\",direction=\"out\"} 2\n",
        "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 12.340000\n",
        "process_start_time_seconds 1800000000.500000\n",
        "process_open_fds 12\n",
        "process_max_fds 1024\n",
        "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 5242880\n",
        "weir_upstream_responses_total{upstream=\"api\",class=\"2xx\"} 2\n",
        "weir_upstream_status_responses_total{upstream=\"api\",status=\"200\"} 2\n\
         weir_upstream_status_responses_total{upstream=\"api\",status=\"404\"} 1\n",
        "weir_admin_refusals_total{reason=\"credentials\"} 3\n",
        "weir_listener_requests_total{listener=\"web\"} 12\n",
        "weir_route_requests_total{listener=\"web\",route=\"/api/\"} 9\n",
        "weir_listener_sent_bytes_total{listener=\"web\"} 4096\n",
        "weir_listener_responses_total{listener=\"web\",class=\"2xx\"} 1\n",
        "weir_listener_responses_total{listener=\"web\",class=\"5xx\"} 1\n",
        "weir_listener_tls_handshakes_total{listener=\"web\",version=\"1.3\",resumed=\"no\"} 4\n\
         weir_listener_tls_handshakes_total{listener=\"web\",version=\"1.3\",resumed=\"yes\"} 3\n",
        "weir_listener_certificate_expiry_timestamp_seconds{listener=\"web\",certificate=\"a.pem\"} 4102444800\n",
        "weir_listener_crl_expiry_timestamp_seconds{listener=\"web\",crl=\"revoked.pem\"} 1800000000\n",
        "weir_listener_certificate_reloads_total{listener=\"web\",outcome=\"loaded\"} 2\n\
         weir_listener_certificate_reloads_total{listener=\"web\",outcome=\"failed\"} 1\n",
        "# TYPE weir_listener_failures_total counter\n\
         weir_listener_failures_total{listener=\"web\",party=\"server\",reason=\"connect-refused\"} 1\n",
        "weir_upstream_exchange_time_seconds_sum{upstream=\"api\"} 0.002000\n",
        "# TYPE weir_server_connections_idle gauge\n\
         weir_server_connections_idle{upstream=\"api\",server=\"10.0.0.1:80\"} 5\n",
        "weir_server_failures_total{upstream=\"api\",server=\"10.0.0.1:80\",phase=\"connect\"} 1\n",
        "# TYPE weir_server_response_time_seconds histogram\n\
         weir_server_response_time_seconds_bucket{upstream=\"api\",server=\"10.0.0.1:80\",le=\"0.000128\"} 1\n\
         weir_server_response_time_seconds_bucket{upstream=\"api\",server=\"10.0.0.1:80\",le=\"0.000256\"} 2\n",
        "weir_server_response_time_seconds_bucket{upstream=\"api\",server=\"10.0.0.1:80\",le=\"1.048576\"} 3\n",
        "weir_server_response_time_seconds_bucket{upstream=\"api\",server=\"10.0.0.1:80\",le=\"33.554432\"} 3\n\
         weir_server_response_time_seconds_bucket{upstream=\"api\",server=\"10.0.0.1:80\",le=\"+Inf\"} 4\n\
         weir_server_response_time_seconds_sum{upstream=\"api\",server=\"10.0.0.1:80\"} 41.000228\n\
         weir_server_response_time_seconds_count{upstream=\"api\",server=\"10.0.0.1:80\"} 4\n",
        "weir_server_up{upstream=\"api\",server=\"10.0.0.1:80\"} 0\n",
        "weir_server_probes_total{upstream=\"api\",server=\"10.0.0.1:80\",result=\"passed\"} 8\n\
         weir_server_probes_total{upstream=\"api\",server=\"10.0.0.1:80\",result=\"failed\"} 1\n",
        "weir_server_probe_failures_total{upstream=\"api\",server=\"10.0.0.1:80\",party=\"server\",\
         reason=\"response-unexpected-status\"} 1\n",
        "weir_server_health_changes_total{upstream=\"api\",server=\"10.0.0.1:80\"} 1\n",
        "weir_trace_spans_exported_total 40\n",
        "weir_trace_spans_dropped_total{reason=\"undelivered\"} 6\n",
        "weir_trace_exports_failed_total 2\n",
        "weir_server_probe_time_seconds{upstream=\"api\",server=\"10.0.0.1:80\"} 2.001500\n",
    ] {
        assert!(text.contains(part), "missing:\n{part}\nin:\n{text}");
    }
}

#[test]
fn every_counter_of_the_shards_is_shown() {
    let text = rendered(&small_fixture());
    let families = read(&text);
    for (part, fields) in [
        ("worker", 38),
        ("trace", 3),
        ("listener", 35),
        ("upstream", 26),
        ("server", 29),
        ("admin", 2),
        ("route", 8),
    ] {
        let prefix = format!("weir_{part}_");
        let found = families.iter().filter(|family| family.name.starts_with(&prefix)).count();
        assert_eq!(found, fields, "families of {part}");
    }
}

#[test]
fn nothing_counted_is_still_well_formed() {
    check(&read(&rendered(&Fixture::default())));
}

/// One upstream of this many servers that got no request.
fn servers(count: usize) -> Fixture {
    fixture_of_servers(WorkerShard::new(ShardSizes { listeners: 0, servers: &[count] })).with_unused_servers()
}

/// The same, each used once.
fn used_servers(count: usize) -> Fixture {
    let shard = WorkerShard::new(ShardSizes { listeners: 0, servers: &[count] });
    for server in &shard.upstreams[0].servers {
        server.attempts.increment();
        server.response_time.record(1);
        server.connect_time.record(1);
    }
    fixture_of_servers(shard)
}

fn fixture_of_servers(shard: WorkerShard) -> Fixture {
    let count = shard.upstreams[0].servers.len();
    let names: Vec<String> = (0..count).map(|index| format!("10.0.0.{index}:80")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Fixture::new(&[shard], &[], &[("api", &names)])
}

/// Lines grow with the number of servers and with nothing else.
#[test]
fn cardinality_is_bounded_by_the_config() {
    let lines = |fixture: &Fixture| rendered(fixture).lines().count();
    let none = lines(&servers(0));
    for (one, fifty, max) in [(servers(1), servers(50), 19), (used_servers(1), used_servers(50), 80)] {
        let per_server = lines(&one) - none;
        assert!(per_server <= max, "{per_server} lines per server");
        assert_eq!(lines(&fifty), none + 50 * per_server);
    }
}

/// Memory is allocated per server's histograms, not per line; at most one piece is held.
#[test]
fn a_scrape_holds_one_piece_however_many_servers_there_are() {
    let (fixture, filter) = (used_servers(2_000), FamilyFilter::default());
    let (mut lines, mut bytes) = (0, 0);
    let allocated = allocation_counter::measure(|| {
        let (mut piece, mut scrape) = (String::new(), Scrape::new(&fixture, &filter));
        while scrape.write_piece(&mut piece) {
            lines += piece.lines().count();
            bytes += piece.len();
            piece.clear();
        }
    });
    assert!(lines > 140_000 && bytes > 10_000_000, "{lines} lines, {bytes} bytes");
    assert!(allocated.bytes_max < 3 * PIECE_BYTES as u64, "{} bytes at once", allocated.bytes_max);
    assert!(allocated.count_total < 10_000, "{} allocations", allocated.count_total);
}

/// Families without samples take their time too: others are let in between.
#[test]
fn a_piece_may_be_empty_but_ends() {
    let fixture = servers(100_000);
    let filter = FamilyFilter::by_prefix(vec!["weir_server_failures_total".to_owned()]).expect("it exists");
    let mut scrape = Scrape::new(&fixture, &filter);
    let mut pieces = Vec::new();
    loop {
        let mut piece = String::new();
        let goes_on = scrape.write_piece(&mut piece);
        pieces.push(piece);
        if !goes_on {
            break;
        }
    }
    assert!(pieces.len() > 20, "{} pieces", pieces.len());
    assert_eq!(read(&pieces.concat()).len(), 1);
}

#[test]
fn histograms_have_the_requested_buckets() {
    let mut fixture = small_fixture();
    fixture.buckets = BucketBounds::new([100, 500_000, 1_000_000, 60_000_000]);
    let text = rendered(&fixture);
    check(&read(&text));
    let buckets: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("weir_server_response_time_seconds_bucket"))
        .collect();
    let of_server = |rest: &str| format!("{{upstream=\"api\",server=\"10.0.0.1:80\",le=\"{rest}");
    // One value of 100 us is not below 100 us, which divides its bucket of 96 to 103 in the middle.
    assert_eq!(
        buckets,
        [("0.0001\"} 0"), ("0.5\"} 2"), ("1\"} 2"), ("60\"} 4"), ("+Inf\"} 4")].map(of_server)
    );
}

#[test]
fn families_are_filtered_by_the_beginning_of_their_names() {
    let wanted = ["weir_server_up", "weir_config_"].map(str::to_owned).to_vec();
    let filter = FamilyFilter::by_prefix(wanted).expect("there are such");
    let families = read(&filtered(&small_fixture(), &filter));
    let names: Vec<&str> = families.iter().map(|family| &*family.name).collect();
    assert_eq!(names.len(), 11, "{names:?}");
    assert_eq!(names.last(), Some(&"weir_server_up"));
    let vain = FamilyFilter::by_prefix(vec!["weir_".to_owned(), "weir_x".to_owned()]);
    assert_eq!(vain, Err(NoSuchFamily("weir_x".to_owned())));
}

proptest! {
    #[test]
    fn any_name_and_any_count_are_well_formed(
        name in "\\PC{0,20}|[\\n\"\\\\{},= ]{0,10}",
        micros in prop::collection::vec(any::<u64>(), 0..50),
        count in any::<u64>(),
    ) {
        let shard = WorkerShard::new(ShardSizes { listeners: 1, servers: &[1] });
        shard.listeners[0].requests.add(count);
        for value in micros {
            shard.upstreams[0].servers[0].response_time.record(value);
        }
        let families = read(&rendered(&Fixture::new(&[shard], &[&name], &[(&name, &[&name])])));
        check(&families);
        let requests = families.iter().find(|family| family.name == "weir_listener_requests_total").unwrap();
        prop_assert_eq!(&requests.samples[0].labels["listener"], &name);
        prop_assert_eq!(requests.samples[0].value, count as f64);
    }
}
