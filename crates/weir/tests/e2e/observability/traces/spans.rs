//! The spans of exchanges as a collector gets them: their ids are those that servers got.

use std::collections::BTreeMap;

use super::collector::{Collector, Span, message, resource};
use super::{SPAN, TRACE, config, get, only, trace_context, tracing};
use crate::harness::{
    CLOSED_PORT, CertificateAuthority, Client, Gate, Origin, Weir, eventually, origin::ok, temporary_folder,
};

fn assert_reported(span: &Span, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(span.attributes.get(*name).map(String::as_str), Some(*value), "{name} of {span:#?}");
    }
}

#[test]
fn the_spans_have_the_ids_that_servers_got() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, ", service_name = \"edge\"");
    let fields = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\nX-Token: of-header\r\n");
    let target = "/shop/cart?token=of-query";
    assert_eq!(Client::exchange(weir.web(), &get(target, &fields)).status, 200);
    let spans = collector.wait_for(2);
    let (server, client) = (only(&spans, "server"), only(&spans, "client"));
    assert_eq!((server.trace.as_str(), server.parent.as_str()), (TRACE, SPAN));
    assert_eq!((client.trace.as_str(), &client.parent), (TRACE, &server.id));
    assert_eq!(
        trace_context(&origin.last_request())[1],
        client.id,
        "the server continues the span of the attempt"
    );
    assert!(server.begin <= client.begin && client.end <= server.end, "{spans:#?}");
    assert_eq!((&server.error, &client.error), (&None, &None));
    assert_eq!((server.name.as_str(), client.name.as_str()), ("GET", "GET"));
    let (ip, port) = (origin.address().ip().to_string(), origin.address().port().to_string());
    assert_reported(
        &server,
        &[
            ("http.request.method", "GET"),
            ("http.response.status_code", "200"),
            ("url.scheme", "http"),
            ("url.path", "/shop/cart"),
            ("server.address", "shop.test"),
            ("client.address", "127.0.0.1"),
            ("network.protocol.version", "1.1"),
            ("weir.listener", "web"),
            ("weir.upstream", "app"),
            ("weir.attempts", "1"),
        ],
    );
    let id = origin.last_request().field("x-request-id").map(str::to_owned);
    assert_eq!(server.attributes.get("weir.request_id"), id.as_ref());
    let url = format!("http://{}/shop/cart", origin.address());
    assert_reported(&client, &[("server.address", &ip), ("server.port", &port), ("url.full", &url)]);
    let request = collector.origin.last_request();
    assert_eq!(request.target(), "/v1/traces");
    let sent = format!("{:?}", message(&request));
    assert!(!sent.contains("of-query") && !sent.contains("of-header"), "no query, no headers: {sent}");
    let resource = resource(&request);
    assert_eq!(resource.get("service.name").map(String::as_str), Some("edge"));
    assert!(resource.contains_key("service.instance.id") && resource.contains_key("telemetry.sdk.name"));
}

#[test]
fn a_retry_is_another_span_and_another_parent() {
    let collector = Collector::start();
    let turn = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            if turn.swap(false, std::sync::atomic::Ordering::SeqCst) {
                conn.reset();
                return None;
            }
            conn.send(ok("at last"))?;
        }
    });
    let weir = tracing(&origin, &collector, "");
    assert_eq!(Client::exchange(weir.web(), &get("/", "")).status, 200);
    let spans = collector.wait_for(3);
    let server = only(&spans, "server");
    let mut attempts: Vec<&Span> = spans.iter().filter(|span| span.kind == "client").collect();
    attempts.sort_by_key(|span| span.begin);
    let [first, second] = attempts[..] else { panic!("two attempts wanted: {spans:#?}") };
    let trace_context: Vec<[String; 3]> = origin.wait_for_requests(2).iter().map(trace_context).collect();
    assert_eq!(
        [&trace_context[0][1], &trace_context[1][1]],
        [&first.id, &second.id],
        "each attempt has a span of its own"
    );
    assert!(trace_context.iter().all(|trace_context| trace_context[0] == server.trace));
    assert_eq!((&first.parent, &second.parent), (&server.id, &server.id));
    assert!(first.error.is_some() && first.attributes.contains_key("error.type"), "{first:#?}");
    assert_reported(second, &[("http.request.resend_count", "1"), ("http.response.status_code", "200")]);
    assert_eq!((&second.error, &server.error), (&None, &None), "it ended well");
    assert_reported(&server, &[("weir.attempts", "2")]);
}

