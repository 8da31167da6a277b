//! A server that speaks like Consul, with answers that are scripted: blocking queries, an index that goes backwards, a refused token.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use weir_config::{ConsulService, ServerSource, SourceSecret, SourceUrl};

use super::{FollowedSource, PATIENCE, addresses};

/// A request, and the way to answer it.
pub(crate) struct Asked {
    pub(crate) head: String,
    answer: oneshot::Sender<String>,
}

impl Asked {
    pub(crate) fn answer(self, index: u64, ports: &[u16]) {
        let instances: Vec<String> = ports.iter().map(|port| {
            format!(r#"{{"Node": {{"Node": "n", "Address": "127.0.0.1"}}, "Service": {{"ID": "app-{port}", "Address": "", "Port": {port}}}, "Checks": []}}"#)
        }).collect();
        self.respond(
            "200 OK",
            &format!("X-Consul-Index: {index}\r\n"),
            &format!("[{}]", instances.join(",")),
        );
    }

    pub(crate) fn respond(self, status: &str, fields: &str, body: &str) {
        let text = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
        let _gone = self.answer.send(text);
    }
}

pub(crate) fn service() -> ConsulService {
    let mut service = ConsulService::new("app");
    service.tags = vec!["v2".into()];
    service
}

/// The address of the agent, and what it is asked.
pub(crate) async fn agent() -> (u16, UnboundedReceiver<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, requests) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, asked.clone()));
        }
    });
    (port, requests)
}

/// Answers on one connection as the script wants it.
pub(crate) async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, asked: UnboundedSender<Asked>) {
    let mut received = Vec::new();
    loop {
        while !received.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut received).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let head = String::from_utf8(std::mem::take(&mut received)).unwrap();
        let (answer, answered) = oneshot::channel();
        let _test_ended = asked.send(Asked { head, answer });
        let Ok(text) = answered.await else { return };
        if stream.write_all(text.as_bytes()).await.is_err() {
            return;
        }
    }
}

pub(crate) async fn next(requests: &mut UnboundedReceiver<Asked>) -> Asked {
    tokio::time::timeout(PATIENCE, requests.recv()).await.expect("it is asked").unwrap()
}

#[tokio::test]
async fn changes_are_waited_for_and_a_new_index_begins_anew() {
    let (port, mut requests) = agent().await;
    let mut service = service();
    (service.datacenter, service.nearest) = (Some("dc1".into()), Some(1));
    let mut followed = FollowedSource::start(ServerSource::Consul(service), |config| {
        config.settings.consul.url = SourceUrl::new(false, format!("127.0.0.1:{port}"));
        config.settings.consul.token = Some(SourceSecret("hush".into()));
    });
    let first = next(&mut requests).await;
    assert!(
        first.head.starts_with("GET /v1/health/service/app?dc=dc1&tag=v2&near=_agent HTTP/1.1\r\n"),
        "{}",
        first.head
    );
    assert!(first.head.contains("X-Consul-Token: hush\r\n"));
    first.answer(41, &[1]);
    followed.until_servers(&["127.0.0.1:1"]).await;

    let second = next(&mut requests).await;
    assert!(second.head.contains("index=41&wait=60s&"), "{}", second.head);
    second.answer(42, &[1, 2]);
    let set = followed.until_servers(&["127.0.0.1:1", "127.0.0.1:2"]).await;
    assert_eq!(set.servers.iter().map(|server| server.backup).collect::<Vec<_>>(), [false, true]);

    // The registry began anew.
    let third = next(&mut requests).await;
    assert!(third.head.contains("index=42"), "{}", third.head);
    third.answer(7, &[3]);
    followed.until_servers(&["127.0.0.1:3"]).await;
    let fourth = next(&mut requests).await;
    assert!(!fourth.head.contains("index="), "{}", fourth.head);

    fourth.respond("403 Forbidden", "", "ACL not found");
    let set = followed.until_problem("answered 403 (ACL not found); the token needs").await;
    assert_eq!((addresses(&set), set.origin.is_stale), (vec!["127.0.0.1:3".to_owned()], true));
    assert!(!format!("{set:?}").contains("hush"));

    // A connection that dies is replaced.
    drop(next(&mut requests).await);
    let mut again = next(&mut requests).await;
    while again.head.contains("index=") {
        drop(again);
        again = next(&mut requests).await;
    }
    again.answer(8, &[4]);
    followed.until_servers(&["127.0.0.1:4"]).await;
    followed.stop().await;
}

