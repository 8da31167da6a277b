//! The page against the JSON that keeps it current, against its own policy, and against names that look like markup.

use std::collections::BTreeSet;

use super::*;
use crate::counters::memory::{CgroupStats, MemoryClassStats, MemoryFreedStats, MemoryStats, MemoryStep};
use crate::counters::stats::{
    ListenerStats, ReloadStats, RouteStats, ServerStats, UpstreamStats, WorkerStats,
};
use crate::overview::{
    CacheOverview, CertificateOverview, EventRate, EventRates, KeysOverview, LimitOverview, ListenerOverview,
    NamedCount, PageOverview, PanicOverview, ProbeOverview, ProcessOverview, Quantiles, RateHistory,
    RefusedFragment, RefusedKey, RouteOverview, RoutesFromOverview, ServerOverview, ServerStatus,
    TableOverview, UpstreamOverview, WorkerOverview,
};
use crate::words::cache_result::CacheResult;

fn quantiles() -> Quantiles {
    Quantiles { count: 9, mean_us: Some(900), p50_us: Some(850), p95_us: Some(2_000), p99_us: Some(3_000) }
}

fn server(name: &str) -> ServerOverview {
    ServerOverview {
        name: name.to_owned(),
        address: "10.0.0.1:80".to_owned(),
        endpoints: vec!["10.0.0.1:80".to_owned()],
        status: ServerStatus::Up,
        since_ms: 940_000,
        why: "the config names it".to_owned(),
        weight: 7,
        ramp_percent: 100,
        is_backup: false,
        is_last_resort: false,
        zone: None,
        metadata: Default::default(),
        max_requests: Some(9),
        in_flight: 2,
        deadline_in_ms: None,
        reuse_percent: Some(66.7),
        response_time: quantiles(),
        connect_time: quantiles(),
        rates: EventRates { requests: EventRate { now: 123.0, peak: 456.0 }, ..EventRates::default() },
        failures: vec![NamedCount { name: "connect", count: 3 }],
        ejections: Vec::new(),
        probes: Some(ProbeOverview {
            passed: 5,
            failed: 1,
            failures: Vec::new(),
            last_us: 700,
            check: "L7OK",
            changes: 1,
        }),
        stats: ServerStats { name: name.to_owned(), mode: "serving", ..ServerStats::default() },
    }
}

