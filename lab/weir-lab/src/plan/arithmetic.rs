//! From costs to an answer: pure, and each number can be followed.

use super::measure::Measured;
use super::{ClientKeepAlive, PlannedLoad};

/// The part of a core that is planned with: the rest is for peaks, for the work of the kernel that no process is charged for, and for
/// the moment when another node is gone.
pub(super) const BUSY_MAX: f64 = 0.6;

/// Descriptors beside connections: listeners, logs, event loops.
const DESCRIPTORS_OWN: u64 = 256;

/// Above this part of the ports between one address and one server, finding a free one gets slow.
pub(super) const PORTS_SHARE: f64 = 0.7;

/// How long a closed connection keeps its port (TIME_WAIT of Linux), seconds.
pub(super) const TIME_WAIT_S: f64 = 60.0;

/// How long a listening socket must be able to keep a crowd waiting, seconds.
const BACKLOG_S: f64 = 0.2;

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SizingAnswer {
    /// CPU per request that is planned with, µs.
    pub(super) cost_us: f64,
    /// Cores that would be full.
    pub(super) cores_full: f64,
    /// Cores with the margin, whole.
    pub(super) cores: u64,
    /// User memory per client, bytes.
    pub(super) bytes_per_client: f64,
    /// User memory in all, bytes.
    pub(super) memory: f64,
    /// Requests under way at servers at the same time.
    pub(super) under_way: u64,
    /// Descriptors of the process.
    pub(super) descriptors: u64,
    /// Ports that connections to one server address need, if all go to one.
    pub(super) server_ports: u64,
    /// Ports that this system has for that.
    pub(super) ports: u64,
    /// Bytes per second that pass in each direction: from clients and servers together, and to them.
    pub(super) bandwidth: f64,
    /// Seconds of a core for a million requests, at the share of it that is planned with.
    pub(super) core_seconds: f64,
    /// Limits that are lower than needed: name, present value, needed value.
    pub(super) raise: Vec<(String, u64, u64)>,
    pub(super) nodes: Nodes,
}

/// How many machines like this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nodes {
    /// One carries it; the second is for when it fails.
    Pair,
    /// This many carry it, the spare included.
    Cluster(u64),
}

pub(super) fn answer(planned: &PlannedLoad, measured: &Measured) -> SizingAnswer {
    // The cost of a request depends on how busy the core is; the higher of both.
    let cost_us = measured.cost_full.median.max(measured.cost_usual.median);
    let rate = planned.rate as f64;
    let cores_full = rate * cost_us / 1e6;
    let cores = (cores_full / BUSY_MAX).ceil().max(1.0);
    let [(few, small), (many, large)] = measured.memory;
    let bytes_per_client = ((large - small) / (many - few)).max(0.0);
    let base = (small - few * bytes_per_client).max(0.0);
    let under_way = (rate * planned.server_time.as_secs_f64()).ceil() as u64;
    let descriptors = planned.clients + under_way + DESCRIPTORS_OWN;
    let ports = port_range(measured);
    let mut answer = SizingAnswer {
        cost_us,
        cores_full,
        cores: cores as u64,
        bytes_per_client,
        memory: base + planned.clients as f64 * bytes_per_client,
        under_way,
        descriptors,
        server_ports: under_way,
        ports,
        bandwidth: rate * bytes_each(planned),
        core_seconds: cost_us / BUSY_MAX,
        raise: Vec::new(),
        nodes: nodes(cores as u64, measured.machine.cpus as u64),
    };
    answer.raise = to_raise(planned, measured, &answer);
    answer
}

/// Bytes that a request has beside the bodies: the heads of request and answer, as they usually are. A frame of WebSocket has a few.
pub(super) const HEADS: f64 = 800.0;
const FRAMES: f64 = 16.0;

/// Bytes of a request and its answer. What comes in from clients goes out to servers and the other way round, so that the balancer
/// receives and sends both.
pub(super) fn bytes_each(planned: &PlannedLoad) -> f64 {
    match planned.message {
        Some(len) => 2.0 * len as f64 + FRAMES,
        // An upload is answered with a line.
        None if planned.body > 0 => planned.body as f64 + HEADS,
        None => planned.answer as f64 + HEADS,
    }
}

fn nodes(cores: u64, cpus: u64) -> Nodes {
    match cores.div_ceil(cpus.max(1)) {
        0 | 1 => Nodes::Pair,
        full => Nodes::Cluster(full + 1),
    }
}

