//! Keys of etcd to servers, in the layout of its package `naming/endpoints`: `PREFIX/KEY` is `{"Op": 0, "Addr": "host:port", "Metadata": ...}`.
//! Pure.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde_json::{Map, Value};
use weir_config::ServerAddress;

use crate::server_set::{DiscoveredServer, ServerReadiness};

/// The first key behind all that begin with a prefix.
pub(super) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // As etcd wants it: all keys from the first on.
    vec![0]
}

/// What a line of a watch means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchMessage {
    Nothing,
    Changed,
    /// The revision is gone: list again.
    Compacted,
}

/// The keys with what their values mean.
#[derive(Debug)]
pub(super) struct KnownKeys<V> {
    read: fn(&str, &[u8]) -> V,
    keys: BTreeMap<Box<str>, V>,
}

impl<V> KnownKeys<V> {
    /// Those of a list, and its revision.
    pub(super) fn of_range(read: fn(&str, &[u8]) -> V, answer: &Value) -> Result<(Self, i64), String> {
        let revision = answer.get("header").and_then(|header| number(header.get("revision")?));
        let revision = revision.ok_or("it answered without a revision")?;
        let mut known = Self { read, keys: BTreeMap::new() };
        for entry in list(answer, "kvs") {
            known.put(entry)?;
        }
        Ok((known, revision))
    }

    /// Takes in a line of a watch.
    pub(super) fn watched(&mut self, line: &[u8]) -> Result<WatchMessage, String> {
        let message: Value = serde_json::from_slice(line)
            .map_err(|error| format!("it sent something that is no JSON: {error}"))?;
        if let Some(error) = message.get("error") {
            let text = error.get("message").and_then(Value::as_str).unwrap_or("no reason");
            return Err(format!("it ended the watch: {text}"));
        }
        let Some(result) = message.get("result") else { return Ok(WatchMessage::Nothing) };
        if number(result.get("compact_revision").unwrap_or(&Value::Null)).is_some_and(|revision| revision > 0)
        {
            return Ok(WatchMessage::Compacted);
        }
        if result.get("canceled").and_then(Value::as_bool) == Some(true) {
            let why = result.get("cancel_reason").and_then(Value::as_str).unwrap_or("no reason");
            return Err(format!("it cancelled the watch: {why}"));
        }
        let events = list(result, "events");
        for event in events {
            let entry = event.get("kv").ok_or("it sent an event without a key")?;
            // A put is the default of its type, which JSON leaves out.
            match event.get("type").and_then(Value::as_str) {
                Some("DELETE") => {
                    self.keys.remove(&key_of(entry)?);
                }
                _ => self.put(entry)?,
            }
        }
        Ok(if events.is_empty() { WatchMessage::Nothing } else { WatchMessage::Changed })
    }

    fn put(&mut self, entry: &Value) -> Result<(), String> {
        let key = key_of(entry)?;
        let value = decoded(entry.get("value").unwrap_or(&Value::Null))?;
        let value = (self.read)(&key, &value);
        self.keys.insert(key, value);
        Ok(())
    }

    /// The keys with their values.
    pub(super) fn values(&self) -> &BTreeMap<Box<str>, V> {
        &self.keys
    }
}

/// The server of a key; `None`: it says that there is none, or cannot be used.
pub(super) fn read_server(key: &str, value: &[u8]) -> Option<DiscoveredServer> {
    let server = server_of(value);
    // A key belongs to one server, which wrote it: the others must not suffer.
    if let Err(why) = &server {
        tracing::warn!(key, why, "a key in etcd is left out");
    }
    server.ok().flatten()
}

