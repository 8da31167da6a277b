//! What a change means for those who are connected: the table behind `weir plan`, and the words for it.
//!
//! It says in short what docs/reload.md says at length; the tests of the reload show that both are true.

use super::ConfigPart;

/// What becomes of live connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// It holds at once, and no connection ends.
    AtOnce,
    /// Requests under way end as they began; it holds from the next request on every connection.
    NextRequest,
    /// Open connections stay as they are; it holds for new ones.
    NextConnection,
    /// New sockets are opened, those that are gone are closed; open connections stay.
    Rebinds,
    /// Idle connections to servers are not used any more; what runs on others goes on.
    Reconnects,
    /// Learned cookies are forgotten, so some clients may change servers once.
    Forgets,
    /// The old address leaves like a removed server, the new one takes requests at once.
    Moves,
    /// It takes part at once, and no connection ends.
    Begins,
    /// It gets nobody new; what runs on it ends by its own limits, tunnels at the latest after `process.reload_grace`.
    Drains,
    /// Its sockets close; connections get one more answer, idle ones and tunnels end after `process.reload_grace`.
    Closes,
    /// Nothing changes before Weir is started anew.
    Restart,
}

impl Effect {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::AtOnce,
        Self::NextRequest,
        Self::NextConnection,
        Self::Rebinds,
        Self::Reconnects,
        Self::Forgets,
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
            Self::Moves => "moves",
            Self::Begins => "begins",
            Self::Drains => "drains",
            Self::Closes => "closes",
            Self::Restart => "restart",
        }
    }

    /// What becomes of live connections, in one sentence without a full stop, when `process.reload_grace` is `grace`.
    pub fn sentence(self, grace: &str) -> String {
        match self {
            Self::AtOnce => "holds at once; no connection ends".to_owned(),
            Self::NextRequest => {
                "requests under way end as they began; holds from the next request on".to_owned()
            }
            Self::NextConnection => "open connections stay as they are; holds for new ones".to_owned(),
            Self::Rebinds => {
                "new addresses are bound, those that are gone are closed; open connections stay".to_owned()
            }
            Self::Reconnects => {
                "idle connections to servers are opened anew; what runs on others goes on".to_owned()
            }
            Self::Forgets => {
                "learned cookies are forgotten: a client may change servers once; no connection ends"
                    .to_owned()
            }
            Self::Moves => format!(
                "the new address takes requests at once; requests on the old one end by their own limits, tunnels within {grace}"
            ),
            Self::Begins => "takes part at once; no connection ends".to_owned(),
            Self::Drains => {
                format!("gets nobody new; requests on it end by their own limits, tunnels within {grace}")
            }
            Self::Closes => format!(
                "its sockets close; each connection gets one more answer, idle ones and tunnels end within {grace}"
            ),
            Self::Restart => "changes nothing before a restart".to_owned(),
        }
    }
}

/// Keys of `[process]` whose new values do not hold before Weir is started anew. `[log]` and `[recorder]` are so as a whole.
pub const RESTART_KEYS: [&str; 5] = ["workers", "pin_workers", "buffer_size", "buffers_max", "name"];

/// What it means that a part is there now.
pub(super) fn of_new(part: &ConfigPart) -> Effect {
    match part {
        ConfigPart::Listener(_) => Effect::Rebinds,
        ConfigPart::Route(..) => Effect::NextRequest,
        _ => Effect::Begins,
    }
}

/// What it means that a part is gone.
pub(super) fn of_gone(part: &ConfigPart) -> Effect {
    match part {
        ConfigPart::Listener(_) => Effect::Closes,
        ConfigPart::Route(..) => Effect::NextRequest,
        _ => Effect::Drains,
    }
}

/// What it means that a key of a part changes; `learned` says whether cookies were learned before.
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
        | ConfigPart::Metrics => Effect::AtOnce,
        ConfigPart::Listener(_) => of_listener_key(first),
        ConfigPart::Route(..) | ConfigPart::Traces => Effect::NextRequest,
        ConfigPart::Upstream(_) => match first {
            "tls" | "proxy_protocol" => Effect::Reconnects,
            "affinity" if learned => Effect::Forgets,
            "affinity" | "retry" | "timeouts" | "limits" | "lenient" => Effect::NextRequest,
            _ => Effect::AtOnce,
        },
        ConfigPart::Server(..) => match first {
            "address" => Effect::Moves,
            "server_name" => Effect::Reconnects,
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
        | "tls"
        | "proxy_protocol"
        | "protocol" => Effect::NextConnection,
        _ => Effect::NextRequest,
    }
}