#[test]
fn a_failure_says_why() {
    let collector = Collector::start();
    let weir = Weir::start(&format!(
        "traces.endpoint = \"{}\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
         upstream.app.servers = [\"{CLOSED_PORT}\"]\nupstream.app.retry.attempts_max = 1\n",
        collector.url(),
    ));
    let response = Client::exchange(weir.web(), &get("/", ""));
    let spans = collector.wait_for(2);
    for span in &spans {
        assert_reported(span, &[("error.type", "connect-refused")]);
        assert!(span.error.as_ref().is_some_and(|message| !message.is_empty()), "{span:#?}");
    }
    let status = response.status.to_string();
    let server = only(&spans, "server");
    assert_reported(&server, &[("http.response.status_code", &status), ("weir.failure", "connect-refused")]);
    assert!(!only(&spans, "client").attributes.contains_key("http.response.status_code"));
}

#[test]
fn what_cannot_be_read_has_a_span_without_a_method() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, "");
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost : a\r\n\r\n");
    assert_eq!(client.response().status, 400);
    let spans = collector.wait_for(1);
    let server = only(&spans, "server");
    assert_eq!((server.name.as_str(), server.parent.as_str(), &server.error), ("HTTP", "", &None));
    assert_reported(&server, &[("http.request.method", "_OTHER"), ("http.response.status_code", "400")]);
    assert!(server.attributes.contains_key("weir.failure"), "{server:#?}");
}

#[test]
fn the_wait_in_the_queue_is_a_span() {
    let (gate, collector) = (Gate::new(), Collector::start());
    let origin = crate::harness::scripts::gated(&gate, "/held", "done");
    let text = config(&origin, &format!("endpoint = \"{}\"", collector.url()));
    let servers = format!("[\"{}\"]", origin.address());
    let one_slot = format!("[{{ address = \"{}\", max_requests = 1 }}]", origin.address());
    let weir = Weir::start(&text.replace(&servers, &one_slot));
    let mut holder = Client::connect(weir.web());
    holder.send(get("/held", ""));
    origin.wait_for_requests(1);
    let mut waiter = Client::connect(weir.web());
    waiter.send(get("/waits", ""));
    let waits = || weir.queue_length() == 1;
    eventually("the second one waits", waits);
    gate.open();
    assert_eq!((holder.response().status, waiter.response().status), (200, 200));
    let spans = collector.wait_for(5);
    let queue = only(&spans, "internal");
    let parent = spans.iter().find(|span| span.id == queue.parent).expect("it has a parent");
    assert_eq!((queue.name.as_str(), parent.attributes["url.path"].as_str()), ("queue", "/waits"));
    let attempt = spans.iter().find(|span| span.parent == parent.id && span.kind == "client");
    let attempt = attempt.expect("it was attempted");
    assert!(parent.begin <= queue.begin && queue.end <= attempt.begin, "{spans:#?}");
}

#[test]
fn a_tunnel_is_one_span_that_ends_with_it() {
    const SWITCH: &str =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let collector = Collector::start();
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(SWITCH)?;
        let said = conn.take(4)?;
        conn.send(said)?;
        conn.wait_for_end();
        Some(())
    });
    // Without a recorder only the trace keeps its beginning.
    let text = config(&origin, &format!("endpoint = \"{}\"", collector.url()));
    let weir = Weir::start(&format!("recorder = {{ exchanges = 0, failures = 0 }}\n{text}"));
    let mut client = Client::connect(weir.web());
    client.send(get("/socket?a=b", "Connection: Upgrade\r\nUpgrade: websocket\r\n"));
    assert_eq!(client.head().status(), Ok(101));
    client.send("ping");
    assert_eq!(client.take(4), b"ping");
    assert_eq!(Client::get_by_address(weir.address("admin"), "/ready").status, 200);
    assert_eq!(collector.spans().len(), 0, "it goes on");
    client.finish();
    client.take_to_end();
    let spans = collector.wait_for(2);
    let (server, attempt) = (only(&spans, "server"), only(&spans, "client"));
    assert_reported(
        &server,
        &[("http.response.status_code", "101"), ("weir.tunnel", "true"), ("url.path", "/socket")],
    );
    assert_eq!(trace_context(&origin.last_request())[1], attempt.id);
    assert_eq!((&server.error, &attempt.error), (&None, &None));
}

