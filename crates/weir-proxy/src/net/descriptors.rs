//! The file descriptors of the process: the share of each use, and what happens when none are left.
//!
//! Clients, the connections to their servers, and pipes (splice) get what the rest of Weir leaves; together they cannot have more than
//! there are. The limit is one of the process, so what counts towards it is counted once for the process: per connection and per new
//! pipe, never per request. Must not close anything itself.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weir_config::{Config, ConnectionsMax, RouteAction, ServerAddress, Upstream};
use weir_observe::{Cause, Failure, Party};

use crate::net::{clock, permit_queue};

/// Standard streams, the config and the files that it names while they are read, the event loops of the threads that are no workers,
/// measurements of the process itself.
const OWN: u32 = 40;

/// Those of a worker for itself: event loop, its waker, its timer, and one in reserve.
const PER_WORKER: u32 = 4;

/// Connections of the admin listener and connections of the runtime socket that are served at once, with what they open besides.
const PER_ADMIN_SOCKET: u32 = 84;

/// Questions for names that are under way at once.
const DNS_MAX: usize = 32;

/// Files that routes serve and a worker keeps open at most, and the part of the limit that those of all workers have at most.
const FILES_PER_WORKER: u32 = 256;
const FILES_ONE_IN: u64 = 16;

/// Of the traffic's part, pipes get one in so many at least.
const PIPES_ONE_IN: u32 = 16;

/// Of the traffic's part, client connections leave one in so many to the servers, whatever the config says.
const KEPT_FOR_SERVERS_ONE_IN: u32 = 8;

/// Up to this limit on open files, the start says that it is low: it is what shells and containers have by default.
const LOW: u64 = 1024;

/// Interval of the log line about exhausted descriptors, ports or kernel memory.
const ALARM_SECONDS: u64 = 10;

/// A number on its own cache line.
#[derive(Debug)]
#[repr(align(128))]
struct PaddedCounter(AtomicU32);

/// Connections to servers, in use, idle or being opened.
static SERVERS: PaddedCounter = PaddedCounter(AtomicU32::new(0));
/// Pipes, in use or kept.
static PIPES: PaddedCounter = PaddedCounter(AtomicU32::new(0));
static SERVERS_MAX: AtomicU32 = AtomicU32::new(u32::MAX);
static SERVERS_BOUND: AtomicU32 = AtomicU32::new(u32::MAX);
static PIPES_MAX: AtomicU32 = AtomicU32::new(u32::MAX);
static WORKER_FILES_MAX: AtomicU32 = AtomicU32::new(FILES_PER_WORKER);

/// The shares of one config under one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorBudget {
    /// The limit on open files (`RLIMIT_NOFILE`).
    pub limit: u64,
    /// Client connections that are accepted at most.
    pub clients: u32,
    /// Client connections that have a descriptor for a server connection each.
    pub clients_served: u32,
    /// Connections to servers, those of probes apart.
    pub servers: u32,
    /// Pipes, of two descriptors each.
    pub pipes: u32,
    /// Probes at once.
    pub probes: u32,
    /// Listening sockets, those that a reload opens beside them included.
    pub listening: u32,
    /// The admin listener and the runtime socket.
    pub admin: u32,
    /// Access logs, also while they are opened again.
    pub logs: u32,
    /// Questions for names.
    pub dns: u32,
    /// Files that routes serve, kept open.
    pub files: u32,
    /// Workers, traces, files of the config, standard streams.
    pub own: u32,
    /// How many workers there are.
    workers: u32,
}