/// An overview with one listener and one upstream with this many servers, all named as given.
fn overview(name: &str, servers: usize) -> Overview {
    let failures = vec![FailureCount {
        reason: "connect-refused",
        phases: vec!["connect"],
        party: "server",
        count: 1234,
    }];
    Overview {
        routes_from: vec![RoutesFromOverview {
            name: "kubernetes".to_owned(),
            store: "the API server of Kubernetes".to_owned(),
            said_at_ms: Some(910_000),
            lost_at_ms: Some(940_000),
            problem: Some("it refuses connections".to_owned()),
            missing: vec!["it does not know the kind `TLSRoute`".to_owned()],
            keys: Vec::new(),
            refused: vec![RefusedFragment {
                key: "Gateway infra/<web>".to_owned(),
                errors: vec!["port 80 is taken".to_owned()],
            }],
        }],
        page: Default::default(),
        process: ProcessOverview {
            version: "1.2.3",
            name: name.to_owned(),
            pid: 42,
            at_ms: 1_000_000,
            started_ms: 400_000,
            is_stopping: false,
            state: "serving",
            announcements: Vec::new(),
            is_watched: None,
            connections_open: Default::default(),
            connections_max: 1000,
            open_files: 12,
            open_files_max: 2000,
            memory_bytes: 10 << 20,
            memory: MemoryStats {
                used_bytes: 200 << 20,
                max_bytes: Some(256 << 20),
                cgroup: Some(CgroupStats { used_bytes: 210 << 20, max_bytes: 300 << 20 }),
                kernel_tcp: None,
                step: MemoryStep::Caches,
                entered: [3, 2, 1, 0],
                classes: vec![
                    MemoryClassStats { name: "buffers", bytes: 100 << 20 },
                    MemoryClassStats { name: "other", bytes: 100 << 20 },
                ],
                freed: MemoryFreedStats { idle_closed: 40, slow_ended: 7, refused: 0 },
            },
            access_log_lines_lost: 0,
            own_log_lines_lost: 0,
            allows_changes: true,
            confinement: Default::default(),
            panics: vec![PanicOverview {
                location: "src/a.rs:1:2".to_owned(),
                message: name.to_owned(),
                thread: "weir-worker-0".to_owned(),
                count: 3,
                first_ms: 1_000,
                last_ms: 900_000,
                backtrace: Some(name.to_owned()),
            }],
        },
        config: ReloadStats { generation: 3, since_seconds: 900, ..ReloadStats::default() },
        workers: vec![WorkerOverview {
            exchanges_rate: EventRate { now: 5.0, peak: 9.0 },
            stats: WorkerStats::default(),
        }],
        listeners: vec![ListenerOverview {
            name: name.to_owned(),
            addresses: vec!["127.0.0.1:8080".to_owned()],
            protocol: "http",
            has_tls: true,
            connections_max: Some(5),
            maintenance: None,
            routes: vec![RouteOverview {
                name: name.to_owned(),
                matches: name.to_owned(),
                action: name.to_owned(),
                upstreams: Vec::new(),
                stats: RouteStats { requests: 5, ..RouteStats::default() },
            }],
            rates: EventRates::default(),
            history: RateHistory::default(),
            failures: failures.clone(),
            tls_handshakes: Vec::new(),
            stats: ListenerStats { tunnels: 1, ..ListenerStats::default() },
        }],
        limits: vec![LimitOverview {
            name: name.to_owned(),
            key: "{header.x-user}".to_owned(),
            rule: "10/s, burst 20".to_owned(),
            is_dry_run: true,
            passed: 1234,
            delayed: 5,
            refused: 6,
            excess: 7,
            waiting: 0,
            keys: 8,
            keys_max: 100_000,
            evictions: 9,
            shared: None,
            top: vec![RefusedKey { key: name.to_owned(), count: 6, last_ms_ago: 1 }],
        }],
        tables: vec![TableOverview {
            name: name.to_owned(),
            key: "{client_address}".to_owned(),
            counters: vec!["http_req_rate(10s)".to_owned()],
            keys: 3,
            keys_max: 100_000,
            evictions: 1,
            untracked: 2,
            shared: None,
        }],
        caches: vec![CacheOverview {
            name: name.to_owned(),
            requests: CacheResult::ALL.into_iter().map(|result| (result.as_str(), 1_234)).collect(),
            stored: 4,
            not_stored: 1,
            responses: 3,
            memory_bytes: 40_000,
            memory_bytes_max: 1 << 27,
            disk_files: Some(2),
            disk_bytes: Some(8_192),
            evictions: [("memory", 1)].into(),
        }],
        keys: vec![KeysOverview {
            upstream: name.to_owned(),
            path: format!("/{name}"),
            keys: Some(2),
            fetched_ms: Some(1),
            fetches: 12,
            unchanged: 5,
            failures: 3,
            last_failure: Some(name.to_owned()),
        }],
        certificates: vec![CertificateOverview {
            listeners: vec![name.to_owned()],
            host: name.to_owned(),
            source: "acme",
            state: "renewal-failed",
            ca: Some(format!("https://{name}/")),
            file: None,
            not_after_s: Some(2),
            next_attempt_s: Some(1),
            last_error: Some(name.to_owned()),
            obtained: 1,
            failed: 2,
        }],
        upstreams: vec![UpstreamOverview {
            name: name.to_owned(),
            protocol: "http",
            balance: "round-robin".to_owned(),
            when_full: "queue",
            servers_usable: servers,
            servers_total: servers,
            queue_length_max: 100,
            queue_time: quantiles(),
            response_time: quantiles(),
            rates: EventRates::default(),
            source: Some(crate::overview::SourceOverview {
                name: format!("consul {name}"),
                said_at_ms: 995_000,
                is_stale: true,
                problem: Some("it refuses connections".to_owned()),
                remark: Some("not followed: `lb_policy` RING_HASH".to_owned()),
                changes: 3,
            }),
            history: RateHistory::default(),
            failures,
            retries: vec![NamedCount { name: "refused", count: 1 }, NamedCount { name: "status", count: 2 }],
            retries_refused: vec![NamedCount { name: "method", count: 1 }],
            affinity: vec![NamedCount { name: "kept", count: 1 }],
            servers: (0..servers).map(|number| server(&format!("{name}{number}"))).collect(),
            stats: UpstreamStats { queued: 4, ..UpstreamStats::default() },
        }],
    }
}

fn rendered(overview: &Overview, page_token: Option<&str>) -> String {
    page(&PageInput {
        overview,
        admin: AdminStats::default(),
        config: "[process]\nname = \"<x>\"",
        page_token,
        has_profiler: true,
    })
}

/// The values of an attribute, in order.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    page.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

fn look<'a>(value: &'a serde_json::Value, path: &str) -> Option<&'a serde_json::Value> {
    path.split('.').filter(|key| !key.is_empty()).try_fold(value, |value, key| match value {
        serde_json::Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        _ => value.get(key),
    })
}

