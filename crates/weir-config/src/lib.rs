//! From `weir.toml` to a [`Config`] that holds no contradiction: the text is read with its positions, every mistake in it
//! is reported at once, and what comes out needs no further check.
//!
//! Nothing here opens a socket or starts a thread; files are read only by [`Config::load`].

#![forbid(unsafe_code)]

mod value;
mod config;

pub use config::{
    AccessLog, AccessLogFormat, AccessLogOutput, Action, Config, ConnectionLimit, Dns, Fixed, ForwardHost,
    Forwarded, HeaderChanges, IdleConnections, Leniency, Listener, ListenerLimits, ListenerTimeouts, Log,
    LogFormat, LogLevel, Process, Queue, Redirect, RedirectPart, RequestId, Route, RouteTimeouts, Server,
    Split, Trust, TrustedProxies, Upstream, UpstreamIndex, UpstreamLimits, UpstreamTimeouts, WorkerCount,
};
pub use value::{ListenAddress, Progress, Rate, ServerAddress, Size};