impl DescriptorBudget {
    /// The shares of `config` with so many workers.
    pub fn new(limit: u64, config: &Config, workers: usize) -> Self {
        let workers = number(workers);
        let addresses = config.listeners.iter().map(|listener| number(listener.addresses.len())).sum::<u32>();
        let outputs: BTreeSet<String> = config.access_logs().map(|log| log.output.to_string()).collect();
        let names = config.upstreams.iter().flat_map(|upstream| &upstream.servers);
        let names = names.filter(|server| matches!(server.address, ServerAddress::Name { .. })).count();
        let admin = [config.admin.address.is_some(), config.admin.socket.is_some()];
        let own = OWN + workers * PER_WORKER;
        let listening = addresses * (2 * workers + 1);
        let admin = number(admin.into_iter().filter(|is_open| *is_open).count()) * PER_ADMIN_SOCKET;
        let (logs, dns) = (2 * number(outputs.len()), number(names.min(DNS_MAX)));
        let probes = number(probed(config)).min(probes_max(limit));
        let files = if serves_files(config) {
            (FILES_PER_WORKER * workers).min(u32::try_from(limit / FILES_ONE_IN).unwrap_or(u32::MAX))
        } else {
            0
        };
        let rest = u64::from(own + listening + admin + logs + dns + files + probes);
        let traffic = u32::try_from(limit.saturating_sub(rest)).unwrap_or(u32::MAX).max(4);
        let least_for_pipes = traffic / PIPES_ONE_IN;
        let clients_served = ((traffic - least_for_pipes) / 2).max(1);
        let most = traffic - least_for_pipes - traffic / KEPT_FOR_SERVERS_ONE_IN;
        let clients = config.process.connections_max.resolve(clients_served).min(most.max(1));
        // What fewer clients leave is for pipes, two of which are all that a tunnel can use.
        let for_pipes = (traffic - clients.min(clients_served) * 2).max(least_for_pipes);
        let pipes = (for_pipes / 2).min(clients.saturating_mul(2));
        let servers = (traffic - clients).saturating_sub(2 * pipes).max(1);
        Self {
            limit,
            clients,
            clients_served,
            servers,
            pipes,
            probes,
            listening,
            admin,
            logs,
            dns,
            files,
            own,
            workers,
        }
    }

    /// Makes the shares hold from now on.
    pub fn take_effect(&self) {
        SERVERS_MAX.store(self.servers, Ordering::Relaxed);
        SERVERS_BOUND.store(self.servers_bound(), Ordering::Relaxed);
        PIPES_MAX.store(self.pipes, Ordering::Relaxed);
        WORKER_FILES_MAX.store((self.files / self.workers.max(1)).max(1), Ordering::Relaxed);
    }

    /// Connections to servers beyond which exchanges wait: their share; more where clients may have more than half, of which the most are
    /// idle.
    fn servers_bound(&self) -> u32 {
        self.servers.max(self.clients_served)
    }

    /// Warnings for the operator: maxima of `config` that cannot be reached, and a low limit.
    pub fn warnings(&self, config: &Config) -> Vec<String> {
        let Self { limit, clients_served, .. } = *self;
        let mut warnings = Vec::new();
        let mut note = |key: String, wanted: u32, accepted: u32| {
            if wanted > clients_served {
                let needed = limit + 2 * u64::from(wanted - clients_served) * 16 / 15 + 2;
                let so_many = if wanted > accepted {
                    format!("{accepted} are accepted at most, and {clients_served}")
                } else {
                    clients_served.to_string()
                };
                warnings.push(format!(
                    "`{key} = {wanted}` cannot be had: the limit on open files is {limit}; {so_many} can have a server connection each. Raise it \
                     to {needed} (`LimitNOFILE=` in systemd, `ulimit -n`)"
                ));
            }
        };
        if let ConnectionsMax::Exactly(wanted) = config.process.connections_max {
            note("process.connections_max".to_owned(), wanted, self.clients);
        }
        for listener in &config.listeners {
            if let Some(wanted) = listener.connections_max {
                note(format!("listener.{}.connections_max", listener.name), wanted, self.clients);
            }
        }
        warnings.extend(self.idle_warning(config));
        if limit <= LOW && warnings.is_empty() {
            warnings.push(format!(
                "the limit on open files is {limit}, which is enough for {} client connections: raise it (`LimitNOFILE=` in systemd, \
                 `ulimit -Hn`), {} or more is usual for a proxy",
                self.clients,
                64 * LOW
            ));
        }
        warnings
    }
}

