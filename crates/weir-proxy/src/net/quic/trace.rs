//! What happens to one connection of QUIC, written as qlog (draft-ietf-quic-qlog-main-schema, JSON text sequences) while an operator wants that.
//!
//! Written from what a turn of the connection has changed: the packets of a turn are counted, not listed. Bounded in bytes; the owner bounds the time.
//! Must cost nothing where no operator has asked for it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use quinn_proto::{Connection, ConnectionError, ConnectionStats, FrameStats};
use tokio::sync::oneshot;

use crate::net::clock::{self, Instant};

/// The most that is written.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// The byte in front of each record (RFC 7464).
const RECORD: u8 = 0x1e;

/// One connection that is watched. What was written is given to who asked, when it is dropped at the latest.
pub(super) struct QuicTrace {
    text: Vec<u8>,
    done: Option<oneshot::Sender<Vec<u8>>>,
    began: Instant,
    /// When it ends at the latest.
    pub(super) until: Instant,
    /// The time of day then.
    began_at: Duration,
    stats: ConnectionStats,
    remote: SocketAddr,
    /// Streams that are open, and whether the head of their request is whole.
    streams: BTreeMap<u64, bool>,
    /// Whether its end was written.
    is_over: bool,
}

/// One stream of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TracedStream {
    pub(crate) id: u64,
    /// Whether the head of its request is whole.
    pub(crate) has_head: bool,
}

