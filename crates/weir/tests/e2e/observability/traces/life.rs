//! Traces over reloads and at the end of the process.

use rustix::process::Signal;

use super::collector::Collector;
use super::{config, get, trace_context};
use crate::harness::{Client, Gate, Origin, Weir, eventually, temporary_folder};

fn send(weir: &Weir, target: &str) {
    assert_eq!(Client::exchange(weir.web(), &get(target, "")).status, 200);
}

#[test]
fn the_last_spans_are_sent_before_the_end() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let traces = format!("endpoint = \"{}\"", collector.url());
    let mut weir = Weir::start(&config(&origin, &traces));
    for _ in 0..20 {
        send(&weir, "/");
    }
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    assert_eq!(collector.spans().len(), 40, "not one is lost");
}

#[test]
fn a_collector_that_is_down_does_not_hold_up_the_end() {
    let origin = Origin::serving("seen");
    let gate = Gate::new();
    let collector = Collector::silent(&gate);
    let text = config(&origin, &format!("endpoint = \"{}\", timeout = \"10m\"", collector.url()));
    let mut weir =
        Weir::start(&text.replace("process.workers", "process.stop_grace = \"100ms\"\nprocess.workers"));
    send(&weir, "/");
    collector.origin.wait_for_connections(1);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    weir.line(&["the last spans are lost"]);
    gate.open();
}

#[test]
fn a_reload_turns_traces_on_and_off() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let off = config(&origin, "");
    let on = config(&origin, &format!("endpoint = \"{}\"", collector.url()));
    let weir = Weir::start(&off);
    send(&weir, "/before");
    assert_eq!(origin.last_request().field("traceparent"), None);
    weir.reload(&on);
    send(&weir, "/on");
    assert_eq!(trace_context(&origin.last_request())[2], "01");
    weir.reload(&off);
    send(&weir, "/off");
    assert_eq!(origin.last_request().field("traceparent"), None);
    let spans = collector.wait_for(2);
    assert!(
        spans.iter().filter(|span| span.kind == "server").all(|span| span.attributes["url.path"] == "/on")
    );
    weir.reload(&on);
    send(&weir, "/on/again");
    collector.wait_for(4);
}

#[test]
fn a_reload_changes_the_share_at_once() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let endpoint = format!("endpoint = \"{}\"", collector.url());
    let weir = Weir::start(&config(&origin, &endpoint));
    let mut client = Client::connect(weir.web());
    let mut flags = || {
        client.send(get("/", ""));
        assert_eq!(client.response().status, 200);
        trace_context(&origin.last_request())[2].clone()
    };
    assert_eq!(flags(), "01");
    weir.reload(&config(&origin, &format!("{endpoint}, ratio = \"0%\"")));
    assert_eq!(flags(), "00");
    weir.reload(&config(&origin, &endpoint));
    assert_eq!(flags(), "01");
    collector.wait_for(4);
}

#[test]
fn a_reload_goes_over_to_another_collector_without_a_loss() {
    let origin = Origin::serving("seen");
    let (first, second) = (Collector::start(), Collector::start());
    let text = |collector: &Collector| config(&origin, &format!("endpoint = \"{}\"", collector.url()));
    let weir = Weir::start(&text(&first));
    for _ in 0..5 {
        send(&weir, "/first");
    }
    weir.reload(&text(&second));
    for _ in 0..5 {
        send(&weir, "/second");
    }
    first.wait_for(10);
    second.wait_for(10);
    let exported = || weir.metrics().sum("weir_trace_spans_exported_total", &[]);
    eventually("all are counted", || exported() == 20.0);
    assert_eq!(weir.metrics().sum("weir_trace_spans_dropped_total", &[]), 0.0);
}

#[test]
fn an_exchange_that_a_reload_comes_across_goes_to_the_new_collector() {
    let gate = Gate::new();
    let origin = crate::harness::scripts::gated(&gate, "/held", "done");
    let (first, second) = (Collector::start(), Collector::start());
    let text = |collector: &Collector| config(&origin, &format!("endpoint = \"{}\"", collector.url()));
    let weir = Weir::start(&text(&first));
    let mut client = Client::connect(weir.web());
    client.send(get("/held", ""));
    origin.wait_for_requests(1);
    weir.reload(&text(&second));
    gate.open();
    assert_eq!(client.response().status, 200);
    let spans = second.wait_for(2);
    assert!(spans.iter().any(|span| span.id == trace_context(&origin.last_request())[1]), "{spans:#?}");
    assert_eq!(first.spans().len(), 0);
}

#[test]
fn nothing_comes_from_the_environment() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let elsewhere = Collector::start();
    let proxy = format!("http://{}", elsewhere.origin.address());
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", elsewhere.url()),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", elsewhere.url()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-from=environment".to_owned()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip".to_owned()),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0".to_owned()),
        ("OTEL_SERVICE_NAME", "environment".to_owned()),
        ("OTEL_RESOURCE_ATTRIBUTES", "from=environment".to_owned()),
        ("OTEL_SDK_DISABLED", "true".to_owned()),
        ("http_proxy", proxy.clone()),
        ("HTTP_PROXY", proxy.clone()),
        ("ALL_PROXY", proxy),
    ];
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let folder = temporary_folder();
    let text = config(&origin, &format!("endpoint = \"{}\"", collector.url()));
    let weir = Weir::start_in_environment(folder, &text, &variables);
    send(&weir, "/");
    collector.wait_for(2);
    let request = collector.origin.last_request();
    assert_eq!((request.field("x-from"), request.field("content-encoding")), (None, None));
    let resource = super::collector::resource(&request);
    assert!(!resource.values().any(|value| value == "environment"), "{resource:?}");
    assert_eq!(elsewhere.origin.connections(), 0);
}