impl DescriptorBudget {
    /// A warning about the upstream with the largest `pool.idle_max`, if that is more than the connections to all servers may be.
    fn idle_warning(&self, config: &Config) -> Option<String> {
        let Self { limit, servers, workers, .. } = *self;
        let wanted = config.upstreams.iter().map(|upstream| (idle_wanted(upstream, workers), upstream));
        let too_many = wanted.filter(|(wanted, _)| *wanted > servers);
        let (wanted, upstream) = too_many.max_by_key(|(wanted, _)| *wanted)?;
        let ConnectionsMax::Exactly(kept) = upstream.pool.idle_max else { return None };
        let needed = self.limit_for_servers(config, wanted);
        Some(format!(
            "`upstream.{}.pool.idle_max = {kept}` cannot be had: over {workers} workers that is {wanted} connections to one server; the limit on \
             open files is {limit}, of which {servers} are for all servers. Raise it to {needed} (`LimitNOFILE=` in systemd, `ulimit -n`)",
            upstream.name
        ))
    }

    /// The least limit on open files that leaves so many connections to servers.
    fn limit_for_servers(&self, config: &Config, wanted: u32) -> u64 {
        let is_enough = |limit: u64| Self::new(limit, config, self.workers as usize).servers >= wanted;
        let (mut low, mut high) = (self.limit, self.limit.max(1) * 2);
        while !is_enough(high) && high < u64::from(u32::MAX) {
            (low, high) = (high, high * 2);
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if is_enough(middle) { high = middle } else { low = middle }
        }
        high
    }
}

/// The most idle connections that an upstream lets one of its servers have.
fn idle_wanted(upstream: &Upstream, workers: u32) -> u32 {
    let ConnectionsMax::Exactly(kept) = upstream.pool.idle_max else { return 0 };
    let of_server =
        |max_requests: Option<u32>| kept.saturating_mul(workers).min(max_requests.unwrap_or(u32::MAX));
    upstream.servers.iter().map(|server| of_server(server.max_requests)).max().unwrap_or(0)
}

/// The sum in one line.
impl fmt::Display for DescriptorBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, clients, servers, pipes, probes, listening, admin, logs, dns, files, own, .. } =
            self;
        write!(
            f,
            "{limit} = {clients} client connections + {servers} to servers + {} for {pipes} pipes",
            2 * pipes
        )?;
        write!(
            f,
            " + {listening} listening + {probes} probes + {admin} admin + {logs} access log + {dns} DNS"
        )?;
        if *files > 0 {
            write!(f, " + {files} files")?;
        }
        write!(f, " + {own} own")
    }
}

fn number(count: usize) -> u32 {
    // Far beyond any limit on open files.
    count.min(1 << 24) as u32
}

/// Whether some route serves files.
fn serves_files(config: &Config) -> bool {
    let mut routes = config.listeners.iter().flat_map(|listener| &listener.routes);
    routes.any(|route| matches!(route.action, RouteAction::Files(_)))
}

/// Files that a worker may keep open for routes.
pub(crate) fn worker_files_max() -> usize {
    WORKER_FILES_MAX.load(Ordering::Relaxed) as usize
}

/// Servers of `config` that are probed.
fn probed(config: &Config) -> usize {
    let of_upstream = |upstream: &Arc<weir_config::Upstream>| {
        upstream.servers.iter().filter(|server| upstream.probes(server)).count()
    };
    config.upstreams.iter().map(of_upstream).sum()
}

/// Probes that may run, and keep connections, at once.
pub fn probes_max(limit: u64) -> u32 {
    u32::try_from(limit / 8).unwrap_or(u32::MAX).max(4)
}

/// The descriptor of a connection to a server, from before it is opened until it is closed.
#[derive(Debug)]
pub(crate) struct ServerPermit(());

