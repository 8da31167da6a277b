//! Listeners, upstreams and servers as rows of `show stat`: which figure of Weir is in which column.
//!
//! A listener is a frontend, an upstream a backend. What HAProxy counts as sessions of a server are requests here, which is what they are
//! with HTTP in HAProxy as well. Pure.

use std::collections::HashSet;

use super::columns::{COLUMNS, place};
use super::field::{StatField, StatValue};
use crate::counters::counter::Level;
use crate::overview::{
    EventRate, FailureCount, ListenerOverview, Overview, Quantiles, ServerOverview, ServerStatus,
    UpstreamOverview,
};

/// The id of the first listener: HAProxy gives 1 to the proxy behind its own socket.
const FIRST_ID: u64 = 2;

/// The object of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Object {
    Frontend,
    Backend,
    Server,
}

impl Object {
    /// The number of the column `type`.
    const fn number(self) -> u64 {
        match self {
            Self::Frontend => 0,
            Self::Backend => 1,
            Self::Server => 2,
        }
    }

    /// The bit by which a filter asks for it.
    pub(super) const fn bit(self) -> i64 {
        1 << self.number()
    }

    pub(super) const fn letter(self) -> char {
        match self {
            Self::Frontend => 'F',
            Self::Backend => 'B',
            Self::Server => 'S',
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Frontend => "Frontend",
            Self::Backend => "Backend",
            Self::Server => "Server",
        }
    }
}

/// A row.
#[derive(Debug, Clone)]
pub(super) struct StatRow {
    pub(super) object: Object,
    /// The id of the listener or upstream.
    pub(super) proxy_id: u64,
    /// The id of the server within its upstream; 0 for others.
    pub(super) server_id: u64,
    /// Whether an operator took it out of service.
    pub(super) is_in_maintenance: bool,
    /// Whether it takes requests.
    pub(super) is_up: bool,
    values: Vec<Option<StatValue>>,
}

impl StatRow {
    fn new(object: Object, proxy: &str, name: &str, (proxy_id, server_id): (u64, u64)) -> Self {
        let values = vec![None; COLUMNS.len()];
        let mut row = Self { object, proxy_id, server_id, is_in_maintenance: false, is_up: true, values };
        row.text("pxname", proxy);
        row.text("svname", name);
        row.u32("pid", 1);
        row.u32("iid", proxy_id);
        row.u32("sid", server_id);
        row.u32("type", object.number());
        row
    }

    fn text(&mut self, column: &str, text: &str) {
        self.values[place(column)] = Some(StatValue::text(text));
    }

    fn u32(&mut self, column: &str, number: u64) {
        self.values[place(column)] = Some(StatValue::U32(number));
    }

    fn u64(&mut self, column: &str, number: u64) {
        self.values[place(column)] = Some(StatValue::U64(number));
    }

    fn level(&mut self, [now, max]: [&str; 2], level: Level) {
        self.u32(now, whole(level.now));
        self.u32(max, whole(level.peak));
    }

    fn rate(&mut self, [now, max]: [&str; 2], rate: EventRate) {
        self.u32(now, rate.now.round() as u64);
        self.u32(max, rate.peak.round() as u64);
    }

    fn mean(&mut self, column: &str, times: Quantiles) {
        self.u32(column, times.mean_us.unwrap_or(0) / 1000);
    }

    fn responses(&mut self, responses: [u64; 5]) {
        for (column, count) in
            ["hrsp_1xx", "hrsp_2xx", "hrsp_3xx", "hrsp_4xx", "hrsp_5xx"].iter().zip(responses)
        {
            self.u64(column, count);
        }
        self.u64("hrsp_other", 0);
    }

    /// The values of the row, in the order of the columns.
    pub(super) fn fields(&self) -> impl Iterator<Item = StatField> + '_ {
        let values = self.values.iter().zip(COLUMNS).enumerate();
        values.filter_map(|(place, (value, (name, tags)))| {
            Some(StatField { place, name, tags, value: value.clone()? })
        })
    }

    /// The row as a line of CSV, with a comma behind each value as HAProxy has it.
    pub(super) fn csv(&self) -> String {
        let mut line = String::new();
        for (value, (name, _)) in self.values.iter().zip(COLUMNS) {
            match value {
                Some(value) => line.push_str(&value.to_string()),
                // A separator between the columns of all and those of modules.
                None if name == "-" => line.push('-'),
                None => {}
            }
            line.push(',');
        }
        line
    }
}

