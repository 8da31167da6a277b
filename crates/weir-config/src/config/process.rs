//! `[process]`, `[log]`, `[admin]`, `[recorder]` and `[dns]`: settings of the process as a whole.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::key::{Bounds, ChoiceWord, ConfigValue, OutOfBounds, TreeReader, ValueKind, choice, section};
use crate::source::{Tree, TreeNode};
use crate::value::{FileMode, ListenAddress, Percent, Size, Token};

section! {
    /// Workers, limits of the whole process, stop and reload.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Process at "process" {
        /// The number of workers. `"auto"` is one per CPU that the process may use: its affinity mask and the quota of its cgroup count,
        /// not the cores of the machine.
        workers: WorkerCount = "auto", in 1..=1024,
            like "nginx `worker_processes`, HAProxy `nbthread`";
        /// Whether each worker is pinned to one CPU.
        pin_workers: bool = false, like "nginx `worker_cpu_affinity`, HAProxy `cpu-map`";
        /// The maximum number of client connections over all listeners; further ones wait in the backlog. `"auto"` is what the limit on
        /// open files allows when every client needs a server connection too; the log states at start how the limit is divided.
        connections_max: ConnectionsMax = "auto", in 1..=100_000_000,
            like "nginx `worker_connections` (per worker), HAProxy `maxconn`";
        /// The size of one buffer. A common head and a small response fit in one buffer of the default size. A worker has 16 buffers of 64
        /// KiB as well, for peers that send more at a time.
        buffer_size: Size = "16KiB", in 4096..=1_048_576, like "nginx `proxy_buffer_size`, HAProxy `tune.bufsize`";
        /// The number of buffers over all workers, which bounds the memory of all bodies in transit: 1 GiB with the defaults. An exchange
        /// that finds no free buffer waits for one, in order of arrival and no longer than a request head may take
        /// (`listener.NAME.timeouts.request`); then it is answered 503. Idle connections hold no buffer. While half of the buffers are in
        /// use, exchanges that wait for more of a body and have nothing to forward hold none either.
        buffers_max: u32 = 65_536, in 16..=16_777_216, like "HAProxy `tune.buffers.limit`";
        /// The memory that the process may use, buffers of its sockets in the kernel included. Near it, Weir frees memory in a fixed order: stored
        /// responses, idle connections, clients that make the slowest progress; then new connections wait and are refused (docs/memory.md).
        /// `"auto"` is seven eighths of the limit of the cgroup or of the memory of the machine, whichever is less. Buffers get half of it at most.
        memory_max: Option<MemoryMax> = "auto", in 1_048_576..=17_592_186_044_416, like "Envoy `overload_manager`, HAProxy `-m`";
        /// The number of requests that Weir sends by itself and that no client waits for, at a time and over all workers: copies for mirrors, and
        /// revalidation of stored responses. Further ones are not sent, nor any while half of the buffers are in use.
        background_requests_max: u32 = 1024, in 1..=1_000_000;
        /// The share of a worker's time that compression may take. Above it, levels fall in steps to the lowest; then further responses pass
        /// as they are. They rise again as the load falls. The log and `weir_worker_compression_step` tell.
        compression_time: Percent = "50%", in 1..=100, like "HAProxy `maxcompcpuusage`";
        /// The number of responses that are compressed or decompressed at a time, over all workers; further ones pass as they are. It bounds
        /// their memory: about 370 KiB each with gzip, 1.5 MiB with Zstandard and Brotli, and up to 3 MiB at the highest level of Brotli;
        /// decompressing takes the window that the server has chosen, up to 16 MiB.
        compressions_max: u32 = 512, in 1..=1_000_000, like "HAProxy `maxzlibmem`";
        /// Files that routes with `files` keep open, over all workers, encoded forms beside them included. `"auto"` is the share of the limit on open files that is theirs,
        /// which is also the most; 0 keeps none, so that every request looks its path up and opens its file.
        open_file_cache_max: ConnectionsMax = "auto", in 0..=1_000_000, like "nginx `open_file_cache max=`";
        /// How long a file stays open that is not requested. A file that was removed keeps its place on the disk that long.
        open_file_cache_inactive: Duration = "60s", in 1000..=86_400_000, like "nginx `open_file_cache inactive=`";
        /// The time between SIGTERM or SIGINT and the stop. Weir serves as before, but `/ready` of the admin listener answers 503: set it
        /// to the time that the load balancer in front takes to notice. A second signal ends the delay.
        stop_delay: Duration = "0s", in 0..=3_600_000, like "HAProxy `grace`, Envoy `drain`";
        /// How long running exchanges and tunnels may continue after that; new connections are refused. A second signal ends them at once.
        stop_grace: Duration = "30s", in 0..=86_400_000, like "nginx `worker_shutdown_timeout`, HAProxy `hard-stop-after`";
        /// How long connections are ended with their next response, before another node takes over: by `weir ctl hand-over`, and by a stop where
        /// `keepalived` or `bird` is set. Then idle connections are closed, and the other node is told.
        hand_over_delay: Duration = "5s", in 0..=3_600_000, like "HAProxy `close-spread-time`, Envoy `drain-time-s`";
        /// Tells keepalived of this machine whether Weir serves, by a track file.
        keepalived: Keepalived = optional;
        /// Tells BIRD of this machine whether Weir serves: it announces a route only then.
        bird: Bird = optional;
        /// How long Weir may be silent (killed, stopped or starved of CPU time) until `keepalived` and `bird` are told that it does not serve.
        frozen_after: Duration = "150ms", in 50..=60_000;
        /// Files with keys of HTTP/3 that all nodes with one address have: 80 random bytes each, as `openssl rand` writes them. When the address moves,
        /// connections of clients are reset at once, and proofs of their addresses (Retry) count (docs/http3.md). The first is used; the others are
        /// those of nodes that do not use it yet. Read at the start, and by an upgrade. Without it, each process has its own.
        http3_keys: Vec<Box<str>> = [], like "nginx `quic_host_key`, HAProxy `cluster-secret`";
        /// When the config is read again: on SIGHUP only, or also when it or a file that it includes has changed. Files of certificates and
        /// keys are watched separately.
        reload: ReloadTrigger = "on-signal";
        /// How long tunnels may continue whose server, upstream or listener a reload has removed, and connections of a removed listener.
        /// Other exchanges have their own time limits.
        reload_grace: Duration = "5m", in 0..=604_800_000, like "nginx `worker_shutdown_timeout`, HAProxy `hard-stop-after`";
        /// Weir's name in `Via`. Without it, a random name is made at start, so that two instances in a row do not report a loop.
        name: Token = optional;
        /// The user that the process becomes once its addresses, logs and files of keys are open: a name of `/etc/passwd`, or a number. It
        /// has to be started as root, or as that user. Whatever is opened later, by a reload, by a log that is reopened or by a certificate that
        /// is renewed, is opened as that user; of the capabilities it keeps `CAP_NET_BIND_SERVICE` where a port is below 1024, or none.
        user: Box<str> = optional, like "nginx `user`, HAProxy `user`";
        /// The group that the process becomes a member of, as a name of `/etc/group` or a number. Without it: the groups of `user`.
        group: Box<str> = optional, like "nginx `user`, HAProxy `group`";
        /// A folder that becomes the root folder of the process when everything is open; an absolute path. Paths that are used later are looked
        /// up inside it: those of a reload, of routes with `files`, of caches, of certificates that are renewed, of `/etc/resolv.conf`.
        chroot: Box<str> = optional, like "HAProxy `chroot`";
        /// A file that holds the process id while Weir runs: written when it is ready, removed when it stops. A path relative to this file.
        pid_file: Box<str> = optional, like "nginx `pid`, HAProxy `pidfile`";
        /// Whether the kernel confines the process, as far as it can: to the files that a proxy needs (Landlock) and to the system calls that
        /// Weir makes (seccomp). Nothing can be executed then, in any case. No effect with `dns_command` of `tls.acme`, which starts a program.
        sandbox: SandboxMode = "on";
    }
}

