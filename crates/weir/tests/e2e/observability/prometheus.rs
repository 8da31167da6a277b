//! The metrics with Prometheus: `promtool` reports no error, and the real program scrapes them.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::{Client, Origin, Weir, eventually, temporary_folder};

/// One listener in front of one server that is probed.
fn weir(origin: &Origin) -> Weir {
    Weir::proxying_with(
        origin,
        "admin.address = \"127.0.0.1:0\"\n\
         upstream.app.health = { path = \"/\", interval = \"50ms\", timeout = \"15s\" }\n",
    )
}

#[test]
fn statuses_are_counted_by_code_and_the_process_has_metrics() {
    let origin = Origin::start(|conn| {
        loop {
            let status = if conn.request()?.target() == "/teapot" { 418 } else { 200 };
            conn.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let weir = weir(&origin);
    for target in ["/", "/teapot", "/teapot"] {
        Client::get(weir.web(), target);
    }
    let status = |label: &str| {
        let counts = weir.metrics().all("weir_upstream_status_responses_total", &["upstream=\"app\"", label]);
        counts.iter().sum::<f64>()
    };
    eventually("they are counted", || (status("status=\"200\""), status("status=\"418\"")) == (1.0, 2.0));
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_upstream_responses_total", &["class=\"4xx\""]), 2.0);
    for name in [
        "process_open_fds",
        "process_max_fds",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
    ] {
        assert!(metrics.sum(name, &[]) > 0.0, "{name}");
    }
    assert!(metrics.sum("process_start_time_seconds", &[]) > 1.5e9);
}

#[test]
fn promtool_has_nothing_against_the_metrics() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin);
    for _ in 0..3 {
        assert_eq!(Client::get(weir.web(), "/").status, 200);
    }
    // Of a failure too: most reasons have no sample before they occur.
    assert_eq!(Client::exchange(weir.web(), "GET / HTTP/1.1\r\n\r\n").status, 400);
    eventually("a probe has passed", || {
        weir.metrics().sum("weir_server_probes_total", &["result=\"passed\""]) > 0.0
    });
    let page = Client::get_by_address(weir.address("admin"), "/metrics");
    assert_eq!(page.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run promtool ({error}): cargo xtask setup"));
    let mut input = promtool.stdin.take().expect("stdin is piped");
    input.write_all(&page.body.bytes).expect("promtool reads to the end");
    drop(input);
    let judged = promtool.wait_with_output().expect("promtool runs");
    let said = String::from_utf8_lossy(&[judged.stdout, judged.stderr].concat()).into_owned();
    assert!(judged.status.success() && said.is_empty(), "{}: {said}", judged.status);
}

/// A running Prometheus; dropping it kills the process.
struct Prometheus {
    process: Child,
    folder: TempDir,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts it on the jobs of `scrape`, in YAML, on a port that the system chooses.
    fn start(scrape: &str) -> Prometheus {
        let folder = temporary_folder();
        let config = format!("global: {{ scrape_interval: 100ms, scrape_timeout: 100ms }}\n{scrape}");
        std::fs::write(folder.path().join("prometheus.yml"), config).expect("the folder takes a file");
        let log = File::create(folder.path().join("output")).expect("the folder takes a file");
        let process = Command::new("prometheus")
            .args([
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--web.listen-address=127.0.0.1:0",
            ])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the process may open one more file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run prometheus ({error}): cargo xtask setup"));
        let mut prometheus = Prometheus { process, folder, address: ([127, 0, 0, 1], 0).into() };
        eventually("prometheus listens", || {
            let ended = prometheus.process.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "prometheus ended, {ended:?}:\n{}", prometheus.output());
            let output = prometheus.output();
            let said = output.split("msg=\"Listening on\" address=").nth(1);
            let address = said.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            address.inspect(|address| prometheus.address = *address).is_some()
        });
        prometheus
    }

    /// The value of a query with one result; `None` while there is none.
    fn value(&self, query: &str) -> Option<f64> {
        self.results(query)?.first()?["value"][1].as_str()?.parse().ok()
    }

    /// All results of a query; `None` while it starts. Panics when it does not understand the query.
    fn results(&self, query: &str) -> Option<Vec<serde_json::Value>> {
        let body = format!("query={query}");
        let request = format!(
            "POST /api/v1/query HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let response = Client::exchange(self.address, &request);
        if response.status == 503 {
            return None;
        }
        assert_eq!(response.status, 200, "{query}: {}", response.text());
        let answer: serde_json::Value = serde_json::from_str(&response.text()).expect("it answers in JSON");
        answer["data"]["result"].as_array().cloned()
    }

    fn output(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("output")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("output of prometheus:\n{}", self.output());
        }
    }
}

#[test]
fn prometheus_scrapes_the_metrics() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin);
    for _ in 0..7 {
        assert_eq!(Client::get(weir.web(), "/").status, 200);
    }
    let admin = weir.address("admin");
    let prometheus = Prometheus::start(&format!(
        "scrape_configs: [{{ job_name: weir, static_configs: [{{ targets: [\"{admin}\"] }}] }}]\n"
    ));
    eventually("prometheus knows the requests of the listener", || {
        prometheus.value("weir_listener_requests_total{listener=\"web\"}") == Some(7.0)
    });
    assert_eq!(prometheus.value("up{job=\"weir\"}"), Some(1.0));
    let count = prometheus.value("weir_upstream_exchange_time_seconds_count{upstream=\"app\"}");
    assert_eq!(count, Some(7.0));
    // What dashboards do with a histogram.
    let median = prometheus.value(
        "histogram_quantile(0.5, sum by (le) (weir_upstream_exchange_time_seconds_bucket{upstream=\"app\"}))",
    );
    assert!(median.is_some_and(|seconds| seconds > 0.0 && seconds < 33.6), "{median:?}");
}

/// The queries of the dashboard for Grafana, with its variables set as for everything.
fn queries_of_the_dashboard() -> Vec<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/weir.json");
    let text = std::fs::read_to_string(file).expect("the dashboard is there");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let mut queries = Vec::new();
    collect_queries(&dashboard, &mut queries);
    let of_all = |query: String| {
        let query = query.replace("$__rate_interval", "2s");
        ["$instance", "$listener", "$upstream"].iter().fold(query, |query, name| query.replace(name, ".*"))
    };
    queries.into_iter().map(of_all).collect()
}

/// Every `expr` in it: of panels, of rows of panels, of annotations.
fn collect_queries(part: &serde_json::Value, found: &mut Vec<String>) {
    if let Some(query) = part["expr"].as_str() {
        found.push(query.to_owned());
    }
    let members = part.as_object().into_iter().flat_map(serde_json::Map::values);
    for part in members.chain(part.as_array().into_iter().flatten()) {
        collect_queries(part, found);
    }
}

#[test]
fn prometheus_answers_every_query_of_the_dashboard() {
    let origin = Origin::serving("answer");
    let weir = weir(&origin);
    let prometheus = Prometheus::start(&format!(
        "scrape_configs: [{{ job_name: weir, static_configs: [{{ targets: [\"{}\"] }}] }}]\n",
        weir.address("admin")
    ));
    let queries = queries_of_the_dashboard();
    assert!(queries.len() > 45, "{queries:?}");
    for query in queries {
        // There are none of these here: failures, a certificate, and requests that wait.
        let may_be_empty = ["> 0", "certificate", "queue_time"].iter().any(|word| query.contains(word));
        eventually(&format!("an answer to {query}"), || {
            assert_eq!(Client::get(weir.web(), "/").status, 200);
            prometheus.results(&query).is_some_and(|results| may_be_empty || !results.is_empty())
        });
    }
}