impl ServerPermit {
    pub(crate) fn take() -> Self {
        SERVERS.0.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// The same if there is one within their bound that no other exchange waits for.
    pub(crate) fn take_free() -> Option<Self> {
        if permit_queue::is_awaited() { None } else { Self::take_awaited() }
    }

    /// The same for the exchange that has waited longest.
    pub(crate) fn take_awaited() -> Option<Self> {
        let max = SERVERS_BOUND.load(Ordering::Relaxed);
        let add = |count: u32| (count < max).then_some(count + 1);
        SERVERS.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add).ok().map(|_| Self(()))
    }

    /// Connections that workers may have to servers, idle ones included.
    pub(crate) fn count_max() -> u32 {
        SERVERS_MAX.load(Ordering::Relaxed)
    }

    /// Whether one more would be more than their share: idle ones are to go first.
    pub(crate) fn are_used_up() -> bool {
        SERVERS.0.load(Ordering::Relaxed) >= Self::count_max()
    }

    /// Whether idle ones are to be closed before their place is needed.
    pub(crate) fn are_scarce() -> bool {
        let max = Self::count_max();
        SERVERS.0.load(Ordering::Relaxed) > max - max / 8
    }
}

impl Drop for ServerPermit {
    fn drop(&mut self) {
        SERVERS.0.fetch_sub(1, Ordering::SeqCst);
        if permit_queue::is_awaited() {
            permit_queue::wake_first();
        }
    }
}

/// The two descriptors of a pipe.
#[derive(Debug)]
pub(crate) struct PipePermit(());

impl PipePermit {
    /// A place for one more pipe; `None` when pipes have their share, and what they would move is copied.
    pub(crate) fn take() -> Option<Self> {
        let max = PIPES_MAX.load(Ordering::Relaxed);
        let add = |count: u32| (count < max).then_some(count + 1);
        PIPES.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Self(()))
    }
}

