//! Copies of gRPC calls for another upstream: what the mirror gets of unary calls, of streams and of gRPC-Web, and how statuses compare.

use std::sync::{Arc, Mutex, PoisonError};

use super::origin;
use crate::harness::http2::server::{Asked, Http2Server};
use crate::harness::{Client, Http2Client, Metrics, Origin, Weir, config_with, eventually};

const HEAD: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc")];

/// A message of gRPC.
fn message(content: &[u8]) -> Vec<u8> {
    [&[0][..], &(content.len() as u32).to_be_bytes(), content].concat()
}

/// The calls that a server got.
#[derive(Debug, Clone, Default)]
struct Calls(Arc<Mutex<Vec<Asked>>>);

impl Calls {
    fn all(&self) -> Vec<Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wait_for(&self, count: usize) -> Vec<Asked> {
        eventually("the mirror has its calls", || self.all().len() >= count);
        self.all()
    }

    /// A server that takes calls whole and ends each with this status.
    fn origin(&self, status: &'static str) -> Origin {
        let calls = self.clone();
        origin(move |server, asked| {
            calls.0.lock().unwrap_or_else(PoisonError::into_inner).push(asked.clone());
            answer(server, asked.stream, status)
        })
    }
}

fn answer(server: &mut Http2Server<'_>, stream: u32, status: &str) -> Option<()> {
    server.send_head(stream, &HEAD, false)?;
    server.send_data(stream, &message(b"answer"), false)?;
    server.send_head(stream, &[("grpc-status", status)], true)
}

fn start(origin: &Origin, mirror: &Origin, route: &str, keys: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1\nlistener.web.http2.prior_knowledge = \"allowed\"\n\
             admin.socket = \"unix:{{dir}}/weir.sock\"\n\
             upstream.app.protocol = \"h2c\"\nupstream.new.protocol = \"h2c\"\n\
             upstream.new.servers = [{}]\n\
             [[listener.web.route]]\npath = \"/\"\nname = \"all\"\nupstream = \"app\"\n{route}\n\
             [listener.web.route.mirror]\nupstream = \"new\"\n{keys}",
            mirror.entry()
        ),
    ))
}

/// Opens a call.
fn call(client: &mut Http2Client, target: &str, fields: &[(&str, &str)]) -> u32 {
    let fields = [&[("content-type", "application/grpc"), ("te", "trailers")][..], fields].concat();
    client.post(target, &fields)
}

/// The status of the call on this stream.
fn status(client: &mut Http2Client, stream: u32) -> Option<String> {
    let response = client.response(stream);
    response.trailers.as_ref().and_then(|fields| fields.one("grpc-status")).map(str::to_owned)
}

fn unary(client: &mut Http2Client, target: &str, fields: &[(&str, &str)]) -> Option<String> {
    let stream = call(client, target, fields);
    client.data(stream, message(b"question"), true);
    status(client, stream)
}

fn count(metrics: &Metrics, name: &str, label: &str) -> f64 {
    metrics.all(&format!("weir_route_mirror_{name}_total"), &["route=\"all\"", label]).iter().sum()
}

fn wait_for(weir: &Weir, name: &str, label: &str, expected: f64) {
    eventually(&format!("{name} {label} is {expected}"), || {
        (count(&weir.metrics(), name, label) - expected).abs() < 0.5
    });
}

#[test]
fn a_unary_call_is_copied_with_its_message_and_its_time() {
    let (real, copied) = (Calls::default(), Calls::default());
    let (origin, mirror) = (real.origin("0"), copied.origin("0"));
    let weir =
        start(&origin, &mirror, "", "methods = [\"POST\"]\ncompare = [\"status\", \"headers\", \"body\"]");
    let mut client = Http2Client::connect(weir.web());
    let fields = [("x-a", "1"), ("grpc-timeout", "20S")];
    assert_eq!(unary(&mut client, "/shop.Cart/Add", &fields).as_deref(), Some("0"));
    let copy = copied.wait_for(1).remove(0);
    assert_eq!((copy.path(), copy.body.clone()), ("/shop.Cart/Add", message(b"question")));
    for (name, value) in
        [("content-type", "application/grpc"), ("te", "trailers"), ("x-a", "1"), ("x-weir-mirror", "1")]
    {
        assert_eq!(copy.field(name), Some(value), "{name}");
    }
    let left = copy.field("grpc-timeout").and_then(|value| value.strip_suffix('u')?.parse::<u64>().ok());
    let left = left.expect("microseconds");
    assert!((10_000_000..=20_000_000).contains(&left), "{left}: as long as the client gave the call");
    wait_for(&weir, "compared", "", 1.0);
    let metrics = weir.metrics();
    assert_eq!(count(&metrics, "differences", ""), 0.0);
    let calls = metrics.sum("weir_upstream_grpc_calls_total", &["upstream=\"app\"", "status=\"ok\""]);
    assert_eq!(calls, 1.0, "a call that is copied has its status as ever");
    assert_eq!(real.all().len(), 1);
}