/// The paths that the script looks up exist, and it knows their formats.
#[test]
fn every_live_figure_is_in_the_overview() {
    let overview = overview("app", 2);
    let page = rendered(&overview, Some("token"));
    let json = serde_json::to_value(&overview).unwrap();
    let parts: BTreeSet<&str> = values(&page, "data-at").into_iter().collect();
    assert!(parts.contains("upstreams.0.servers.1") && parts.contains("listeners.0"), "{parts:?}");
    let paths = values(&page, "data-v");
    assert!(paths.len() > 60, "{} live figures", paths.len());
    for path in paths {
        assert!(
            parts.iter().any(|part| look(&json, part).and_then(|part| look(part, path)).is_some()),
            "{path}"
        );
    }
    for part in parts {
        assert!(look(&json, part).is_some(), "{part}");
    }
    let known = |format: &str| {
        [format!("{format}:"), format!("{format},"), format!(" {format} =")]
            .iter()
            .any(|text| SCRIPT.contains(text))
    };
    for format in values(&page, "data-f").into_iter().collect::<BTreeSet<_>>() {
        assert!(known(format), "the script does not know {format}");
    }
}

#[test]
fn the_page_reads_well_without_scripts() {
    let page = rendered(&overview("app", 2), None);
    for text in [
        "app0",
        "10.0.0.1:80",
        "the config names it",
        "connect-refused",
        "1\u{202f}234",
        "refused 1, status 2",
        "up",
        "7",
    ] {
        assert!(page.contains(text), "{text} is missing");
    }
    assert!(page.contains("<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>"));
    assert_eq!(
        page.matches("<th").count() - page.matches("<thead").count(),
        page.matches(" scope=\"").count()
    );
    assert_eq!(page.matches("<h1").count(), 1);
    assert!(!page.contains("data-server") && !page.contains("<dialog"), "changes are off");
    assert!(!page.contains("/api/profile/"), "a profile takes the right to change something");
    let page = rendered(&overview("app", 2), Some("token"));
    assert_eq!(page.matches("data-server=\"").count(), 2);
    assert_eq!(page.matches("formaction=\"/api/profile/").count(), 2);
    assert!(page.contains("<meta name=\"weir-page-token\" content=\"token\">"));
}

#[test]
fn without_a_profiler_there_are_no_buttons_for_it() {
    let overview = overview("app", 2);
    let (admin, config) = (AdminStats::default(), "");
    let page_token = Some("token");
    let page = page(&PageInput { overview: &overview, admin, config, page_token, has_profiler: false });
    assert!(!page.contains("/api/profile/") && page.matches("data-server=\"").count() == 2);
}

#[test]
fn names_are_text() {
    let page = rendered(&overview("<img src=x onerror=alert(1)>\"'&", 1), Some("t"));
    assert!(!page.contains("<img") && !page.contains("<x>"), "{page}");
}

/// The policy forbids inline scripts and styles and other origins, and everything fits into few bytes.
#[test]
fn nothing_is_inline_and_all_of_it_is_small() {
    let pages =
        [rendered(&overview("app", 3), Some("t")), failures_page(), failure_page("queue-timeout").unwrap()];
    for page in &pages {
        assert!(!page.contains(" style=") && !page.contains("<style") && !page.contains(" onclick="));
        assert_eq!(
            page.matches("<script").count(),
            page.matches("<script src=\"/status.js\" defer></script>").count()
        );
        assert!(!page.contains("://"), "{page}");
    }
    let addresses = SCRIPT.replace("http://www.w3.org/2000/svg", "");
    assert!(!addresses.contains("://") && !STYLE.contains("://") && !STYLE.contains("@import"));
    assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("eval("));
    assert!(STYLE.len() + SCRIPT.len() < 60_000);
}

#[test]
fn no_text_from_outside_turns_or_hides_what_is_around_it() {
    let page = rendered(&overview("a\u{1b}[2J\u{202e}b\r\u{9b}", 2), Some("token"));
    assert!(page.contains(r"a\u{1b}[2J\u{202e}b\u{d}\u{9b}"));
    assert!(!page.contains(|char| !matches!(char, '\n' | '\t') && crate::printable::misleads(char)));
}

/// An overview of this many upstreams `app0`, `app1` ... with two servers each, all at work.
fn several(upstreams: usize) -> Overview {
    let mut overview = overview("app", 2);
    let one = overview.upstreams.remove(0);
    overview.upstreams = (0..upstreams)
        .map(|number| UpstreamOverview {
            name: format!("app{number}"),
            rates: EventRates { requests: EventRate { now: 5.0, peak: 9.0 }, ..EventRates::default() },
            ..one.clone()
        })
        .collect();
    overview
}