section! {
    /// keepalived follows the number in a file, which Weir writes: 0 while it serves, `-hand_over_weight` once it has handed over, -254 (the state
    /// FAULT) while it does not serve. [docs/pair.md](pair.md) has both configs.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Keepalived at "process.keepalived" {
        /// The file, as keepalived's config names it in `vrrp_track_file`: an absolute path.
        track_file: Box<str> = required;
        /// By how much the priority of this node falls when it has handed over: more than the priorities of the two nodes differ.
        hand_over_weight: u32 = 60, in 1..=253;
        /// When a node that starts takes the address back from the other one.
        fail_back: FailBack = "at-once";
    }
}

section! {
    /// BIRD announces a route while a protocol is enabled, which Weir enables while it serves, and disables when it hands over, stops or ends. [docs/pair.md](pair.md)
    /// has both configs.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Bird at "process.bird" {
        /// BIRD's control socket: an absolute path. The user of Weir needs write permission (the group `bird`).
        socket: Box<str> = "/run/bird/bird.ctl";
        /// The name of the protocol in BIRD's config. Write it there with `disabled`, so that nothing is announced before Weir serves.
        protocol: Box<str> = required;
    }
}

choice! {
    /// When a node that starts takes the address back from the other one.
    pub enum FailBack {
        /// when it serves; connections to the other node are cut
        #[default]
        AtOnce = "at-once",
        /// when the other node hands over or ends, or by `weir ctl take-back`: until then its priority is as after a hand-over
        ByCommand = "by-command",
    }
}