impl Drop for PipePermit {
    fn drop(&mut self) {
        PIPES.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether `failure` is an exhausted resource of this machine, or an address that it does not have, not a fault of a server.
pub fn is_local(failure: Failure) -> bool {
    let is_resource = matches!(
        failure.cause,
        Cause::DescriptorLimit | Cause::PortsExhausted | Cause::SourceAddress | Cause::KernelMemory
    );
    is_resource && failure.party == Party::Weir
}

/// Logs, at most once in `ALARM_SECONDS`, that a resource of this machine was exhausted or missing.
#[cold]
pub fn raise_alarm(failure: Failure) {
    /// Failures since the last log line, and its time.
    static UNREPORTED: AtomicU64 = AtomicU64::new(0);
    static REPORTED_AT: AtomicU64 = AtomicU64::new(0);
    UNREPORTED.fetch_add(1, Ordering::Relaxed);
    let (now, reported_at) = (clock::unix_now().as_secs(), REPORTED_AT.load(Ordering::Relaxed));
    let is_due = now.abs_diff(reported_at) >= ALARM_SECONDS;
    if is_due && REPORTED_AT.compare_exchange(reported_at, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        let count = UNREPORTED.swap(0, Ordering::Relaxed);
        let explanation = failure.explanation();
        tracing::error!(
            reason = failure.reason(),
            count,
            "connections to servers could not be opened here, which says nothing about the servers: {} {}",
            explanation.happened,
            explanation.change
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: u64, settings: &str) -> (DescriptorBudget, Config) {
        let text = format!(
            "{settings}\nlistener.web = {{ address = \":0\", upstream = \"app\" }}\n\
             upstream.app = {{ servers = [\"127.0.0.1:1\", \"127.0.0.1:2\"], health = {{ path = \"/\" }} }}\n"
        );
        let config = Config::parse(&text, "test.toml").expect("the config is good");
        (DescriptorBudget::new(limit, &config, 2), config)
    }

    fn sum(budget: &DescriptorBudget) -> u64 {
        let DescriptorBudget {
            clients, servers, pipes, probes, listening, admin, logs, dns, files, own, ..
        } = *budget;
        u64::from(clients + servers + 2 * pipes + probes + listening + admin + logs + dns + files + own)
    }

    #[test]
    fn the_shares_are_never_more_than_the_limit_and_none_is_empty() {
        for settings in [
            "",
            "process.connections_max = 50",
            "process.connections_max = 100_000",
            "admin.address = \"127.0.0.1:1\"",
            "listener.www = { address = \":0\", route = [{ files = { root = \"/srv\" } }] }",
        ] {
            for limit in [256, 512, 1024, 4096, 20_000, 1_048_576] {
                let (budget, _) = budget(limit, settings);
                assert!(sum(&budget) <= limit, "{settings}: {budget}");
                assert!(
                    budget.clients >= 40 && budget.servers >= budget.clients / 8 && budget.pipes >= 2,
                    "{budget}"
                );
            }
        }
    }

    #[test]
    fn by_default_every_client_can_have_a_server() {
        for limit in [256, 1024, 20_000] {
            let (budget, _) = budget(limit, "");
            assert!(budget.servers >= budget.clients && budget.clients == budget.clients_served, "{budget}");
            assert!(u64::from(budget.clients) * 3 > limit, "{budget}");
        }
    }

    /// Where clients may have more than half, each of so many can still have a server, as long as the others have not come.
    #[test]
    fn as_many_servers_as_clients_is_never_too_many() {
        for (settings, is_share) in
            [("", true), ("process.connections_max = 10", true), ("process.connections_max = 100_000", false)]
        {
            let (budget, _) = budget(4096, settings);
            let expected = if is_share { budget.servers } else { budget.clients_served };
            assert_eq!(budget.servers_bound(), expected, "{settings}: {budget}");
            assert!(budget.servers_bound() > 1700, "{settings}: {budget}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_said_and_what_can_is_not() {
        for (limit, settings, expected) in [
            (1024, "", &["the limit on open files is 1024"][..]),
            (1025, "", &[]),
            (20_000, "process.connections_max = 9000", &[]),
            (
                20_000,
                "process.connections_max = 12_000",
                &["`process.connections_max = 12000` cannot be had"],
            ),
            (
                20_000,
                "listener.b = { address = \":0\", upstream = \"app\", connections_max = 30_000 }",
                &["`listener.b.connections_max = 30000`"],
            ),
            (256, "process.connections_max = 1000", &["`process.connections_max = 1000` cannot be had"]),
            (20_000, "upstream.b = { servers = ['127.0.0.1:3'], pool.idle_max = 4_000 }", &[]),
            (
                20_000,
                "upstream.b = { servers = ['127.0.0.1:3'], pool.idle_max = 6_000 }",
                &[
                    "`upstream.b.pool.idle_max = 6000` cannot be had: over 2 workers that is 12000 connections",
                ],
            ),
            (
                20_000,
                "upstream.b = { servers = ['127.0.0.1:3'], pool.idle_max = 6_000, max_requests = 100 }",
                &[],
            ),
        ] {
            let (budget, config) = budget(limit, settings);
            let warnings = budget.warnings(&config);
            assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
            assert!(
                warnings.iter().zip(expected).all(|(warning, part)| warning.contains(part)),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn the_limit_that_a_warning_names_is_enough() {
        for settings in [
            "process.connections_max = 3000",
            "upstream.b = { servers = ['127.0.0.1:3'], pool.idle_max = 3000 }",
        ] {
            assert_named_limit_is_enough(settings);
        }
    }

    fn assert_named_limit_is_enough(settings: &str) {
        let (low, config) = budget(1024, settings);
        let warning = low.warnings(&config).remove(0);
        let named = warning.split("Raise it to ").nth(1).and_then(|rest| rest.split(' ').next());
        let named: u64 = named.and_then(|number| number.parse().ok()).expect("it names a number");
        assert!(DescriptorBudget::new(named, &config, 2).warnings(&config).is_empty(), "{warning}");
        assert!(!DescriptorBudget::new(named - 64, &config, 2).warnings(&config).is_empty(), "{warning}");
    }
}