/// The upstreams of a page in order, and whether each is unfolded.
fn lines(page: &str) -> Vec<(&str, bool)> {
    let heads = page.split("<details class=\"upstream\"").skip(1).filter_map(|rest| rest.split('>').next());
    heads.map(|head| (values(head, "data-name")[0], head.ends_with(" open"))).collect()
}

#[test]
fn problems_come_first() {
    let mut overview = several(4);
    overview.upstreams[1].rates.failures.now = 1.0;
    overview.upstreams[2].servers[1].status = ServerStatus::Ejected;
    overview.upstreams[3].servers_usable = 0;
    let page = rendered(&overview, None);
    let names: Vec<&str> = lines(&page).iter().map(|line| line.0).collect();
    assert_eq!(names, ["app3", "app2", "app1", "app0"]);
    let states = page.split("data-c=\"condition\"").skip(1).map(|rest| values(rest, "data-is")[0]);
    assert_eq!(states.collect::<Vec<_>>(), ["down", "degraded", "failing", "up"]);
    let broken = page.find("data-at=\"upstreams.2.servers.1\"").unwrap();
    assert!(
        broken < page.find("data-at=\"upstreams.2.servers.0\"").unwrap(),
        "the broken server is the first"
    );
}

#[test]
fn an_upstream_takes_a_line_where_there_are_many_or_it_is_idle() {
    let open = |overview: &Overview| lines(&rendered(overview, None)).iter().filter(|line| line.1).count();
    assert_eq!([open(&several(1)), open(&several(7)), open(&several(9))], [1, 7, 0]);
    let mut idle = several(7);
    for upstream in &mut idle.upstreams[..4] {
        upstream.rates.requests.now = 0.0;
        upstream.servers.iter_mut().for_each(|server| server.in_flight = 0);
    }
    assert_eq!(open(&idle), 3);
    idle.upstreams.truncate(3);
    assert_eq!(open(&idle), 3, "there is room");
}

#[test]
fn pages_lead_to_each_other_and_to_one_upstream() {
    let mut overview = overview("app", 2);
    assert!(!rendered(&overview, None).contains("?page="));
    overview.page = PageOverview { number: 2, pages: 3, servers: 2_500, upstreams: 1 };
    overview.upstreams[0].servers_total = 2_500;
    let page = rendered(&overview, None);
    for text in [
        "href=\"/?page=1\"",
        "href=\"/?page=3\"",
        "Page 2 of 3",
        "href=\"/?upstream=app\"",
        "of 2\u{202f}500",
        "on this page",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_thousand_servers_are_folded() {
    let page = rendered(&overview("app", 1000), Some("t"));
    assert_eq!(lines(&page), [("app", false)]);
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
}

#[test]
fn reasons_are_explained_in_the_words_of_the_docs() {
    let page = failure_page("connect-refused").unwrap();
    let docs = crate::failure::failures_markdown();
    let reason = crate::failure::Reason::from_code("connect-refused").unwrap();
    assert!(docs.contains(reason.happened()) && page.contains("Advice"));
    let text = page.replace("<code>", "`").replace("</code>", "`");
    assert!(text.contains(reason.change()), "{text}");
    assert_eq!(failure_page("no-such-reason"), None);
    let all = failures_page();
    for reason in crate::failure::Reason::all().filter(|reason| reason.is_possible()) {
        assert!(all.contains(&format!("href=\"/failures/{}\"", reason.code())), "{}", reason.code());
    }
}

/// A count of zero is not highlighted.
#[test]
fn no_response_of_a_class_is_not_marked() {
    let mut seen = overview("a", 1);
    for (count, class) in [(0, "class-5xx"), (3, "class-5xx some")] {
        seen.listeners[0].stats.responses = [0, 9, 0, 0, count];
        let page = rendered(&seen, None);
        assert!(page.contains(&format!("<li class=\"{class}\">5xx ")), "{class}");
    }
}

/// Connections are neither requests nor do they have response times.
#[test]
fn an_upstream_of_tcp_shows_connections_and_bytes() {
    let list = |overview: &Overview| {
        let page = rendered(overview, None);
        let rest = page.split(" id=\"upstream-list\"").nth(1).unwrap();
        rest.split("</section>").next().unwrap().to_owned()
    };
    let texts =
        ["rates.connections.now", "Connections per second", "response_time.p50_us", "Requests per second"];
    let mut seen = overview("db", 1);
    let of_http = list(&seen);
    assert_eq!(texts.map(|text| of_http.contains(text)), [false, false, true, true]);
    seen.upstreams[0].protocol = "tcp";
    let of_tcp = list(&seen);
    assert_eq!(texts.map(|text| of_tcp.contains(text)), [true, true, false, false]);
    assert!(of_tcp.contains("rates.bytes_in.now\" data-f=\"bytes\""), "{of_tcp}");
}