#[test]
fn connections_of_tcp_listeners_have_no_trace() {
    let (origin, collector) = (crate::harness::scripts::echo(), Collector::start());
    let text = config(&origin, &format!("endpoint = \"{}\"", collector.url()));
    let weir = Weir::start(&format!(
        "{text}listener.raw = {{ address = \"127.0.0.1:0\", protocol = \"tcp\", upstream = \"app\" }}\n"
    ));
    let fields = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\nConnection: close\r\n");
    let mut client = Client::connect(weir.address("raw"));
    client.send(get("/", &fields));
    assert_eq!(client.response().status, 200);
    assert_eq!(
        origin.last_request().field("traceparent"),
        Some(format!("00-{TRACE}-{SPAN}-01").as_str()),
        "its bytes pass"
    );
    client.finish();
    client.take_to_end();
    // What comes behind it comes alone.
    assert_eq!(Client::exchange(weir.web(), &get("/http", "")).status, 200);
    let spans = collector.wait_for(2);
    assert_reported(&only(&spans, "server"), &[("weir.listener", "web")]);
}

#[test]
fn the_trace_id_is_in_the_log_and_in_why() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let text = config(&origin, &format!("endpoint = \"{}\", accept = \"always\"", collector.url()));
    let log = "access_log = { output = \"file:{dir}/access.log\", format = \"{path} {trace_id}\" }\n";
    let weir = Weir::start(&format!("{log}{text}"));
    let fields = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
    assert_eq!(Client::exchange(weir.web(), &get("/traced", &fields)).status, 200);
    assert_eq!(weir.access_log(1), [format!("/traced {TRACE}")]);
    let id = origin.last_request().field("x-request-id").expect("it has an id").to_owned();
    let target = format!("/api/exchanges/{id}");
    let report = Client::get_by_address(weir.address("admin"), &target).text();
    assert!(report.contains(&format!("\"trace_id\":\"{TRACE}\"")), "{report}");
}

#[test]
fn headers_go_to_the_collector_and_are_not_shown() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let folder = temporary_folder();
    std::fs::write(folder.path().join("token"), "Bearer from-a-file\n").expect("the folder takes a file");
    let traces = format!(
        "endpoint = \"{}\", headers = {{ X-Tenant = \"from-the-config\" }}, \
         header_files = {{ Authorization = \"token\" }}",
        collector.url()
    );
    let weir = Weir::start_in(folder, &config(&origin, &traces));
    assert_eq!(Client::exchange(weir.web(), &get("/", "")).status, 200);
    collector.wait_for(2);
    let request = collector.origin.last_request();
    assert_eq!(request.field("x-tenant"), Some("from-the-config"));
    assert_eq!(request.field("authorization"), Some("Bearer from-a-file"));
    let shown = Client::get_by_address(weir.address("admin"), "/").text();
    assert!(!shown.contains("from-the-config") && !shown.contains("from-a-file"), "{shown}");
}

#[test]
fn a_collector_with_tls_has_to_be_the_right_one() {
    let origin = Origin::serving("seen");
    let authority = CertificateAuthority::named(&["localhost"]);
    let (right, wrong) = (authority.pem(), CertificateAuthority::named(&["localhost"]).pem());
    let listening = Origin::start_tls(authority.server(&["localhost"]), |conn| {
        loop {
            conn.request()?;
            conn.send(super::collector::TAKEN)?;
        }
    });
    let start = |ca: &str| {
        let folder = temporary_folder();
        std::fs::write(folder.path().join("ca.pem"), ca).expect("the folder takes a file");
        let url = format!("https://localhost:{}/v1/traces", listening.address().port());
        let weir =
            Weir::start_in(folder, &config(&origin, &format!("endpoint = \"{url}\", ca = \"ca.pem\"")));
        assert_eq!(Client::exchange(weir.web(), &get("/", "")).status, 200);
        weir
    };
    let weir = start(&wrong);
    weir.line(&["spans cannot be exported", "ertificate", "traces.ca"]);
    assert_eq!(listening.requests().len(), 0, "no other server gets a span");
    let _weir = start(&right);
    let kinds: BTreeMap<String, usize> = listening
        .wait_for_requests(1)
        .iter()
        .map(|request| (request.target().to_owned(), message(request).resource_spans.len()))
        .collect();
    assert_eq!(kinds, BTreeMap::from([("/v1/traces".to_owned(), 1)]));
}