/// All rows in the order of HAProxy: a listener, then the servers of an upstream before it.
pub(super) fn rows(overview: &Overview) -> Vec<StatRow> {
    let mut rows = Vec::new();
    for (index, listener) in overview.listeners.iter().enumerate() {
        rows.push(frontend(overview, listener, FIRST_ID + index as u64));
    }
    let tcp: HashSet<&str> = (overview.listeners.iter().filter(|listener| listener.protocol == "tcp"))
        .flat_map(|listener| listener.routes.iter().flat_map(|route| &route.upstreams))
        .map(String::as_str)
        .collect();
    for (id, upstream) in upstreams(overview) {
        let protocol = if tcp.contains(upstream.name.as_str()) { "tcp" } else { "http" };
        for (index, one) in upstream.servers.iter().enumerate() {
            let mut row = server(overview, upstream, one, (id, index as u64 + 1));
            row.text("mode", protocol);
            rows.push(row);
        }
        let mut row = backend(overview, upstream, id);
        row.text("mode", protocol);
        rows.push(row);
    }
    rows
}

/// The upstreams with their ids, which follow on those of the listeners.
pub(super) fn upstreams(overview: &Overview) -> impl Iterator<Item = (u64, &UpstreamOverview)> {
    let first = FIRST_ID + overview.listeners.len() as u64;
    (first..).zip(&overview.upstreams)
}

fn frontend(overview: &Overview, listener: &ListenerOverview, id: u64) -> StatRow {
    let stats = &listener.stats;
    let mut row = StatRow::new(Object::Frontend, &listener.name, "FRONTEND", (id, 0));
    row.level(["scur", "smax"], stats.connections_open);
    row.u32("slim", listener.connections_max.map_or(overview.process.connections_max, u64::from));
    row.u64("stot", stats.connections);
    row.u64("bin", stats.bytes_in);
    row.u64("bout", stats.bytes_out);
    row.u64("ereq", failures(&listener.failures, "client", &["request"]));
    row.text("status", if overview.process.is_stopping { "STOP" } else { "OPEN" });
    row.rate(["rate", "rate_max"], listener.rates.connections);
    row.responses(stats.responses);
    row.rate(["req_rate", "req_rate_max"], listener.rates.requests);
    row.u64("req_tot", stats.requests);
    row.text("mode", listener.protocol);
    row.rate(["conn_rate", "conn_rate_max"], listener.rates.connections);
    row.u64("conn_tot", stats.connections);
    row.u64("eint", failures(&listener.failures, "weir", &[]));
    let [full, resumed] = listener
        .tls_handshakes
        .iter()
        .fold([0, 0], |[full, resumed], count| [full + count.full, resumed + count.resumed]);
    row.u64("ssl_sess", full + resumed);
    row.u64("ssl_reused_sess", resumed);
    row
}

fn backend(overview: &Overview, upstream: &UpstreamOverview, id: u64) -> StatRow {
    let stats = &upstream.stats;
    let mut row = StatRow::new(Object::Backend, &upstream.name, "BACKEND", (id, 0));
    let sum = |count: fn(&ServerOverview) -> u64| upstream.servers.iter().map(count).sum::<u64>();
    row.level(["qcur", "qmax"], stats.queue_length);
    row.u32("scur", sum(|server| whole(server.stats.attempts_open.now)));
    row.u64("stot", stats.requests);
    row.u64("bin", sum(|server| server.stats.bytes_out));
    row.u64("bout", sum(|server| server.stats.bytes_in));
    row.u64("econ", sum(|server| server.stats.connect_errors));
    row.u64("eresp", failures(&upstream.failures, "server", &["response", "relay"]));
    row.u64("wretr", upstream.retries.iter().map(|retry| retry.count).sum());
    row.is_up = upstream.servers_usable > 0;
    row.text("status", if row.is_up { "UP" } else { "DOWN" });
    let usable = || upstream.servers.iter().filter(|server| server.status == ServerStatus::Up);
    row.u32("weight", usable().filter(|server| !server.is_backup).map(effective_weight).sum());
    row.u32(
        "uweight",
        usable().filter(|server| !server.is_backup).map(|server| u64::from(server.weight)).sum(),
    );
    row.u32("act", usable().filter(|server| !server.is_backup).count() as u64);
    row.u32("bck", usable().filter(|server| server.is_backup).count() as u64);
    if let Some(since_ms) = upstream.servers.iter().map(|server| server.since_ms).max() {
        row.u32("lastchg", overview.process.at_ms.saturating_sub(since_ms) / 1000);
    }
    row.u64("lbtot", sum(|server| server.stats.attempts));
    row.rate(["rate", "rate_max"], upstream.rates.requests);
    row.responses(stats.responses);
    row.u64("req_tot", stats.requests);
    row.u64("cli_abrt", failures(&upstream.failures, "client", &["response", "relay"]));
    row.u64("srv_abrt", failures(&upstream.failures, "server", &["relay"]));
    row.mean("qtime", upstream.queue_time);
    row.mean("rtime", upstream.response_time);
    row.text("algo", &upstream.balance);
    row.u64("connect", sum(|server| server.stats.connects));
    row.u64("reuse", sum(|server| server.stats.reuses));
    row.u64("eint", failures(&upstream.failures, "weir", &[]));
    row
}