/// Limits of this system that the answer does not fit under.
fn to_raise(planned: &PlannedLoad, measured: &Measured, answer: &SizingAnswer) -> Vec<(String, u64, u64)> {
    let setting = |name: &str| -> Option<u64> {
        let (_, value) = measured.machine.settings.iter().find(|(known, _)| known == name)?;
        value.split_whitespace().last()?.parse().ok()
    };
    // Clients that keep their connection come once; after a restart all come at about the same time.
    let crowd = match planned.keepalive {
        ClientKeepAlive::Yes => planned.clients.min(65_535),
        ClientKeepAlive::No => (planned.rate as f64 * BACKLOG_S) as u64,
    };
    let needs = [
        ("descriptors (`LimitNOFILE=`)", Some(measured.machine.descriptors), answer.descriptors),
        ("net.core.somaxconn", setting("net.core.somaxconn"), crowd),
        ("net.ipv4.tcp_max_syn_backlog", setting("net.ipv4.tcp_max_syn_backlog"), crowd),
    ];
    let missing = needs.into_iter().filter_map(|(name, present, needed)| {
        let present = present?;
        (present < needed).then(|| (name.to_owned(), present, needed))
    });
    let mut raise: Vec<_> = missing.collect();
    let usable = (answer.ports as f64 * PORTS_SHARE) as u64;
    if answer.server_ports > usable {
        let name = "ports towards one server address (`net.ipv4.ip_local_port_range`, more servers, or more source addresses)";
        raise.push((name.to_owned(), usable, answer.server_ports));
    }
    raise
}

/// Ports that a connection to a server may have at this end.
fn port_range(measured: &Measured) -> u64 {
    let range = measured.machine.settings.iter().find(|(name, _)| name == "net.ipv4.ip_local_port_range");
    let ends: Option<Vec<u64>> =
        range.map(|(_, value)| value.split_whitespace().filter_map(|end| end.parse().ok()).collect());
    match ends.as_deref() {
        Some([low, high]) if high >= low => high - low + 1,
        // The default of Linux, 32 768 to 60 999.
        _ => 28_232,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::time::Duration;
    use weir_stats::estimate::Spread;

    pub(in crate::plan) fn measured() -> Measured {
        let spread = |median| Spread { median, min: median, max: median, count: 3 };
        Measured {
            machine: Machine {
                cpu: "Test CPU".to_owned(),
                cpus: 4,
                memory: 8 << 30,
                kernel: "6.1.0".to_owned(),
                is_virtual: true,
                descriptors: 20_000,
                settings: vec![
                    ("net.core.somaxconn".to_owned(), "4096".to_owned()),
                    ("net.ipv4.tcp_max_syn_backlog".to_owned(), "2048".to_owned()),
                    ("net.ipv4.ip_local_port_range".to_owned(), "32768 60999".to_owned()),
                ],
                load: 0.1,
            },
            version: "1".to_owned(),
            peak: 50_000.0,
            cost_full: spread(20.0),
            cost_usual: spread(24.0),
            usual: (25_000.0, 60.0),
            memory: [(64.0, 20_640_000.0), (1064.0, 30_640_000.0)],
            caveat: None,
            is_sound: true,
            missed: Vec::new(),
            faults: 0,
        }
    }

    pub(in crate::plan) fn planned(rate: u64, clients: u64, keepalive: ClientKeepAlive) -> PlannedLoad {
        let target = "weir".parse().unwrap();
        PlannedLoad {
            rate,
            clients,
            body: 1024,
            answer: 612,
            message: None,
            http3: false,
            core_hour: None,
            keepalive,
            tls: false,
            server_time: Duration::from_millis(20),
            target,
        }
    }

    #[test]
    fn the_arithmetic_can_be_followed() {
        // 25 000/s at 24 us are 0.6 of a core, planned to be at most 60 % busy: one core.
        let answer = answer(&planned(25_000, 5000, ClientKeepAlive::Yes), &measured());
        assert!((answer.cores_full - 0.6).abs() < 1e-9);
        assert_eq!((answer.cores, answer.nodes), (1, Nodes::Pair));
        // 10 kB for each of 5000 clients on 20 MB.
        assert_eq!(answer.bytes_per_client, 10_000.0);
        assert_eq!(answer.memory, 70_000_000.0);
        // 500 under way, by Little's law.
        assert_eq!((answer.under_way, answer.descriptors), (500, 5756));
        let names: Vec<_> =
            answer.raise.iter().map(|(name, present, needed)| (&**name, *present, *needed)).collect();
        let expected = [("net.core.somaxconn", 4096, 5000), ("net.ipv4.tcp_max_syn_backlog", 2048, 5000)];
        assert_eq!(names, expected);
        // 1 024 bytes and the heads; 24 us each, of a core that is 60 % busy.
        assert_eq!((answer.bandwidth, answer.core_seconds.round()), (25_000.0 * 1824.0, 40.0));
    }

    #[test]
    fn more_than_a_machine_carries_takes_several() {
        let answer = answer(&planned(1_000_000, 100_000, ClientKeepAlive::No), &measured());
        // 24 cores full, 40 with the margin, on machines of 4: 10 and a spare one.
        assert_eq!((answer.cores, answer.nodes), (40, Nodes::Cluster(11)));
        assert_eq!(answer.under_way, 20_000);
        assert!(
            answer.raise.iter().any(|(name, _, needed)| name.contains("LimitNOFILE") && *needed == 120_256)
        );
        assert!(
            answer.raise.iter().any(|(name, present, _)| name.contains("port_range") && *present == 19_762)
        );
    }

    #[test]
    fn noise_never_makes_memory_negative() {
        let mut measured = measured();
        measured.memory = [(64.0, 30e6), (1064.0, 29e6)];
        let answer = answer(&planned(1, 10, ClientKeepAlive::Yes), &measured);
        assert_eq!((answer.bytes_per_client, answer.memory, answer.cores), (0.0, 30e6, 1));
    }
}
