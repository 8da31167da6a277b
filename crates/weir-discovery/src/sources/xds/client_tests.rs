//! The client against a scripted control plane: what goes over the stream, and what upstreams are told.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Response, StatusCode};
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use weir_config::{SourceSecret, SourceUrl};

use super::*;
use crate::last_known::report::SourceMessage;
use crate::sources::xds::messages::base::Any;
use crate::sources::xds::messages::discovery::Resource;
use crate::sources::xds::resources::{ASSIGNMENT, CLUSTER};
use crate::sources::xds::test_messages::assignment;

/// Far more than any of these takes, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

struct ControlPlane {
    listener: TcpListener,
}

/// A stream of the client.
struct ServedStream {
    fields: HeaderMap,
    path: String,
    requests: RecvStream,
    received: BytesMut,
    respond: SendResponse<Bytes>,
    responses: Option<SendStream<Bytes>>,
    connection: AbortHandle,
}

impl Drop for ServedStream {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("not in time: {what}"))
}

impl ControlPlane {
    async fn new() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    fn url(&self) -> SourceUrl {
        let port = self.listener.local_addr().unwrap().port();
        SourceUrl::new(false, format!("127.0.0.1:{port}"))
    }

    fn config(&self) -> XdsControlPlane {
        let mut config = XdsControlPlane::default();
        config.urls = vec![self.url()];
        config
    }

    async fn accept(&self) -> ServedStream {
        let accepting = async {
            let (io, _) = self.listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(io).await.unwrap();
            let (request, respond) = connection.accept().await.unwrap().unwrap();
            let task = tokio::spawn(async move { while connection.accept().await.is_some() {} });
            let (head, requests) = request.into_parts();
            ServedStream {
                fields: head.headers,
                path: head.uri.path().to_owned(),
                requests,
                received: BytesMut::new(),
                respond,
                responses: None,
                connection: task.abort_handle(),
            }
        };
        soon("a stream", accepting).await
    }
}

impl ServedStream {
    async fn request(&mut self) -> DeltaRequest {
        let reading = async {
            loop {
                if let Some(prefix) = self.received.first_chunk::<5>() {
                    let len = 5 + u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
                    if self.received.len() >= len {
                        let message = self.received.split_to(len).freeze();
                        return DeltaRequest::decode(message.slice(5..)).unwrap();
                    }
                }
                let data = self.requests.data().await.expect("the stream goes on").unwrap();
                let _window = self.requests.flow_control().release_capacity(data.len());
                self.received.extend_from_slice(&data);
            }
        };
        soon("a request", reading).await
    }

    /// Whether the client has given up the stream.
    async fn is_over(&mut self) -> bool {
        let reading = async { !matches!(self.requests.data().await, Some(Ok(_))) };
        soon("the end of the stream", reading).await
    }

    fn send_raw(&mut self, bytes: impl Into<Bytes>) {
        let head = || {
            let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
            self.respond.send_response(head, false).unwrap()
        };
        self.responses.get_or_insert_with(head).send_data(bytes.into(), false).unwrap();
    }

    fn send(&mut self, response: &DeltaResponse) {
        let message = response.encode_to_vec();
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        framed.extend(message);
        // In two parts: messages need not be whole in a frame.
        let rest = framed.split_off(framed.len() / 2);
        self.send_raw(framed);
        self.send_raw(rest);
    }

    fn say(&mut self, nonce: &str, version: &str, ports: &[u32]) {
        let endpoints: Vec<(&str, u32)> = ports.iter().map(|port| ("10.0.0.1", *port)).collect();
        self.send(&response(ASSIGNMENT, nonce, version, assignment("app", &endpoints).encode_to_vec()));
    }

    fn end(mut self, status: &str, message: &str) {
        let mut fields = HeaderMap::new();
        fields.insert("grpc-status", status.parse().unwrap());
        fields.insert("grpc-message", message.parse().unwrap());
        match &mut self.responses {
            Some(responses) => responses.send_trailers(fields).unwrap(),
            None => {
                let mut head =
                    Response::builder().header("content-type", "application/grpc").body(()).unwrap();
                head.headers_mut().extend(fields);
                self.respond.send_response(head, true).unwrap();
            }
        }
        // What is written goes out before the connection is given up with this.
        tokio::spawn(async move { while matches!(self.requests.data().await, Some(Ok(_))) {} });
    }
}