fn server(
    overview: &Overview,
    upstream: &UpstreamOverview,
    server: &ServerOverview,
    ids: (u64, u64),
) -> StatRow {
    let stats = &server.stats;
    let mut row = StatRow::new(Object::Server, &upstream.name, &server.name, ids);
    let failed = |phases: &[&str]| -> u64 {
        let of_phase = server.failures.iter().filter(|failure| phases.contains(&failure.name));
        of_phase.map(|failure| failure.count).sum()
    };
    // The queue is one for all servers: it stands at the upstream.
    row.u32("qcur", 0);
    row.u32("qmax", 0);
    row.level(["scur", "smax"], stats.attempts_open);
    if let Some(max) = server.max_requests {
        row.u32("slim", u64::from(max));
    }
    row.u64("stot", stats.attempts);
    row.u64("bin", stats.bytes_out);
    row.u64("bout", stats.bytes_in);
    row.u64("econ", stats.connect_errors);
    row.u64("eresp", failed(&["response", "relay"]));
    row.u64("wretr", stats.retries);
    row.text("status", status(server));
    row.is_in_maintenance = matches!(server.status, ServerStatus::Maintenance | ServerStatus::Leaving);
    row.is_up = matches!(server.status, ServerStatus::Up | ServerStatus::Draining);
    row.u32("weight", effective_weight(server));
    row.u32("uweight", u64::from(server.weight));
    row.u32("act", u64::from(!server.is_backup));
    row.u32("bck", u64::from(server.is_backup));
    row.u32("lastchg", overview.process.at_ms.saturating_sub(server.since_ms) / 1000);
    if server.ramp_percent < 100 {
        row.u32("throttle", u64::from(server.ramp_percent));
    }
    row.u64("lbtot", stats.attempts);
    row.rate(["rate", "rate_max"], server.rates.requests);
    row.responses(stats.responses);
    row.u64("req_tot", stats.requests);
    row.mean("ctime", server.connect_time);
    row.mean("rtime", server.response_time);
    row.text("addr", server.endpoints.first().unwrap_or(&server.address));
    row.u64("connect", stats.connects);
    row.u64("reuse", stats.reuses);
    row.u32("srv_icur", whole(stats.connections_idle.now));
    row.u32("idle_conn_cur", 0);
    row.u32("safe_conn_cur", whole(stats.connections_idle.now));
    row.u32("used_conn_cur", whole(stats.connections_open.now - stats.connections_idle.now));
    row.u32("need_conn_est", whole(stats.connections_open.peak));
    row.u64("ssl_sess", stats.tls_handshakes);
    row.u64("ssl_reused_sess", stats.tls_resumptions);
    if let Some(probes) = &server.probes {
        row.u64("chkfail", probes.failed);
        // A server begins up, so every other change is one down.
        row.u64("chkdown", probes.changes.div_ceil(2));
        row.text("check_status", probes.check);
        row.u64("check_duration", probes.last_us / 1000);
        row.text("check_desc", &server.why);
    }
    row
}

/// HAProxy's word for the state of a server.
pub(super) fn status(server: &ServerOverview) -> &'static str {
    match server.status {
        ServerStatus::Leaving => "MAINT (leaving)",
        ServerStatus::Maintenance => "MAINT",
        ServerStatus::Draining => "DRAIN",
        ServerStatus::Down | ServerStatus::Ejected => "DOWN",
        ServerStatus::Up if server.probes.is_none() => "no check",
        ServerStatus::Up => "UP",
    }
}

/// The weight as it counts while the server works its way up.
fn effective_weight(server: &ServerOverview) -> u64 {
    (u64::from(server.weight) * u64::from(server.ramp_percent)).div_ceil(100)
}

/// How many failures were the doing of a party in one of these phases; in any without phases.
fn failures(counts: &[FailureCount], party: &str, phases: &[&str]) -> u64 {
    let in_phase = |count: &&FailureCount| {
        count.party == party && (phases.is_empty() || count.phases.iter().any(|phase| phases.contains(phase)))
    };
    counts.iter().filter(in_phase).map(|count| count.count).sum()
}

pub(super) fn whole(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