/// The agent of a real Consul, which ends with the test.
pub(crate) struct RealConsul {
    process: std::process::Child,
    pub(crate) port: u16,
}

impl Drop for RealConsul {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl RealConsul {
    pub(crate) fn start() -> Self {
        Self::start_at(free_port())
    }

    /// One without contents; the port is that of an earlier one, or free.
    fn start_at(port: u16) -> Self {
        let mut command = std::process::Command::new("consul");
        command.args([
            "agent",
            "-dev",
            "-bind=127.0.0.1",
            "-dns-port=-1",
            "-grpc-port=-1",
            "-serf-wan-port=-1",
        ]);
        command.arg(format!("-http-port={port}")).arg(format!("-serf-lan-port={}", free_port()));
        command.arg(format!("-server-port={}", free_port()));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        Self { process: command.spawn().expect("Consul is built: `cargo xtask consul`"), port }
    }

    pub(crate) async fn put(&self, target: &str, body: &str) -> Option<()> {
        self.ask("PUT", target, body).await
    }

    pub(crate) async fn ask(&self, method: &str, target: &str, body: &str) -> Option<()> {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let len = body.len();
        let text = format!("{method} {target} HTTP/1.0\r\nContent-Length: {len}\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        answer.contains(" 200 ").then_some(())
    }

    async fn register(&self, number: u16, status: &str) {
        let body = format!(
            r#"{{"ID": "app-{number}", "Name": "app", "Address": "10.0.0.{number}", "Port": 80, "Tags": ["v2"],
                "Weights": {{"Passing": 10, "Warning": 1}}, "Check": {{"CheckID": "check-{number}", "TTL": "1h", "Status": "{status}"}}}}"#
        );
        let registered = async {
            while self.put("/v1/agent/service/register", &body).await.is_none() {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, registered).await.expect("it takes the service");
    }
}

#[tokio::test]
#[ignore = "the real Consul takes minutes to build: `cargo xtask consul`"]
async fn the_real_consul_is_followed() {
    let consul = RealConsul::start();
    let port = consul.port;
    consul.register(1, "passing").await;
    consul.register(2, "critical").await;
    let service = service();
    let mut followed = FollowedSource::start(ServerSource::Consul(service), |config| {
        config.settings.consul.url = SourceUrl::new(false, format!("127.0.0.1:{port}"));
    });
    followed.until_servers(&["10.0.0.1:80"]).await;
    consul.put("/v1/agent/check/warn/check-2", "").await.expect("it takes the state");
    let set = followed.until_servers(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    let weights: Vec<u16> = set.servers.iter().map(|server| server.weight).collect();
    assert_eq!(weights, [10, 1]);
    consul.put("/v1/agent/service/deregister/app-1", "").await.expect("it takes the change");
    followed.until_servers(&["10.0.0.2:80"]).await;
    drop(consul);
    let set = followed.until("that is stale", |set| set.origin.is_stale).await;
    assert_eq!(addresses(&set), ["10.0.0.2:80"]);

    // It has forgotten everything, and its index begins anew.
    let consul = RealConsul::start_at(port);
    let set = followed.until_problem("it names no server any more").await;
    assert_eq!((addresses(&set), set.origin.is_stale), (vec!["10.0.0.2:80".to_owned()], false));
    consul.register(3, "passing").await;
    followed.until_servers(&["10.0.0.3:80"]).await;
    followed.stop().await;
}
