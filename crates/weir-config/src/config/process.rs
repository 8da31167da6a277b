//! `[process]`, `[log]` and `[dns]`: what concerns the process as a whole.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::key::{Bounds, ChoiceWord, ConfigValue, TreeReader, ValueKind, choice, section};
use crate::source::{Tree, TreeNode};
use crate::value::{FileMode, ListenAddress, Size, Token};

section! {
    /// Workers, limits of the whole process, and its end.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Process at "process" {
        /// How many workers run. `"auto"` is one per CPU that the process may use: the affinity mask and the quota of
        /// its cgroup count, not the cores of the machine.
        workers: WorkerCount = "auto", in 1..=1024,
            like "nginx `worker_processes`, HAProxy `nbthread`";
        /// Whether each worker is bound to one CPU.
        pin_workers: bool = false, like "nginx `worker_cpu_affinity`, HAProxy `cpu-map`";
        /// Client connections over all listeners; more wait in the backlog. `"auto"` is what the limit on open files
        /// leaves when every client needs a server connection too; the log says at the start how it is shared out.
        connections_max: ConnectionsMax = "auto", in 1..=100_000_000,
            like "nginx `worker_connections` (per worker), HAProxy `maxconn`";
        /// The size of one buffer. A usual head and a small answer fit in one of the default. A worker has 16 of 64 KiB besides,
        /// for peers that send more at a time.
        buffer_size: Size = "16KiB", in 4096..=1_048_576, like "nginx `proxy_buffer_size`, HAProxy `tune.bufsize`";
        /// Buffers over all workers, which bounds the memory of all bodies under way: 1 GiB with the defaults. An exchange
        /// that finds none waits for one, in the order of arrival and as long as a request head may take
        /// (`listener.NAME.timeouts.request`); then it is answered 503. Idle connections hold no buffer, and when half of them are in use,
        /// neither count exchanges that wait for more of a body and have nothing to pass on.
        buffers_max: u32 = 65_536, in 16..=16_777_216, like "HAProxy `tune.buffers.limit`";
        /// How long Weir goes on as before after SIGTERM or SIGINT, but says at `/ready` of the admin listener that it is about to stop: as
        /// long as whoever sends it connections takes to notice. A second signal ends it at once.
        stop_delay: Duration = "0s", in 0..=3_600_000, like "HAProxy `grace`, Envoy `drain`";
        /// How long running exchanges may go on then, and tunnels; new connections are refused. A second signal ends them at once.
        stop_grace: Duration = "30s", in 0..=86_400_000, like "nginx `worker_shutdown_timeout`, HAProxy `hard-stop-after`";
        /// When the config is read anew: on SIGHUP only, or also when it or a file that it includes has changed. Files of certificates and
        /// keys are looked at on their own.
        reload: ReloadTrigger = "on-signal";
        /// How long tunnels may go on whose server, upstream or listener a reload has removed, and connections of a removed listener. Other
        /// exchanges have their own time limits.
        reload_grace: Duration = "5m", in 0..=604_800_000, like "nginx `worker_shutdown_timeout`, HAProxy `hard-stop-after`";
        /// What Weir calls itself in `Via`. Without it, a name is made at start, so that two Weirs in a row do not
        /// take each other for a loop.
        name: Token = optional;
    }
}

choice! {
    /// When the config is read anew.
    pub enum ReloadTrigger {
        /// when a SIGHUP comes
        #[default]
        OnSignal = "on-signal",
        /// when a SIGHUP comes, and when the config or a file that it includes has changed
        OnChange = "on-change",
    }
}

/// How many workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCount {
    /// One per CPU that the process may use: affinity mask and cgroup quota count, not the cores of the machine.
    Auto,
    /// Exactly so many, at most 1024.
    Exactly(NonZeroUsize),
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionsMax {
    /// What the limit on open files leaves.
    Auto,
    /// Exactly so many.
    Exactly(u32),
}

