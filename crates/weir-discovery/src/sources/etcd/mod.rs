//! Keys below a prefix of etcd, version 3, by its API as JSON: listed once, then watched from that revision on. After a compaction that has
//! taken the revision away, and after every broken connection, they are listed anew. `keys` has the pure part.

mod keys;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use http::Method;
use serde_json::{Value, json};
use weir_config::{EtcdCluster, SourceUrl};

use self::keys::{KnownKeys, WatchMessage, prefix_end, read_server, servers_of};
use crate::clock;
use crate::last_known::report::Reporter;
use crate::last_known::route_report::{RouteReporter, read_fragment};
use crate::server_set::DiscoveredServer;
use crate::sources::backoff::Backoff;
use crate::sources::source_client::{BODY_BYTES_MAX, Query, RequestProblem, SourceClient};

/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// What the keys below a prefix are for.
trait FollowedKeys {
    /// What a value means.
    type Value;
    const READ: fn(&str, &[u8]) -> Self::Value;
    /// These are all keys now.
    fn said(&self, keys: &BTreeMap<Box<str>, Self::Value>);
    /// There is no answer now.
    fn failed(&self, why: &RequestProblem);
}

struct ServerKeys {
    prefix: Box<str>,
    reporter: Reporter,
}

impl FollowedKeys for ServerKeys {
    type Value = Option<DiscoveredServer>;
    const READ: fn(&str, &[u8]) -> Self::Value = read_server;

    fn said(&self, keys: &BTreeMap<Box<str>, Self::Value>) {
        self.reporter.said(servers_of(&self.prefix, keys));
    }

    fn failed(&self, why: &RequestProblem) {
        self.reporter.failed(why);
    }
}

impl FollowedKeys for RouteReporter {
    type Value = Result<Arc<str>, Box<str>>;
    const READ: fn(&str, &[u8]) -> Self::Value = |_, value| read_fragment(value);

    fn said(&self, keys: &BTreeMap<Box<str>, Self::Value>) {
        self.said(keys.clone());
    }

    fn failed(&self, why: &RequestProblem) {
        self.failed(why);
    }
}

/// Follows the servers below a prefix until the task is dropped.
pub(crate) async fn follow(prefix: Box<str>, cluster: EtcdCluster, reporter: Reporter) {
    follow_keys(&prefix, cluster, &ServerKeys { prefix: prefix.clone(), reporter }).await;
}

/// Follows the fragments below a prefix until the task is dropped.
pub(crate) async fn follow_routes(prefix: Box<str>, cluster: EtcdCluster, reporter: RouteReporter) {
    follow_keys(&prefix, cluster, &reporter).await;
}

async fn follow_keys<U: FollowedKeys>(prefix: &str, cluster: EtcdCluster, reporter: &U) {
    let mut backoff = Backoff::default();
    let mut member = 0;
    loop {
        let url = &cluster.urls[member % cluster.urls.len()];
        let mut session = Session { prefix, cluster: &cluster, url, reporter };
        match session.follow(&mut backoff).await {
            // The revision is compacted: list again, at once.
            Ok(()) => {}
            Err(problem) => {
                member += 1;
                // One of several members that is down is no outage, and the next is asked at once; all of them are.
                if member % cluster.urls.len() == 0 {
                    reporter.failed(&problem);
                    tokio::time::sleep(backoff.next_wait(clock::random())).await;
                } else {
                    tracing::debug!(%problem, "the next member of etcd is asked");
                }
            }
        }
    }
}

/// One member that is asked.
struct Session<'a, U> {
    prefix: &'a str,
    cluster: &'a EtcdCluster,
    url: &'a SourceUrl,
    reporter: &'a U,
}

impl<U: FollowedKeys> Session<'_, U> {
    /// Lists the keys, then watches them. Ends without an error when they have to be listed anew.
    async fn follow(&mut self, backoff: &mut Backoff) -> Result<(), RequestProblem> {
        let begin = if self.cluster.urls.len() > 1 { SourceClient::of_several } else { SourceClient::new };
        let mut client = begin(self.url.clone(), self.cluster.tls.as_ref());
        let token = self.token(&mut client).await?;
        let range = json!({ "key": self.first(), "range_end": self.end() });
        let answer = self.ask(&mut client, "/v3/kv/range", &range, token.as_deref()).await?;
        let (mut keys, revision) = KnownKeys::of_range(U::READ, &answer).map_err(|why| self.refused(&why))?;
        backoff.reset();
        self.reporter.said(keys.values());

        let create = json!({ "create_request": {
            "key": self.first(), "range_end": self.end(), "start_revision": (revision + 1).to_string(),
        }});
        let body = create.to_string();
        let field = token.as_deref().map(|token| ("Authorization", token));
        let query = Query { method: Method::POST, target: "/v3/watch", field, body: &body };
        let mut stream = client.send(query, ANSWER_TIME).await?;
        if stream.status() != 200 {
            return Err(self.refused(&format!("it answered a watch with {}", stream.status())));
        }
        let mut received = Vec::new();
        while stream.read(&mut received).await? {
            while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = received.drain(..=end).collect();
                match keys.watched(&line).map_err(|why| self.refused(&why))? {
                    WatchMessage::Nothing => {}
                    WatchMessage::Changed => self.reporter.said(keys.values()),
                    WatchMessage::Compacted => return Ok(()),
                }
            }
            if received.len() > BODY_BYTES_MAX {
                return Err(self.refused("it sent a line without an end"));
            }
        }
        Err(self.refused("it ended the watch"))
    }

    async fn token(&self, client: &mut SourceClient) -> Result<Option<String>, RequestProblem> {
        let Some((user, password)) = &self.cluster.login else { return Ok(None) };
        let login = json!({ "name": user, "password": password.0 });
        let answer = self.ask(client, "/v3/auth/authenticate", &login, None).await?;
        let token = answer.get("token").and_then(Value::as_str).map(str::to_owned);
        token.map(Some).ok_or_else(|| self.refused("it answered a login without a token"))
    }

    async fn ask(
        &self,
        client: &mut SourceClient,
        target: &str,
        question: &Value,
        token: Option<&str>,
    ) -> Result<Value, RequestProblem> {
        let body = question.to_string();
        let field = token.map(|token| ("Authorization", token));
        let query = Query { method: Method::POST, target, field, body: &body };
        let response = client.send(query, ANSWER_TIME).await?.whole(ANSWER_TIME).await?;
        let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        let status = response.status().as_u16();
        if status == 200 {
            return Ok(answer);
        }
        let message =
            ["message", "error"].iter().find_map(|key| answer.get(*key)?.as_str()).unwrap_or("no reason");
        Err(self.refused(&format!("{target} was answered {status} ({message})")))
    }

    fn refused(&self, why: &str) -> RequestProblem {
        RequestProblem::Refused(format!("{}: {why}", self.url))
    }

    fn first(&self) -> String {
        BASE64.encode(self.prefix.as_bytes())
    }

    fn end(&self) -> String {
        BASE64.encode(&prefix_end(self.prefix.as_bytes()))
    }
}
