//! The rows of `weir top`: read from an overview, and sorted.

use weir_sort::CompactSort as _;

use std::cmp::Ordering;

use serde_json::Value;

use super::RowOrder;

impl RowOrder {
    pub(super) fn name(self) -> &'static str {
        match self {
            RowOrder::Rate => "requests",
            RowOrder::P99 => "P99",
            RowOrder::Waiting => "waiting and running",
            RowOrder::Failures => "failures",
            RowOrder::Name => "name",
        }
    }
}

/// An upstream or a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TopRow {
    pub(super) name: String,
    /// `up`, `down` and so on; of an upstream, how many of its servers are usable.
    pub(super) state: String,
    pub(super) is_upstream: bool,
    /// Whether it needs attention.
    pub(super) is_bad: bool,
    /// Of an upstream that has connections but no requests, and its servers: bytes from and to the servers, by second.
    pub(super) bytes: Option<(f64, f64)>,
    /// By second; connections where there are bytes.
    pub(super) requests: f64,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) running: u64,
    /// Of an upstream.
    pub(super) waiting: u64,
    pub(super) failures: f64,
}

impl TopRow {
    fn read(part: &Value, is_tcp: bool) -> TopRow {
        let rate = |name: &str| part["rates"][name]["now"].as_f64().unwrap_or(0.0);
        let opened = if is_tcp { "connections" } else { "requests" };
        TopRow {
            name: plain(part["name"].as_str().unwrap_or("?")),
            state: String::new(),
            is_upstream: false,
            is_bad: false,
            bytes: is_tcp.then(|| (rate("bytes_in"), rate("bytes_out"))),
            requests: rate(opened),
            p50_us: part["response_time"]["p50_us"].as_u64(),
            p99_us: part["response_time"]["p99_us"].as_u64(),
            running: part["in_flight"].as_u64().unwrap_or(0),
            waiting: part["queue_length"]["now"].as_u64().unwrap_or(0),
            failures: rate("failures"),
        }
    }

    fn of_server(server: &Value, is_tcp: bool) -> TopRow {
        let state = plain(server["status"].as_str().unwrap_or("?"));
        let is_bad = matches!(&*state, "down" | "ejected");
        TopRow { state, is_bad, ..TopRow::read(server, is_tcp) }
    }

    fn of_upstream(upstream: &Value, servers: &[TopRow]) -> TopRow {
        let usable = upstream["servers_usable"].as_u64().unwrap_or(0);
        let all = upstream["servers_total"].as_u64().unwrap_or(servers.len() as u64);
        TopRow {
            state: format!("{usable} of {all}"),
            is_upstream: true,
            is_bad: usable == 0,
            running: servers.iter().map(|server| server.running).sum(),
            ..TopRow::read(upstream, is_tcp(upstream))
        }
    }

    fn compare(&self, other: &TopRow, order: RowOrder) -> Ordering {
        let by_rank = match order {
            RowOrder::Rate => other.requests.total_cmp(&self.requests),
            RowOrder::P99 => other.p99_us.cmp(&self.p99_us),
            RowOrder::Waiting => (other.waiting, other.running).cmp(&(self.waiting, self.running)),
            RowOrder::Failures => other.failures.total_cmp(&self.failures),
            RowOrder::Name => Ordering::Equal,
        };
        by_rank.then_with(|| self.name.cmp(&other.name))
    }
}

/// Whether there are connections and bytes, but no requests and no response times.
fn is_tcp(upstream: &Value) -> bool {
    upstream["protocol"] == "tcp"
}

/// The rows of an overview: each upstream, and below it its servers unless they are folded away.
pub(super) fn rows(overview: &Value, order: RowOrder, with_servers: bool) -> Vec<TopRow> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut upstreams: Vec<(TopRow, Vec<TopRow>)> = list(&overview["upstreams"])
        .iter()
        .map(|upstream| {
            let is_tcp = is_tcp(upstream);
            let servers = list(&upstream["servers"]);
            let mut servers: Vec<TopRow> =
                servers.iter().map(|server| TopRow::of_server(server, is_tcp)).collect();
            servers.sort_compact_by(|one, other| one.compare(other, order));
            (TopRow::of_upstream(upstream, &servers), servers)
        })
        .collect();
    upstreams.sort_compact_by(|(one, _), (other, _)| one.compare(other, order));
    let servers = |servers: Vec<TopRow>| if with_servers { servers } else { Vec::new() };
    upstreams
        .into_iter()
        .flat_map(|(upstream, below)| std::iter::once(upstream).chain(servers(below)))
        .collect()
}

/// Text without what could steer a terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}