impl ConnectionsMax {
    /// The limit, where `left` is what the limit on open files leaves.
    pub const fn resolve(self, left: u32) -> u32 {
        match self {
            Self::Exactly(connections) => connections,
            Self::Auto => left,
        }
    }
}

const AUTO: &[ChoiceWord] = &[ChoiceWord { name: "auto", meaning: "found out at start" }];

/// An integer or `"auto"`.
fn auto_kind(bounds: Bounds) -> ValueKind {
    ValueKind::Either(vec![ValueKind::Choice(AUTO), ValueKind::Integer(bounds)])
}

/// Reads an integer, or `None` for `"auto"`.
fn read_auto(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Option<u32>> {
    match &node.tree {
        Tree::Text(text) if text.value == AUTO[0].name => Some(None),
        Tree::Text(text) if !text.substituted => {
            reader.report_word(node, &text.value, &auto_kind(bounds));
            None
        }
        tree if auto_kind(bounds).accepts(tree) => u32::read(node, bounds, reader).map(Some),
        _ => {
            reader.wrong_type(node, &auto_kind(bounds));
            None
        }
    }
}

impl ConfigValue for WorkerCount {
    fn kind(bounds: Bounds) -> ValueKind {
        auto_kind(bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let count = read_auto(node, bounds, reader)?;
        Some(match count.and_then(|count| NonZeroUsize::new(count as usize)) {
            Some(count) => Self::Exactly(count),
            None => Self::Auto,
        })
    }

    fn write(&self) -> String {
        match self {
            Self::Auto => Box::<str>::from(AUTO[0].name).write(),
            Self::Exactly(count) => count.to_string(),
        }
    }
}

impl ConfigValue for ConnectionsMax {
    fn kind(bounds: Bounds) -> ValueKind {
        auto_kind(bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        Some(read_auto(node, bounds, reader)?.map_or(Self::Auto, Self::Exactly))
    }

    fn write(&self) -> String {
        match self {
            Self::Auto => Box::<str>::from(AUTO[0].name).write(),
            Self::Exactly(connections) => connections.to_string(),
        }
    }
}

section! {
    /// Weir's own log, written to standard error: start, reload, stop, trouble. The requests are in the access log. A thread of its own writes it,
    /// so a reader that stalls stops nothing: what does not fit in 1 000 lines is dropped and counted. A line that is repeated more than ten times in
    /// 10 s is summed up.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LogSettings at "log" {
        /// The least important level that is written. Of libraries inside Weir (TLS, traces), errors only, below `debug`.
        level: LogLevel = "info", like "nginx `error_log`";
        /// How a line looks.
        format: LogLineFormat = "text";
    }
}

choice! {
    /// A level of Weir's own log.
    pub enum LogLevel {
        /// Something is broken and needs a person.
        Error = "error",
        /// Something is odd and may need one.
        Warn = "warn",
        /// Start, reload, stop and changes of state.
        #[default]
        Info = "info",
        /// For the search of a mistake.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

choice! {
    /// How a line of Weir's own log looks.
    pub enum LogLineFormat {
        /// For people.
        #[default]
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

section! {
    /// The admin listener: the status page, metrics and changes while Weir runs, served apart from the traffic.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Admin at "admin" {
        /// Where the status page is, at `/`, and the metrics in the Prometheus text format, at `/metrics`. Without credentials, whoever
        /// can connect can read them, so bind it to a loopback or private address then. It speaks plain HTTP.
        address: Option<SocketAddr> = "off", like "nginx `stub_status`, HAProxy `stats`, Envoy `admin`";
        /// Whether servers can be drained there and taken out for maintenance: by the buttons of the status page, or by
        /// `POST /servers?upstream=NAME&server=NAME&mode=draining`, or
        /// `maintenance`, or `serving`; `&deadline=30s` ends a drain for those too that are bound to the server. `GET /servers` tells how far it
        /// is. Also whether the running process can be profiled, at `/api/profile/cpu` and `/api/profile/memory`. Without credentials, whoever can
        /// connect can do it. Requests that pages of other sites make are refused.
        changes: bool = false, like "HAProxy `stats admin`, Envoy `admin`";
        /// Who may come in with the password of `password_file` (HTTP Basic authentication).
        user: Box<str> = optional, like "HAProxy `stats auth`, nginx `auth_basic`";
        /// A file with the password of `user`, at least 8 characters on one line, relative to this file. It is read at the start and at a
        /// reload, and only its SHA-256 stays in memory.
        password_file: Box<str> = optional, like "nginx `auth_basic_user_file`";
        /// A file with a token, at least 16 characters on one line, for programs that send `Authorization: Bearer TOKEN`. May stand beside a
        /// user or alone; read like `password_file`.
        token_file: Box<str> = optional;
        /// Host names by which the admin listener may be asked without credentials, besides addresses and names without a dot. A web page can
        /// have its own name lead to any address that its reader reaches; a request that names another host is therefore refused (421).
        hosts: Vec<Box<str>> = [];
        /// The runtime socket: the commands of HAProxy's (`show stat`, `set server`, ...) and, on a Unix socket, all of the admin API for
        /// `weir ctl` and `curl --unix-socket`. A path as `unix:/run/weir.sock`; or an address of this machine alone, `127.0.0.1:9999`, for programs
        /// that cannot do without: it has commands only, and no credentials.
        socket: Option<ListenAddress> = "off", like "HAProxy `stats socket`";
        /// The mode of the socket's file: who may write to it may connect. No credentials are asked for there.
        socket_mode: FileMode = "0600", like "HAProxy `stats socket mode`";
        /// Whether servers can be changed and the config reloaded there. Without it: on a Unix socket whose mode lets nobody connect but its owner.
        socket_changes: bool = optional, like "HAProxy `stats socket level`";
    }
}

section! {
    /// The flight recorder: what is kept of exchanges that are over, so that `weir why` can tell their story. Each worker keeps its own, in
    /// memory that is taken as it is needed; nothing is written to disk.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RecorderSettings at "recorder" {
        /// Exchanges that each worker keeps, the last ones, at 0.5 KiB each. A sixteenth as many of those that took more than one attempt
        /// are kept besides. 0 keeps none.
        exchanges: u32 = 4096, in 0..=1_000_000;
        /// Failed exchanges that each worker keeps, the last ones, at 1 KiB each, however many others there were since. 0 keeps none.
        failures: u32 = 1000, in 0..=1_000_000, like "HAProxy `show errors`";
    }
}

section! {
    /// How names of servers are resolved. It happens in the background: a request never waits for a name that has been
    /// resolved once.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Dns at "dns" {
        /// The resolvers that are asked. Empty means what the system has in `/etc/resolv.conf`, after `/etc/hosts`.
        resolvers: Vec<SocketAddr> = [], like "nginx `resolver`, HAProxy `nameserver`";
        /// How long one answer may take before the next resolver is asked.
        timeout: Duration = "2s", like "nginx `resolver_timeout`, HAProxy `timeout retry` (in `resolvers`)";
        /// Shortest time after which a name is asked for again, whatever its TTL: a TTL of 0 must not become a flood.
        ttl_min: Duration = "1s";
        /// Longest time after which a name is asked for again, whatever its TTL: a TTL of a day must not pin a server
        /// for a day.
        ttl_max: Duration = "5m", like "nginx `resolver valid=`, HAProxy `hold valid`";
    }
}

impl Admin {
    /// Whether anything can be changed through the runtime socket.
    pub fn allows_socket_changes(&self) -> bool {
        let is_guarded =
            matches!(self.socket, Some(ListenAddress::Unix(_))) && self.socket_mode.is_for_its_owner();
        self.socket_changes.unwrap_or(is_guarded)
    }
}