choice! {
    /// How far the kernel confines the process.
    pub enum SandboxMode {
        /// system folders (`/usr`, `/etc`, `/boot` and the like) are read-only but for what the config names
        #[default]
        On = "on",
        /// files are written only below the folders that the config of the start names; a reload that names others needs a restart
        Strict = "strict",
        /// the kernel confines nothing beyond the user of the process
        Off = "off",
    }
}

choice! {
    /// When the config is read again.
    pub enum ReloadTrigger {
        /// on SIGHUP
        #[default]
        OnSignal = "on-signal",
        /// on SIGHUP, and when the config or a file that it includes has changed
        OnChange = "on-change",
    }
}

/// The number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCount {
    /// One per CPU that the process may use: affinity mask and cgroup quota count, not the cores of the machine.
    Auto,
    /// This number, at most 1024.
    Exactly(NonZeroUsize),
}

/// The memory that the process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryMax {
    /// What the limit of the cgroup, or the memory of the machine, leaves.
    Auto,
    /// So many bytes.
    Exactly(Size),
}

/// A maximum number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionsMax {
    /// As many as the limit on open files allows.
    Auto,
    /// Exactly this many.
    Exactly(u32),
}

impl ConnectionsMax {
    /// The limit, where `left` is the rest of the limit on open files.
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
        Tree::Text(text) if !text.is_substituted() => {
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

impl ConfigValue for MemoryMax {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![ValueKind::Choice(AUTO), Size::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Text(text) if text.value == AUTO[0].name => Some(Self::Auto),
            Tree::Text(_) => Size::read(node, bounds, reader).map(Self::Exactly),
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Auto => Box::<str>::from(AUTO[0].name).write(),
            Self::Exactly(size) => size.write(),
        }
    }

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        if let Self::Exactly(size) = self {
            size.check_bounds(key, bounds, found);
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

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        if let Self::Exactly(connections) = self {
            connections.check_bounds(key, bounds, found);
        }
    }
}

section! {
    /// Weir's own log on standard error: start, reload, stop, errors. Requests are in the access log. A thread of its own writes the log,
    /// so a slow reader delays nothing: lines beyond a queue of 1 000 are dropped and counted. A line that is repeated more than ten times
    /// in 10 s is replaced by a count.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LogSettings at "log" {
        /// The least severe level that is written. Libraries inside Weir (TLS, traces) log errors only, unless the level is `debug` or `trace`.
        level: LogLevel = "info", like "nginx `error_log`";
        /// The format of a line.
        format: LogLineFormat = "text";
    }
}