/// How the connection has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TracedEnd<'a> {
    /// QUIC says so.
    Lost(&'a ConnectionError),
    /// Weir has closed it with a code of HTTP/3, for a reason if the client is at fault.
    Closed(u64, Option<&'a str>),
}

impl QuicTrace {
    /// Begins in the middle of a connection.
    pub(super) fn begin(
        connection: &Connection,
        name: &str,
        local: SocketAddr,
        (length, done): (Duration, oneshot::Sender<Vec<u8>>),
    ) -> Self {
        let began = clock::now();
        let mut trace = Self {
            text: Vec::new(),
            done: Some(done),
            began,
            until: began + length,
            began_at: clock::unix_now(),
            stats: connection.stats(),
            remote: connection.remote_address(),
            streams: BTreeMap::new(),
            is_over: false,
        };
        trace.record(format_args!(
            "{{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"application/qlog+json-seq\",\
             \"title\":\"weir {name}\",\"trace\":{{\"vantage_point\":{{\"type\":\"server\"}},\
             \"event_schemas\":[\"urn:ietf:params:qlog:events:quic-12\",\"urn:ietf:params:qlog:events:http3-12\",\"tag:weir,2026:qlog\"],\
             \"common_fields\":{{\"time_format\":\"relative_to_epoch\",\"reference_time\":{{\"clock_type\":\"system\",\"epoch\":\"1970-01-01T00:00:00.000Z\"}}}}}}}}"
        ));
        let (remote, stats) = (trace.remote, trace.stats);
        trace.event(
            trace.began,
            "weir:connection_found",
            format_args!(
                "\"connection\":\"{name}\",\"local\":\"{local}\",\"remote\":\"{remote}\",\"mtu\":{}",
                stats.path.current_mtu
            ),
        );
        trace.metrics(trace.began, &stats);
        trace
    }

    /// Writes what has changed since the last turn. Whether more is wanted.
    pub(super) fn turn(
        &mut self,
        connection: &Connection,
        now: Instant,
        streams: impl Iterator<Item = TracedStream>,
    ) -> bool {
        if self.done.as_ref().is_none_or(oneshot::Sender::is_closed) {
            return false;
        }
        self.streams(now, streams);
        let before = std::mem::replace(&mut self.stats, connection.stats());
        let stats = self.stats;
        self.datagrams(now, &before, &stats);
        let (path, path_before) = (&stats.path, &before.path);
        if (path.rtt, path.min_rtt, path.cwnd) != (path_before.rtt, path_before.min_rtt, path_before.cwnd) {
            self.metrics(now, &stats);
        }
        let lost = path.lost_packets.saturating_sub(path_before.lost_packets);
        let events = path.congestion_events.saturating_sub(path_before.congestion_events);
        if lost + events > 0 {
            let bytes = path.lost_bytes.saturating_sub(path_before.lost_bytes);
            let lost = format_args!("\"packets\":{lost},\"bytes\":{bytes},\"congestion_events\":{events}");
            self.event(now, "weir:packets_lost", lost);
        }
        let (mtu, mtu_before) = (path.current_mtu, path_before.current_mtu);
        if mtu != mtu_before {
            self.event(now, "quic:mtu_updated", format_args!("\"old\":{mtu_before},\"new\":{mtu}"));
        }
        let remote = connection.remote_address();
        if std::mem::replace(&mut self.remote, remote) != remote {
            self.event(now, "weir:client_moved", format_args!("\"remote\":\"{remote}\""));
        }
        if self.text.len() < TEXT_BYTES_MAX {
            return true;
        }
        self.event(now, "weir:trace_full", format_args!(""));
        false
    }

    /// Writes that the connection is over.
    pub(super) fn end(&mut self, end: TracedEnd<'_>) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let name = "quic:connection_closed";
        let now = clock::now();
        match end {
            TracedEnd::Closed(code, reason) => {
                let trigger = if reason.is_some() { "error" } else { "application" };
                let reason = reason.unwrap_or_default();
                self.event(now, name, format_args!("\"initiator\":\"local\",\"application_error\":\"unknown\",\"error_code\":{code},\"reason\":\"{reason}\",\"trigger\":\"{trigger}\""));
            }
            TracedEnd::Lost(error) => {
                let (initiator, trigger, code) = match error {
                    ConnectionError::TimedOut => ("local", "idle_timeout", None),
                    ConnectionError::Reset => ("remote", "stateless_reset", None),
                    ConnectionError::ApplicationClosed(close) => {
                        ("remote", "application", Some(close.error_code.into_inner()))
                    }
                    ConnectionError::ConnectionClosed(close) => {
                        ("remote", "error", Some(close.error_code.into()))
                    }
                    ConnectionError::TransportError(error) => ("local", "error", Some(error.code.into())),
                    ConnectionError::LocallyClosed => ("local", "application", None),
                    ConnectionError::VersionMismatch | ConnectionError::CidsExhausted => {
                        ("local", "aborted", None)
                    }
                };
                let code = code.map(|code| format!(",\"error_code\":{code}")).unwrap_or_default();
                self.event(
                    now,
                    name,
                    format_args!("\"initiator\":\"{initiator}\",\"trigger\":\"{trigger}\"{code}"),
                );
            }
        }
    }

    fn streams(&mut self, now: Instant, streams: impl Iterator<Item = TracedStream>) {
        let open: BTreeMap<u64, bool> = streams.map(|stream| (stream.id, stream.has_head)).collect();
        let before = std::mem::replace(&mut self.streams, open.clone());
        for id in before.keys().filter(|id| !open.contains_key(id)) {
            self.event(
                now,
                "quic:stream_state_updated",
                format_args!("\"stream_id\":{id},\"new\":\"closed\""),
            );
        }
        for (id, has_head) in open {
            let known = before.get(&id).copied();
            if known.is_none() {
                self.event(
                    now,
                    "quic:stream_state_updated",
                    format_args!("\"stream_id\":{id},\"stream_type\":\"bidirectional\",\"new\":\"open\""),
                );
            }
            if has_head && known != Some(true) {
                self.event(
                    now,
                    "http3:frame_parsed",
                    format_args!("\"stream_id\":{id},\"frame\":{{\"frame_type\":\"headers\"}}"),
                );
            }
        }
    }

    /// Datagrams of a turn, and the frames in them.
    fn datagrams(&mut self, now: Instant, before: &ConnectionStats, stats: &ConnectionStats) {
        for (name, udp, frames) in [
            (
                "quic:udp_datagrams_received",
                (&before.udp_rx, &stats.udp_rx),
                (&before.frame_rx, &stats.frame_rx),
            ),
            ("quic:udp_datagrams_sent", (&before.udp_tx, &stats.udp_tx), (&before.frame_tx, &stats.frame_tx)),
        ] {
            let count = udp.1.datagrams.saturating_sub(udp.0.datagrams);
            if count == 0 {
                continue;
            }
            let bytes = udp.1.bytes.saturating_sub(udp.0.bytes);
            let mut text = Vec::new();
            let (before, now_there) = (counts(frames.0), counts(frames.1));
            for ((kind, before), (_, count)) in
                before.into_iter().zip(now_there).filter(|(was, is)| is.1 > was.1)
            {
                let comma = if text.is_empty() { "" } else { "," };
                let _room = write!(text, "{comma}\"{kind}\":{}", count - before);
            }
            let frames = String::from_utf8_lossy(&text);
            self.event(
                now,
                name,
                format_args!("\"count\":{count},\"weir_bytes\":{bytes},\"weir_frames\":{{{frames}}}"),
            );
        }
    }

    fn metrics(&mut self, now: Instant, stats: &ConnectionStats) {
        let path = &stats.path;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        self.event(
            now,
            "quic:recovery_metrics_updated",
            format_args!(
                "\"smoothed_rtt\":{:.3},\"min_rtt\":{:.3},\"congestion_window\":{}",
                millis(path.rtt),
                millis(path.min_rtt),
                path.cwnd
            ),
        );
    }

    fn event(&mut self, now: Instant, name: &str, data: impl Display) {
        let time = self.began_at + now.saturating_duration_since(self.began);
        let time = time.as_secs_f64() * 1e3;
        self.record(format_args!("{{\"time\":{time:.3},\"name\":\"{name}\",\"data\":{{{data}}}}}"));
    }

    fn record(&mut self, record: impl Display) {
        self.text.push(RECORD);
        // A Vec takes every write.
        let _written = writeln!(self.text, "{record}");
    }
}

impl Drop for QuicTrace {
    fn drop(&mut self) {
        if let Some(done) = self.done.take() {
            let _not_awaited = done.send(std::mem::take(&mut self.text));
        }
    }
}

/// Frames by their names in qlog.
fn counts(frames: &FrameStats) -> [(&'static str, u64); 19] {
    [
        ("ack", frames.acks),
        ("connection_close", frames.connection_close),
        ("crypto", frames.crypto),
        ("data_blocked", frames.data_blocked),
        ("handshake_done", frames.handshake_done.into()),
        ("max_data", frames.max_data),
        ("max_stream_data", frames.max_stream_data),
        ("max_streams", frames.max_streams_bidi + frames.max_streams_uni),
        ("new_connection_id", frames.new_connection_id),
        ("new_token", frames.new_token),
        ("path_challenge", frames.path_challenge),
        ("path_response", frames.path_response),
        ("ping", frames.ping),
        ("reset_stream", frames.reset_stream),
        ("retire_connection_id", frames.retire_connection_id),
        ("stop_sending", frames.stop_sending),
        ("stream", frames.stream),
        ("stream_data_blocked", frames.stream_data_blocked),
        ("streams_blocked", frames.streams_blocked_bidi + frames.streams_blocked_uni),
    ]
}
