//! A client connection as JSON: its present activity, and the record of its exchange so far.

use std::time::Duration;

use serde_json::{Value, json};

use super::{ReportWriter, millis, rfc3339};
use crate::workers::connections::shown;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::connections::connection_list::ConnectionInfo;

impl ReportWriter {
    /// A connection as lists show it.
    pub(crate) fn connection(&self, running: &ConnectionInfo) -> Value {
        let exchange = running.recorded.as_deref().map(|recorded| {
            let entry = &recorded.entry;
            let mut fields = self.outline(running.id.worker, entry);
            fields.insert("id".into(), text_or_null(entry.words.id()));
            fields.insert("bytes_in".into(), entry.bytes_in.into());
            fields.insert("bytes_out".into(), entry.bytes_out.into());
            // These belong to an exchange that is over.
            for key in ["number", "link", "failure"] {
                fields.remove(key);
            }
            Value::Object(fields)
        });
        json!({
            "id": running.id.to_string(),
            "link": format!("/api/connections/{}", running.id),
            "listener": &*running.listener,
            "protocol": running.protocol.name(),
            "client": shown(running.peer),
            "peer": shown(running.sender.unwrap_or(running.peer)),
            "tls": running.transport.is_encrypted(),
            "transport": running.transport.name(),
            "opened": rfc3339(running.opened_at),
            "age_ms": millis(age(running.opened_at)),
            "requests": running.requests,
            "state": running.state(),
            "state_ms": millis(age(running.since)),
            "waits_for": running.activity.awaited(),
            "exchange": exchange,
        })
    }

    /// The exchange that a connection carries, so far.
    pub(crate) fn exchange_so_far(&self, running: &ConnectionInfo) -> Value {
        let id = running.id.to_string();
        let mut fields = match &running.recorded {
            Some(recorded) => self.record(running.id.worker, recorded),
            None => json!({
                "id": id,
                "time": rfc3339(running.opened_at),
                "kind": "idle",
                "listener": &*running.listener,
                "client": shown(running.peer),
                "peer": shown(running.sender.unwrap_or(running.peer)),
                "tls": running.transport.is_encrypted(),
                "transport": running.transport.name(),
                "total_ms": millis(age(running.opened_at)),
                "requests": running.requests,
            }),
        };
        if running.recorded.as_ref().is_some_and(|recorded| recorded.entry.words.id().is_empty()) {
            fields["id"] = id.clone().into();
        }
        fields["number"] = id.clone().into();
        fields["link"] = format!("/api/connections/{id}").into();
        fields["ended"] = Value::Null;
        fields["running"] = json!({
            "connection": id,
            "state": running.state(),
            "state_ms": millis(age(running.since)),
            "waits_for": running.activity.awaited(),
        });
        fields
    }
}

fn age(since: Instant) -> Duration {
    clock::now().saturating_duration_since(since)
}

fn text_or_null(bytes: &[u8]) -> Value {
    if bytes.is_empty() { Value::Null } else { String::from_utf8_lossy(bytes).into() }
}