/// All servers below a prefix.
pub(super) fn servers_of(
    prefix: &str,
    keys: &BTreeMap<Box<str>, Option<DiscoveredServer>>,
) -> Vec<DiscoveredServer> {
    let named = keys.iter().filter_map(|(key, server)| {
        let mut server = server.clone()?;
        let name = key.strip_prefix(prefix).unwrap_or(key);
        server.metadata.insert("etcd.key".into(), name.into());
        Some(server)
    });
    named.collect()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A number, which JSON of 64 bits has as text.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn decoded(value: &Value) -> Result<Vec<u8>, String> {
    let text = value.as_str().unwrap_or_default();
    BASE64.decode(text.as_bytes()).map_err(|error| format!("it sent something that is no base64: {error}"))
}

fn key_of(entry: &Value) -> Result<Box<str>, String> {
    let key = decoded(entry.get("key").unwrap_or(&Value::Null))?;
    Ok(String::from_utf8_lossy(&key).into())
}

/// The server of a value; `None`: it says that there is none.
fn server_of(value: &[u8]) -> Result<Option<DiscoveredServer>, String> {
    let value: Value = serde_json::from_slice(value).map_err(|error| format!("it is no JSON: {error}"))?;
    if value.get("Op").and_then(Value::as_i64).unwrap_or(0) != 0 {
        return Ok(None);
    }
    let address = value.get("Addr").and_then(Value::as_str).ok_or("it has no `Addr`")?;
    let address: ServerAddress = address.parse().map_err(|error: weir_config::ValueError| error.message)?;
    let mut server = DiscoveredServer::new(address);
    match value.get("Metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => describe(&mut server, metadata)?,
        Some(other) => {
            server.metadata.insert("metadata".into(), plain(other));
        }
    }
    Ok(Some(server))
}

/// Takes over the keys that have a meaning; all others are metadata.
fn describe(server: &mut DiscoveredServer, metadata: &Map<String, Value>) -> Result<(), String> {
    for (key, value) in metadata {
        let flag = || value.as_bool().ok_or(format!("`{key}` is neither `true` nor `false`"));
        match key.as_str() {
            "weight" => {
                let weight = number(value).and_then(|weight| u16::try_from(weight).ok());
                let weight = weight.filter(|weight| *weight <= 256);
                server.weight = weight.ok_or("`weight` is not a number from 0 to 256")?;
            }
            "backup" => server.backup = flag()?,
            "draining" if flag()? => server.readiness = ServerReadiness::Draining,
            "draining" => {}
            "zone" => server.zone = Some(plain(value)),
            _ => {
                server.metadata.insert(key.as_str().into(), plain(value));
            }
        }
    }
    Ok(())
}

fn plain(value: &Value) -> Box<str> {
    value.as_str().map_or_else(|| value.to_string().into(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, value: &str) -> Value {
        serde_json::json!({ "key": BASE64.encode(key.as_bytes()), "value": BASE64.encode(value.as_bytes()) })
    }

    fn known(entries: &[Value]) -> KnownKeys<Option<DiscoveredServer>> {
        let answer = serde_json::json!({ "header": { "revision": "41" }, "kvs": entries });
        let (known, revision) = KnownKeys::of_range(read_server, &answer).unwrap();
        assert_eq!(revision, 41);
        known
    }

    fn addresses(known: &KnownKeys<Option<DiscoveredServer>>) -> Vec<String> {
        servers_of("/app/", known.values()).iter().map(|server| server.address.to_string()).collect()
    }

    #[test]
    fn ranges_end_behind_the_prefix() {
        assert_eq!(prefix_end(b"/app/"), b"/app0");
        assert_eq!(prefix_end(b"a\xff"), b"b");
        assert_eq!(prefix_end(b"\xff"), [0]);
    }

    #[test]
    fn values_are_servers() {
        let known = known(&[
            entry(
                "/app/a",
                r#"{"Op":0,"Addr":"10.0.0.1:80","Metadata":{"weight":5,"zone":"z","backup":true,"v":2}}"#,
            ),
            entry("/app/b", r#"{"Addr":"10.0.0.2:80","Metadata":"blue"}"#),
            entry("/app/c", r#"{"Op":1,"Addr":"10.0.0.3:80"}"#),
            entry("/app/d", r#"{"Addr":"10.0.0.4"}"#),
            entry("/app/e", "10.0.0.5:80"),
            entry("/app/f", r#"{"Addr":"10.0.0.6:80","Metadata":{"draining":true}}"#),
        ]);
        let servers = servers_of("/app/", known.values());
        assert_eq!(addresses(&known), ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.6:80"]);
        assert_eq!((servers[0].weight, servers[0].backup, servers[0].zone.as_deref()), (5, true, Some("z")));
        assert_eq!((&*servers[0].metadata["v"], &*servers[0].metadata["etcd.key"]), ("2", "a"));
        assert_eq!(&*servers[1].metadata["metadata"], "blue");
        assert_eq!(servers[2].readiness, ServerReadiness::Draining);
    }

    #[test]
    fn a_watch_changes_what_is_known() {
        let mut known = known(&[entry("/app/a", r#"{"Addr":"10.0.0.1:80"}"#)]);
        let mut watch = |message: Value| {
            let outcome = known.watched(message.to_string().as_bytes());
            (outcome, addresses(&known))
        };
        let created = serde_json::json!({"result": {"header": {}, "created": true}});
        assert_eq!(watch(created), (Ok(WatchMessage::Nothing), vec!["10.0.0.1:80".to_owned()]));
        let put =
            serde_json::json!({"result": {"events": [{"kv": entry("/app/b", r#"{"Addr":"10.0.0.2:80"}"#)}]}});
        assert_eq!(watch(put).1, ["10.0.0.1:80", "10.0.0.2:80"]);
        let gone = serde_json::json!({"result": {"events": [{"type": "DELETE", "kv": entry("/app/a", "")}]}});
        assert_eq!(watch(gone), (Ok(WatchMessage::Changed), vec!["10.0.0.2:80".to_owned()]));
        let compacted = serde_json::json!({"result": {"canceled": true, "compact_revision": "99"}});
        assert_eq!(watch(compacted).0, Ok(WatchMessage::Compacted));
        let cancelled = serde_json::json!({"result": {"canceled": true, "cancel_reason": "denied"}});
        assert_eq!(watch(cancelled).0.unwrap_err(), "it cancelled the watch: denied");
        assert!(watch(serde_json::json!({"error": {"message": "down"}})).0.is_err());
    }
}