choice! {
    /// A level of Weir's own log.
    pub enum LogLevel {
        /// A fault that needs action.
        Error = "error",
        /// Unusual, may need action.
        Warn = "warn",
        /// Start, reload, stop and changes of state.
        #[default]
        Info = "info",
        /// For debugging.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

choice! {
    /// The format of a line of Weir's own log.
    pub enum LogLineFormat {
        /// Plain text.
        #[default]
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

section! {
    /// The admin listener: status page, metrics and runtime changes, separate from the traffic.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Admin at "admin" {
        /// The address of the status page, at `/`, and of the metrics in the Prometheus text format, at `/metrics`. Without credentials
        /// every client that can connect can read them, so bind it to a loopback or private address. Plain HTTP.
        address: Option<SocketAddr> = "off", like "nginx `stub_status`, HAProxy `stats`, Envoy `admin`";
        /// Whether servers can be drained and put into maintenance there: with the buttons of the status page, or with `POST
        /// /servers?upstream=NAME&server=NAME&mode=draining`, or `maintenance`, or `serving`; `&deadline=30s` ends a drain for requests
        /// with affinity to the server too. `GET /servers` reports the progress. It also permits profiling of the running process, at
        /// `/api/profile/cpu` and `/api/profile/memory`. Without credentials, every client that can connect can make these changes.
        /// Requests from pages of other sites are refused.
        changes: bool = false, like "HAProxy `stats admin`, Envoy `admin`";
        /// The user name that belongs to `password_file` (HTTP Basic authentication).
        user: Box<str> = optional, like "HAProxy `stats auth`, nginx `auth_basic`";
        /// A file with the password of `user`, at least 8 characters on one line, relative to this file. It is read at start and on reload;
        /// only its SHA-256 stays in memory.
        password_file: Box<str> = optional, like "nginx `auth_basic_user_file`";
        /// A file with a token, at least 16 characters on one line, for programs that send `Authorization: Bearer TOKEN`. It can be
        /// combined with a user; it is read like `password_file`.
        token_file: Box<str> = optional;
        /// Host names under which the admin listener answers without credentials, besides addresses and names without a dot. A web page can
        /// point a name of its own at any address that its reader can reach, so a request for another host is rejected with 421.
        allowed_hosts: Vec<Box<str>> = [];
        /// The runtime socket: the commands of HAProxy's stats socket (`show stat`, `set server`, ...) and, on a Unix socket, the whole
        /// admin API for `weir ctl` and `curl --unix-socket`. A path as `unix:/run/weir.sock`; or a loopback address such as
        /// `127.0.0.1:9999`, for programs that need TCP: it has the commands only, and no credentials.
        socket: Option<ListenAddress> = "off", like "HAProxy `stats socket`";
        /// The mode of the socket file: users with write permission may connect. The socket asks for no credentials.
        socket_mode: FileMode = "0600", like "HAProxy `stats socket mode`";
        /// Whether servers can be changed and the config reloaded through the socket. Without it: only on a Unix socket whose mode
        /// restricts it to its owner.
        socket_changes: bool = optional, like "HAProxy `stats socket level`";
    }
}

section! {
    /// The flight recorder: completed exchanges that are kept, so that `weir why` can explain them. Each worker keeps its own, in memory
    /// that is allocated when needed; nothing is written to disk.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RecorderSettings at "recorder" {
        /// The number of exchanges that each worker keeps, the most recent ones, at 0.5 KiB each. A sixteenth as many of those with more
        /// than one attempt are kept in addition. 0 keeps none.
        exchanges: u32 = 4096, in 0..=1_000_000;
        /// The number of failed exchanges that each worker keeps, the most recent ones, at 1 KiB each, regardless of the number of
        /// successful ones since. 0 keeps none.
        failures: u32 = 1000, in 0..=1_000_000, like "HAProxy `show errors`";
    }
}

section! {
    /// How names of servers are resolved: in the background. A request never waits for a name that has been resolved once.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Dns at "dns" {
        /// The resolvers that are queried. Empty: those of `/etc/resolv.conf`, after `/etc/hosts`.
        resolvers: Vec<SocketAddr> = [], like "nginx `resolver`, HAProxy `nameserver`";
        /// How long one answer may take before the next resolver is queried.
        timeout: Duration = "2s", like "nginx `resolver_timeout`, HAProxy `timeout retry` (in `resolvers`)";
        /// The shortest time after which a name is resolved again, whatever its TTL: a TTL of 0 must not cause a flood of queries.
        ttl_min: Duration = "1s";
        /// The longest time after which a name is resolved again, whatever its TTL: a TTL of a day must not pin a server for a day.
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
