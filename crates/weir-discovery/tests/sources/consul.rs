//! A server that speaks like Consul, with answers that are scripted: blocking queries, an index that goes backwards, a refused token.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use weir_config::{ConsulService, ServerSource, SourceSecret, SourceUrl};

use super::{Desk, PATIENCE, addresses};

/// A request, and the way to answer it.
struct Asked {
    head: String,
    answer: oneshot::Sender<String>,
}

impl Asked {
    fn answer(self, index: u64, ports: &[u16]) {
        let instances: Vec<String> = ports.iter().map(|port| {
            format!(r#"{{"Node": {{"Node": "n", "Address": "127.0.0.1"}}, "Service": {{"ID": "app-{port}", "Address": "", "Port": {port}}}, "Checks": []}}"#)
        }).collect();
        self.respond(
            "200 OK",
            &format!("X-Consul-Index: {index}\r\n"),
            &format!("[{}]", instances.join(",")),
        );
    }

    fn respond(self, status: &str, fields: &str, body: &str) {
        let text = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
        let _gone = self.answer.send(text);
    }
}

/// The address of the agent, and what it is asked.
async fn agent() -> (u16, UnboundedReceiver<Asked>) {
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

async fn serve(mut stream: tokio::net::TcpStream, asked: UnboundedSender<Asked>) {
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

async fn next(requests: &mut UnboundedReceiver<Asked>) -> Asked {
    tokio::time::timeout(PATIENCE, requests.recv()).await.expect("it is asked").unwrap()
}

#[tokio::test]
async fn changes_are_waited_for_and_a_new_index_begins_anew() {
    let (port, mut requests) = agent().await;
    let service =
        ConsulService { name: "app".into(), tags: vec!["v2".into()], datacenter: Some("dc1".into()) };
    let mut desk = Desk::start(ServerSource::Consul(service), |config| {
        config.settings.consul.url =
            SourceUrl { is_tls: false, authority: format!("127.0.0.1:{port}").into() };
        config.settings.consul.token = Some(SourceSecret("hush".into()));
    });
    let first = next(&mut requests).await;
    assert!(
        first.head.starts_with("GET /v1/health/service/app?dc=dc1&tag=v2 HTTP/1.1\r\n"),
        "{}",
        first.head
    );
    assert!(first.head.contains("X-Consul-Token: hush\r\n"));
    first.answer(41, &[1]);
    desk.until_servers(&["127.0.0.1:1"]).await;

    let second = next(&mut requests).await;
    assert!(second.head.contains("index=41&wait=60s&"), "{}", second.head);
    second.answer(42, &[1, 2]);
    desk.until_servers(&["127.0.0.1:1", "127.0.0.1:2"]).await;

    // The registry began anew.
    let third = next(&mut requests).await;
    assert!(third.head.contains("index=42"), "{}", third.head);
    third.answer(7, &[3]);
    desk.until_servers(&["127.0.0.1:3"]).await;
    let fourth = next(&mut requests).await;
    assert!(!fourth.head.contains("index="), "{}", fourth.head);

    fourth.respond("403 Forbidden", "", "ACL not found");
    let set = desk.until_problem("answered 403 (ACL not found); the token needs").await;
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
    desk.until_servers(&["127.0.0.1:4"]).await;
    desk.stop().await;
}