#[test]
fn statuses_of_calls_are_compared_and_count_for_servers() {
    let (origin, mirror) = (Calls::default().origin("0"), Calls::default().origin("14"));
    let weir = start(&origin, &mirror, "", "methods = [\"POST\"]\ncompare = [\"status\"]");
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(unary(&mut client, "/a.B/C", &[]).as_deref(), Some("0"), "the client gets its own");
    wait_for(&weir, "differences", "what=\"status\"", 1.0);
    let last = || weir.admin_json("/api/mirrors")[0]["last_differences"][0].clone();
    eventually("the difference is kept", || !last().is_null());
    let found = last();
    assert_eq!((&found["status"], &found["mirror_status"]), (&200.into(), &200.into()));
    assert_eq!((&found["grpc_status"], &found["mirror_grpc_status"]), (&"ok".into(), &"unavailable".into()));
    let shown = weir.run_over_socket(&["ctl", "mirrors"]).stdout;
    assert!(shown.contains("POST /a.B/C") && shown.contains("grpc-status ok -> unavailable"), "{shown}");
    let line = weir.line(&["answered in another way"]);
    assert!(line.contains("unavailable"), "{line}");
    let failures = weir.metrics().sum("weir_server_outlier_failures_total", &["upstream=\"new\""]);
    assert_eq!(failures, 1.0, "an unavailable server may be ejected for its answers to copies, too");
}

/// The messages that a server of a stream has taken are those that the mirror gets, all at once and behind the end.
#[test]
fn a_stream_is_copied_once_it_has_ended() {
    let copied = Calls::default();
    let mirror = copied.origin("0");
    let origin = Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.head()?;
            server.send_head(asked.stream, &HEAD, false)?;
            for number in 1..=3 {
                server.body(asked.stream, number * message(b"ping").len())?;
                server.send_data(asked.stream, &message(b"pong"), false)?;
            }
            while asked.path() != "/server-first" && !server.streams[&asked.stream].has_ended {
                server.read_frame()?;
            }
            server.send_head(asked.stream, &[("grpc-status", "0")], true)?;
        }
    });
    let weir = start(&origin, &mirror, "", "methods = [\"POST\"]\nbody_max = \"27B\"");
    let mut client = Http2Client::connect(weir.web());
    for (target, last) in [("/whole", ""), ("/server-first", ""), ("/long", "x")] {
        let stream = call(&mut client, target, &[]);
        for number in 1..=3 {
            client.data(stream, message(b"ping"), false);
            client.body(stream, number * message(b"pong").len());
            assert!(
                copied.all().iter().all(|copy| copy.path() != target),
                "nothing is copied before the end"
            );
        }
        if target != "/server-first" {
            client.data(stream, last, true);
        }
        assert_eq!(status(&mut client, stream).as_deref(), Some("0"), "{target}");
    }
    wait_for(&weir, "requests", "", 1.0);
    wait_for(&weir, "skipped", "reason=\"body-too-long\"", 2.0);
    let copy = copied.wait_for(1).remove(0);
    assert_eq!((copy.path(), copy.body.clone()), ("/whole", message(b"ping").repeat(3)));
}

#[test]
fn a_call_of_grpc_web_is_copied_as_servers_of_grpc_take_it() {
    let copied = Calls::default();
    let (origin, mirror) = (Calls::default().origin("0"), copied.origin("0"));
    let weir = start(&origin, &mirror, "grpc_web = true", "methods = [\"POST\"]\ncompare = [\"status\"]");
    let mut client = Client::connect(weir.web());
    client.send(
        "POST /a.B/C HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc-web-text\r\n\
         Content-Length: 20\r\n\r\nAAAAAAhxdWVzdGlvbg==",
    );
    assert_eq!(client.response_to("POST").status, 200);
    let copy = copied.wait_for(1).remove(0);
    assert_eq!(copy.field("content-type"), Some("application/grpc"));
    assert_eq!(copy.body, message(b"question"));
    wait_for(&weir, "compared", "", 1.0);
    assert_eq!(count(&weir.metrics(), "differences", ""), 0.0);
}

#[test]
fn calls_are_left_alone_without_post_among_the_methods() {
    let copied = Calls::default();
    let (origin, mirror) = (Calls::default().origin("0"), copied.origin("0"));
    let weir = start(&origin, &mirror, "", "");
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(unary(&mut client, "/a.B/C", &[]).as_deref(), Some("0"));
    assert_eq!(client.fetch("/page").status, 200);
    assert_eq!(copied.wait_for(1).remove(0).path(), "/page");
    wait_for(&weir, "requests", "", 1.0);
    assert_eq!(copied.all().len(), 1);
}
