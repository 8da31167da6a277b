//! The effect of a change on live connections: the table behind `weir plan`, and its sentences.
//!
//! A short form of docs/reload.md; the tests of reloads cover both.

use super::ConfigPart;

/// The effect of a change on live connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// It applies at once, and no connection ends.
    AtOnce,
    /// Requests in progress complete unchanged; it applies from the next request on every connection.
    NextRequest,
    /// Open connections stay unchanged; it applies to new ones.
    NextConnection,
    /// New sockets are opened, removed ones closed; open connections stay.
    Rebinds,
    /// Idle connections to servers are replaced; exchanges in progress continue.
    Reconnects,
    /// Learned cookies are lost, so some clients may change servers once.
    Forgets,
    /// The cache begins anew: stored responses are fetched again, and no connection ends.
    Empties,
    /// The old address is drained like a removed server, the new one gets requests at once.
    Moves,
    /// It is used at once, and no connection ends.
    Begins,
    /// It gets no new requests; those on it complete within their own limits, tunnels end within `process.reload_grace`.
    Drains,
    /// Its sockets close; connections get one more response, idle ones and tunnels end within `process.reload_grace`.
    Closes,
    /// It takes effect after a restart.
    Restart,
}

impl Effect {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::AtOnce,
        Self::NextRequest,
        Self::NextConnection,
        Self::Rebinds,
        Self::Reconnects,
        Self::Forgets,
        Self::Empties,
        Self::Moves,
        Self::Begins,
        Self::Drains,
        Self::Closes,
        Self::Restart,
    ];

    /// The stable kebab-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AtOnce => "at-once",
            Self::NextRequest => "next-request",
            Self::NextConnection => "next-connection",
            Self::Rebinds => "rebinds",
            Self::Reconnects => "reconnects",
            Self::Forgets => "forgets",
            Self::Empties => "empties",
            Self::Moves => "moves",
            Self::Begins => "begins",
            Self::Drains => "drains",
            Self::Closes => "closes",
            Self::Restart => "restart",
        }
    }

    /// The effect in one sentence without a full stop, when `process.reload_grace` is `grace`.
    pub fn sentence(self, grace: &str) -> String {
        match self {
            Self::AtOnce => "applies at once; no connection ends".to_owned(),
            Self::NextRequest => {
                "requests in progress complete unchanged; applies from the next request on".to_owned()
            }
            Self::NextConnection => "open connections stay unchanged; applies to new ones".to_owned(),
            Self::Rebinds => "new addresses are bound, removed ones closed; open connections stay".to_owned(),
            Self::Reconnects => {
                "idle connections to servers are replaced; exchanges in progress continue".to_owned()
            }
            Self::Forgets => {
                "learned cookies are lost: a client may change servers once; no connection ends".to_owned()
            }
            Self::Empties => {
                "the cache begins anew: stored responses are fetched again; no connection ends".to_owned()
            }
            Self::Moves => format!(
                "the new address gets requests at once; requests on the old one complete within their own limits, tunnels end within {grace}"
            ),
            Self::Begins => "is used at once; no connection ends".to_owned(),
            Self::Drains => {
                format!(
                    "gets no new requests; those on it complete within their own limits, tunnels end within {grace}"
                )
            }
            Self::Closes => format!(
                "its sockets close; each connection gets one more response, idle ones and tunnels end within {grace}"
            ),
            Self::Restart => "takes effect after a restart".to_owned(),
        }
    }
}

/// Keys of `[process]` that take effect after a restart. All of `[log]` and `[recorder]` do too.
pub const RESTART_KEYS: [&str; 14] = [
    "workers",
    "pin_workers",
    "buffer_size",
    "buffers_max",
    "name",
    "user",
    "group",
    "chroot",
    "pid_file",
    "sandbox",
    "keepalived",
    "bird",
    "frozen_after",
    "http3_keys",
];

/// The effect of a new part.
pub(super) fn of_new(part: &ConfigPart) -> Effect {
    match part {
        ConfigPart::Listener(_) => Effect::Rebinds,
        ConfigPart::Route(..)
        | ConfigPart::Limit(_)
        | ConfigPart::Table(_)
        | ConfigPart::Store(_)
        | ConfigPart::Cache(_)
        | ConfigPart::Map(_)
        | ConfigPart::List(_) => Effect::NextRequest,
        _ => Effect::Begins,
    }
}

/// The effect of a removed part.
pub(super) fn of_gone(part: &ConfigPart) -> Effect {
    match part {
        ConfigPart::Listener(_) => Effect::Closes,
        ConfigPart::Route(..)
        | ConfigPart::Limit(_)
        | ConfigPart::Table(_)
        | ConfigPart::Store(_)
        | ConfigPart::Cache(_)
        | ConfigPart::Map(_)
        | ConfigPart::List(_) => Effect::NextRequest,
        _ => Effect::Drains,
    }
}

/// The effect of a changed key; `learned`: whether affinity was by learned cookies or keys before.
pub(super) fn of_key(part: &ConfigPart, key: &str, learned: bool) -> Effect {
    let first = key.split('.').next().unwrap_or_default();
    match part {
        ConfigPart::Process if RESTART_KEYS.contains(&first) => Effect::Restart,
        ConfigPart::Admin if ["address", "socket", "socket_mode"].contains(&first) => Effect::Restart,
        ConfigPart::Log | ConfigPart::Recorder => Effect::Restart,
        ConfigPart::Admin
        | ConfigPart::Process
        | ConfigPart::AccessLog
        | ConfigPart::Dns
        | ConfigPart::Discovery
        | ConfigPart::RoutesFrom(_)
        | ConfigPart::Metrics => Effect::AtOnce,
        ConfigPart::Listener(_) => of_listener_key(first),
        ConfigPart::Route(..)
        | ConfigPart::Traces
        | ConfigPart::Limit(_)
        | ConfigPart::Table(_)
        | ConfigPart::Store(_)
        | ConfigPart::Map(_)
        | ConfigPart::List(_) => Effect::NextRequest,
        ConfigPart::Cache(_) => Effect::Empties,
        ConfigPart::Upstream(_) => match first {
            "tls" | "proxy_protocol" | "source_address" | "protocol" | "http2" => Effect::Reconnects,
            "affinity" if learned && !matches!(key, "affinity.strict" | "affinity.forget_when") => {
                Effect::Forgets
            }
            "affinity" | "retry" | "timeouts" | "limits" | "lenient" => Effect::NextRequest,
            _ => Effect::AtOnce,
        },
        ConfigPart::Server(..) => match first {
            "address" => Effect::Moves,
            "server_name" | "source_address" => Effect::Reconnects,
            _ => Effect::AtOnce,
        },
    }
}

fn of_listener_key(first: &str) -> Effect {
    match first {
        "address" => Effect::Rebinds,
        "access_log" => Effect::AtOnce,
        "backlog"
        | "tcp_nodelay"
        | "tcp_keepalive"
        | "defer_accept"
        | "fast_open"
        | "connections_max"
        | "connections_per_client_max"
        | "connections_per_client_rate"
        | "tls"
        | "proxy_protocol"
        | "http2"
        | "http3"
        | "protocol" => Effect::NextConnection,
        _ => Effect::NextRequest,
    }
}
