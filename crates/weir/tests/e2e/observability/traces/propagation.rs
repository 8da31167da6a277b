//! The trace context that servers get: the id of the trace, the parent span, and whether it is sampled.

use super::collector::Collector;
use super::{SPAN, TRACE, config, get, trace_context, tracing};
use crate::harness::{Client, Origin, Request, Weir};

const CALLER: &str = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\
                      tracestate: congo=t61rcWkgMzE\r\nTraceState: rojo=00f067aa0ba902b7,a@b=c\r\n";

/// What a server gets of a request with these field lines.
fn forwarded(traces: &str, more: &str, fields: &str) -> Request {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let traces = format!("endpoint = \"{}\"{traces}", collector.url());
    let weir = Weir::start(&format!("{}{more}", config(&origin, &traces)));
    assert_eq!(Client::exchange(weir.web(), &get("/", fields)).status, 200);
    origin.last_request()
}

#[test]
fn without_a_collector_everything_passes_as_it_came() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying(&origin);
    for fields in [
        CALLER,
        "traceparent: anything at all\r\ntraceparent: 00-twice\r\ntracestate: \r\n",
        "TRACEPARENT: 00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01\r\n",
    ] {
        assert_eq!(Client::exchange(weir.web(), &get("/", fields)).status, 200);
        let request = origin.last_request();
        let sent = |name: &str| {
            let lines = fields.split("\r\n").filter_map(|line| line.split_once(':'));
            let values = lines.filter(|(field, _)| field.eq_ignore_ascii_case(name));
            values.map(|(_, value)| value.trim().to_owned()).collect::<Vec<_>>()
        };
        for name in ["traceparent", "tracestate"] {
            assert_eq!(request.fields().all(name), sent(name), "{fields}");
        }
    }
    assert_eq!(Client::exchange(weir.web(), &get("/", "")).status, 200);
    assert_eq!(origin.last_request().field("traceparent"), None, "nothing is made");
    assert!(!weir.stderr().contains("collector"), "{}", weir.stderr());
}

#[test]
fn a_request_without_a_trace_begins_one() {
    let [trace, _, flags] = trace_context(&forwarded("", "", ""));
    assert_eq!(flags, "01", "all are sampled");
    assert_ne!(trace, TRACE);
    let request = forwarded(", ratio = \"0%\"", "", "tracestate: a=b\r\n");
    assert_eq!(trace_context(&request)[2], "00", "an exchange that is not sampled also has a trace context");
    assert_eq!(request.field("tracestate"), None, "the state of no trace");
}

#[test]
fn the_trace_of_a_trusted_proxy_goes_on() {
    let trust = "listener.web.trusted_proxies = [\"127.0.0.0/8\"]\n";
    let trust = trust.replace("listener.web.trusted_proxies", "[listener.web]\ntrusted_proxies");
    let origin = Origin::serving("seen");
    let collector = Collector::start();
    let text = format!(
        "admin.address = \"127.0.0.1:0\"\ntraces.endpoint = \"{}\"\nupstream.app.servers = [\"{}\"]\n\
         {trust}address = \"127.0.0.1:0\"\nupstream = \"app\"\n",
        collector.url(),
        origin.address()
    );
    let weir = Weir::start(&text);
    assert_eq!(Client::exchange(weir.web(), &get("/", CALLER)).status, 200);
    let request = origin.last_request();
    let [trace, span, flags] = trace_context(&request);
    assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "01"));
    assert_ne!(span, SPAN, "the server gets the span of Weir");
    assert_eq!(request.fields().all("tracestate"), ["congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,a@b=c"]);
}

#[test]
fn untrusted_traces_are_followed_only_if_all_are() {
    for follow in ["", ", accept = \"trusted-proxies\"", ", accept = \"never\""] {
        let request = forwarded(follow, "", CALLER);
        assert_ne!(trace_context(&request)[0], TRACE, "{follow}");
        assert_eq!(request.fields().all("tracestate"), [""; 0], "{follow}");
    }
    let request = forwarded(", accept = \"always\"", "", CALLER);
    assert_eq!(trace_context(&request)[0], TRACE);
}

#[test]
fn what_was_not_sampled_before_is_not_sampled_here() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, "");
    let fields = format!("traceparent: 00-{TRACE}-{SPAN}-00\r\n");
    assert_eq!(Client::exchange(weir.web(), &get("/", &fields)).status, 200);
    let [trace, _, flags] = trace_context(&origin.last_request());
    assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "00"));
    assert_eq!(weir.metrics().sum("weir_worker_traces_sampled_total", &[]), 0.0);
}

#[test]
fn a_route_overrides_the_trace_fields() {
    for (headers, expected) in
        [("remove = [\"traceparent\"]", &[][..]), ("set = { Traceparent = \"of my own\" }", &["of my own"])]
    {
        let (origin, collector) = (Origin::serving("seen"), Collector::start());
        let text = format!(
            "traces = {{ endpoint = \"{}\", accept = \"always\" }}\nlistener.web.address = \"127.0.0.1:0\"\n\
             listener.web.route = [{{ path = \"/\", upstream = \"app\", request_headers = {{ {headers} }} }}]\n\
             upstream.app.servers = [\"{}\"]\n",
            collector.url(),
            origin.address()
        );
        let weir = Weir::start(&text);
        assert_eq!(Client::exchange(weir.web(), &get("/", CALLER)).status, 200);
        assert_eq!(origin.last_request().fields().all("traceparent"), expected, "{headers}");
    }
}

#[test]
fn every_request_of_a_connection_has_its_own_span() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, "");
    let mut client = Client::connect(weir.web());
    client.send(get("/", CALLER));
    assert_eq!(client.response().status, 200);
    client.send(get("/", ""));
    assert_eq!(client.response().status, 200);
    let [first, second] = &origin.requests()[..] else { panic!("two requests were sent") };
    assert_eq!(trace_context(first)[0], TRACE);
    assert_ne!(trace_context(second)[0], TRACE, "nothing is left of the request before");
    assert_ne!(trace_context(first)[1], trace_context(second)[1]);
}