fn response(type_url: &str, nonce: &str, version: &str, value: Vec<u8>) -> DeltaResponse {
    let resource = Some(Any { type_url: type_url.into(), value });
    let resource = Resource { name: "app".into(), version: version.into(), resource, ttl: None };
    DeltaResponse {
        resources: vec![resource],
        type_url: type_url.into(),
        nonce: nonce.into(),
        removed_resources: vec![],
    }
}

/// An upstream that follows the assignment `app`.
struct FollowingUpstream {
    client: XdsClient,
    reports: UnboundedReceiver<SourceMessage>,
    reporter: Reporter,
    task: JoinHandle<()>,
}

impl FollowingUpstream {
    fn start(config: XdsControlPlane) -> Self {
        let client = XdsClient::start(config);
        let (sender, reports) = unbounded_channel();
        let reporter = Reporter { upstream: "app".into(), id: 1, reports: sender };
        let task = client.follow(FollowedResource::Assignment("app".into()), reporter.clone());
        Self { client, reports, reporter, task }
    }

    async fn until(&mut self, what: &str, wanted: impl Fn(&SourceReport) -> bool) {
        let mut seen = Vec::new();
        let search = async {
            loop {
                let message = self.reports.recv().await.unwrap();
                if wanted(&message.report) {
                    break;
                }
                seen.push(message.report);
            }
        };
        if tokio::time::timeout(PATIENCE, search).await.is_err() {
            panic!("no report {what}; there were {seen:#?}");
        }
    }

    async fn until_ports(&mut self, ports: &[u16]) {
        let has = |report: &SourceReport| match report {
            SourceReport::Said { servers, .. } => {
                servers.iter().map(|server| server.address.port().unwrap()).collect::<Vec<u16>>() == ports
            }
            SourceReport::Failed(_) => false,
        };
        self.until(&format!("with {ports:?}"), has).await;
    }

    async fn until_failed(&mut self, part: &str) {
        let has = |report: &SourceReport| matches!(report, SourceReport::Failed(why) if why.contains(part));
        self.until(part, has).await;
    }
}

#[tokio::test]
async fn a_stream_says_who_asks_and_is_acknowledged() {
    let control_plane = ControlPlane::new().await;
    let mut config = control_plane.config();
    config.token = Some(SourceSecret("hush".into()));
    config.node.id = Some("weir-1".into());
    config.node.cluster = "edge".into();
    config.node.region = "eu".into();
    config.node.zone = "eu-1a".into();
    config.node.metadata = vec![("team".into(), "shop".into())];
    let mut upstream = FollowingUpstream::start(config);
    let mut stream = control_plane.accept().await;
    assert_eq!(stream.path, PATH);
    assert_eq!(stream.fields["content-type"], "application/grpc");
    assert_eq!(stream.fields["te"], "trailers");
    assert_eq!(stream.fields["authorization"], "Bearer hush");
    let first = stream.request().await;
    let node = first.node.unwrap();
    assert_eq!(
        (node.id.as_str(), node.cluster.as_str(), node.user_agent_name.as_str()),
        ("weir-1", "edge", "weir")
    );
    assert_eq!(node.locality.unwrap().zone, "eu-1a");
    let metadata = &node.metadata.unwrap().fields["team"].kind;
    assert_eq!(*metadata, Some(ProtoValueKind::Text("shop".into())));
    assert_eq!(
        (first.type_url.as_str(), first.resource_names_subscribe),
        (ASSIGNMENT, vec!["app".to_owned()])
    );
    assert!(first.initial_resource_versions.is_empty());

    stream.say("n1", "1", &[1, 2]);
    upstream.until_ports(&[1, 2]).await;
    let reply = stream.request().await;
    assert_eq!((reply.response_nonce.as_str(), reply.type_url.as_str()), ("n1", ASSIGNMENT));
    assert!(reply.node.is_none() && reply.error_detail.is_none());

    // Garbage is refused by a reply, and changes nothing.
    stream.send(&response(ASSIGNMENT, "n2", "2", vec![0x12, 99]));
    upstream.until_failed("newer version that is refused").await;
    let reply = stream.request().await;
    assert_eq!(reply.response_nonce, "n2");
    assert!(reply.error_detail.unwrap().message.starts_with("app: it is no ClusterLoadAssignment"));
    stream.say("n3", "3", &[3]);
    upstream.until_ports(&[3]).await;

    // Another upstream of the same control plane has the same stream.
    let reporter = Reporter { id: 2, ..upstream.reporter.clone() };
    let other = upstream.client.follow(FollowedResource::Cluster("app".into()), reporter);
    let next = stream.request().await;
    assert_eq!(next.response_nonce, "n3");
    let next = stream.request().await;
    assert_eq!((next.type_url.as_str(), next.resource_names_subscribe), (CLUSTER, vec!["app".to_owned()]));
    other.abort();
    let next = stream.request().await;
    assert_eq!(next.resource_names_unsubscribe, ["app"]);
    // Nothing is followed any more: the stream ends.
    upstream.task.abort();
    assert!(stream.is_over().await);
}

#[tokio::test]
async fn a_new_stream_continues_where_the_last_one_broke() {
    let control_plane = ControlPlane::new().await;
    let mut upstream = FollowingUpstream::start(control_plane.config());
    let mut stream = control_plane.accept().await;
    stream.request().await;
    stream.say("n1", "7", &[1]);
    upstream.until_ports(&[1]).await;
    drop(stream);
    upstream.until_failed("the connection to http://127.0.0.1").await;

    // The control plane is back, and has nothing new to say: the known servers are its word again.
    let mut stream = control_plane.accept().await;
    let first = stream.request().await;
    assert!(first.node.is_some());
    assert_eq!(first.initial_resource_versions, HashMap::from([("app".to_owned(), "7".to_owned())]));
    assert_eq!(first.resource_names_subscribe, ["app"]);
    upstream.until_ports(&[1]).await;
    stream.say("n1", "8", &[2]);
    upstream.until_ports(&[2]).await;
    stream.end("14", "going%20away");
    upstream.until_failed("unavailable (going away)").await;

    // It has lost the resource meanwhile.
    let mut stream = control_plane.accept().await;
    stream.request().await;
    let mut removal =
        DeltaResponse { type_url: ASSIGNMENT.into(), nonce: "n1".into(), ..DeltaResponse::default() };
    removal.removed_resources = vec!["app".into()];
    stream.send(&removal);
    upstream.until_ports(&[]).await;
}

#[tokio::test]
async fn the_next_address_is_asked_when_one_does_not_answer() {
    let control_plane = ControlPlane::new().await;
    let mut config = control_plane.config();
    // The first address is down: its port is closed.
    config.urls.insert(0, SourceUrl::new(false, "127.0.0.1:1"));
    let mut upstream = FollowingUpstream::start(config);
    let mut stream = control_plane.accept().await;
    stream.request().await;
    stream.say("n1", "1", &[5]);
    let first = soon("a report", upstream.reports.recv()).await.unwrap().report;
    assert!(matches!(first, SourceReport::Said { .. }), "one address of two is no outage: {first:?}");
}

#[tokio::test]
async fn a_control_plane_that_misbehaves_is_asked_anew() {
    let control_plane = ControlPlane::new().await;
    let mut upstream = FollowingUpstream::start(control_plane.config());
    control_plane.accept().await.end("16", "no%20token");
    upstream.until_failed("unauthenticated (no token)").await;

    let mut stream = control_plane.accept().await;
    let head = Response::builder()
        .status(StatusCode::NOT_FOUND)
        .header("content-type", "text/html")
        .body(())
        .unwrap();
    stream.respond.send_response(head, true).unwrap();
    upstream.until_failed("answered 404 with text/html: it speaks no gRPC").await;
    drop(stream);

    for (bytes, why) in [
        (vec![1, 0, 0, 0, 0], "a compressed message"),
        (vec![0, 0xff, 0, 0, 0], "a message of more than 32 MiB"),
        (vec![0, 0, 0, 0, 2, 0x0a, 9], "sent no response of xDS"),
    ] {
        let mut stream = control_plane.accept().await;
        stream.request().await;
        stream.send_raw(bytes);
        upstream.until_failed(why).await;
    }
    let mut stream = control_plane.accept().await;
    stream.request().await;
    stream.say("n1", "1", &[5]);
    upstream.until_ports(&[5]).await;
}
