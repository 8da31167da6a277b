//! Exchanges made up here, with the config that they are of, and the spans of them.

use std::collections::BTreeMap;

use opentelemetry_sdk::trace::{Sampler, SamplingDecision, ShouldSample as _};
use proptest::prelude::*;
use weir_config::CheckedConfig;
use weir_http::{Method, Traceparent};
use weir_observe::Cause;
use weir_traffic::sampling::{SHARE_WHOLE, SampleShare};

use super::*;
use crate::workers::worker_queries::ConfigNames;
use weir_proxy::state::servers::plan_inputs::PlanInputs;
use weir_proxy::state::snapshot::Snapshot;
use weir_proxy::state::tracing::recorder::{RecordedExchange, Words};
use weir_proxy::state::tracing::trace_queue::ExchangeSpan;

const CONFIG: &str = r#"
listener.web.address = "127.0.0.1:0"
listener.web.route = [{ name = "api", path = "/api/", upstream = "app" }, { path = "/", upstream = "app" }]
upstream.app.servers = [{ name = "one", address = "10.0.0.1:80" }, { name = "two", address = "app.internal:8080" }]
"#;

/// The names of the config above.
fn names() -> Vec<Arc<GenerationNames>> {
    let config = CheckedConfig::parse(CONFIG, "weir.toml").into_result().expect("it has no mistake");
    let inputs = PlanInputs {
        via_name: "weir-1".into(),
        seed: 1,
        workers: 1,
        due_upstreams: std::sync::Arc::default(),
        issuers: std::sync::Arc::default(),
    };
    let kept = ConfigNames::default();
    kept.learn(&Snapshot::new(&config, &inputs).expect("it has no TLS"));
    kept.all()
}

/// A GET of `/api/x` that the first server answered, 10 ms long.
fn fine() -> SampledExchange {
    let began = clock::now();
    let mut recorded = RecordedExchange::blank(began);
    let entry = &mut recorded.entry;
    entry.ended = began + Duration::from_millis(10);
    (entry.generation, entry.served_generation, entry.served_revision) = (1, 1, 1);
    (entry.listener, entry.route, entry.upstream, entry.server) = (0, 0, 0, 0);
    entry.peer = Peer::Inet("192.0.2.7:5000".parse().expect("it is an address"));
    (entry.status, entry.attempts, entry.attempts_seen) = (200, 1, 1);
    entry.first_attempt.opened_at = Some(began);
    entry.words = Words::new(b"an-id", Method::Get, b"/api/x", b"shop.test:8080");
    entry.times.add(Phase::Response, 8_000);
    let traceparent = Traceparent { trace_id: 0xabc, span_id: 0x123, is_sampled: true };
    SampledExchange {
        own: ExchangeSpan { traceparent, parent_id: 0x77, is_http_10: false },
        recorded,
        rewritten: None,
    }
}

fn spans(sampled: &SampledExchange) -> Vec<SpanData> {
    // Behind the end of all of them.
    let at = clock::now() + Duration::from_secs(3600);
    spans_of(sampled, &names(), &ClockReading { at, date: clock::date() })
}

fn attributes(span: &SpanData) -> BTreeMap<String, String> {
    let attributes: BTreeMap<_, _> = span
        .attributes
        .iter()
        .map(|attribute| (attribute.key.to_string(), attribute.value.to_string()))
        .collect();
    assert_eq!(attributes.len(), span.attributes.len(), "no key is set twice");
    attributes
}

fn assert_attributes(span: &SpanData, expected: &[(&str, &str)]) {
    let attributes = attributes(span);
    for (name, value) in expected {
        assert_eq!(attributes.get(*name).map(String::as_str), Some(*value), "{name} in {attributes:#?}");
    }
}

fn refused() -> Failure {
    Failure::server(Phase::Connect, Cause::Refused)
}

#[test]
fn an_exchange_is_a_span_with_one_for_its_attempt() {
    let sampled = fine();
    let spans = spans(&sampled);
    let [server, client] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((&*server.name, &server.span_kind), ("GET /api/*", &SpanKind::Server));
    assert_eq!((&*client.name, &client.span_kind), ("GET", &SpanKind::Client));
    assert_eq!(server.span_context.trace_id(), TraceId::from(0xabc));
    assert_eq!(server.span_context.span_id(), SpanId::from(0x123));
    assert_eq!((server.parent_span_id, server.parent_span_is_remote), (SpanId::from(0x77), true));
    assert_eq!((client.parent_span_id, client.parent_span_is_remote), (SpanId::from(0x123), false));
    assert_eq!(client.span_context.span_id(), SpanId::from(sampled.own.attempt_id(1)));
    assert_eq!((&server.status, &client.status), (&Status::Unset, &Status::Unset));
    let lasted = server.end_time.duration_since(server.start_time).expect("it ends behind its beginning");
    assert_eq!(lasted, Duration::from_millis(10));
    assert_attributes(
        server,
        &[
            ("http.request.method", "GET"),
            ("http.route", "/api/*"),
            ("http.response.status_code", "200"),
            ("url.scheme", "http"),
            ("url.path", "/api/x"),
            ("server.address", "shop.test"),
            ("server.port", "8080"),
            ("network.protocol.version", "1.1"),
            ("client.address", "192.0.2.7"),
            ("network.peer.port", "5000"),
            ("weir.listener", "web"),
            ("weir.route", "api"),
            ("weir.upstream", "app"),
            ("weir.server", "one"),
            ("weir.request_id", "an-id"),
            ("weir.phase.response", "0.008"),
        ],
    );
    assert_attributes(
        client,
        &[
            ("http.request.method", "GET"),
            ("http.response.status_code", "200"),
            ("server.address", "10.0.0.1"),
            ("server.port", "80"),
            ("url.full", "http://10.0.0.1:80/api/x"),
            ("weir.connection.reused", "false"),
        ],
    );
    assert_eq!(client.events[0].name, "connected");
    for span in &spans {
        assert!(
            !attributes(span).contains_key("error.type") && !attributes(span).contains_key("weir.failure")
        );
    }
}

#[test]
fn a_trace_that_begins_here_has_no_parent_and_a_rewritten_path_is_kept_as_sent() {
    let mut sampled = fine();
    sampled.own.parent_id = 0;
    sampled.rewritten = Some((*b"/v2/x").into());
    let spans = spans(&sampled);
    assert_eq!((spans[0].parent_span_id, spans[0].parent_span_is_remote), (SpanId::INVALID, false));
    assert_attributes(&spans[0], &[("url.path", "/api/x")]);
    assert_attributes(&spans[1], &[("url.full", "http://10.0.0.1:80/v2/x")]);
}

#[test]
fn a_retry_is_a_span_more() {
    let mut sampled = fine();
    let recorded = &mut sampled.recorded;
    let began = recorded.entry.began;
    let first = &mut recorded.entry.first_attempt;
    (first.failure, first.opened_at) = (Some(refused()), None);
    (first.failed_at, first.decision) = (Some(began + Duration::from_millis(2)), Decision::Again);
    let second = &mut recorded.later_attempts[0];
    (second.began, second.server) = (began + Duration::from_millis(3), 1);
    second.opened_at = Some(began - Duration::from_secs(1));
    (recorded.entry.attempts_seen, recorded.entry.attempts, recorded.entry.server) = (2, 2, 1);
    let spans = spans(&sampled);
    let [server, first, second] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!(server.status, Status::Unset, "it ended well");
    assert_eq!(first.span_context.span_id(), SpanId::from(sampled.own.attempt_id(1)));
    assert_eq!(second.span_context.span_id(), SpanId::from(sampled.own.attempt_id(2)));
    assert!(matches!(first.status, Status::Error { .. }));
    assert_attributes(
        first,
        &[("error.type", "connect-refused"), ("weir.server", "one"), ("weir.retry", "again")],
    );
    assert!(!attributes(first).contains_key("http.response.status_code"));
    assert_attributes(
        second,
        &[
            ("http.request.resend_count", "1"),
            ("server.address", "app.internal"),
            ("http.response.status_code", "200"),
            ("weir.connection.reused", "true"),
        ],
    );
    assert!(second.events.is_empty(), "its connection was there before");
}

#[test]
fn of_many_attempts_the_first_ones_and_the_last_keep_their_numbers() {
    let mut sampled = fine();
    sampled.recorded.entry.attempts_seen = 9;
    let ids: Vec<SpanId> = spans(&sampled)[1..].iter().map(|span| span.span_context.span_id()).collect();
    let expected = [1, 2, 3, 9].map(|number| SpanId::from(sampled.own.attempt_id(number)));
    assert_eq!(ids, expected);
}

#[test]
fn a_failure_says_why() {
    let mut sampled = fine();
    let entry = &mut sampled.recorded.entry;
    (entry.failure, entry.status) = (Some(refused()), 502);
    (entry.first_attempt.failure, entry.first_attempt.opened_at) = (Some(refused()), None);
    let spans = spans(&sampled);
    for span in &spans {
        assert_attributes(span, &[("error.type", "connect-refused")]);
        let Status::Error { description } = &span.status else { panic!("{span:#?}") };
        assert_eq!(description, refused().explanation().happened);
    }
    assert_attributes(&spans[0], &[("weir.failure", "connect-refused"), ("weir.failure.party", "server")]);
    assert_attributes(&spans[0], &[("http.response.status_code", "502")]);
    assert!(!attributes(&spans[1]).contains_key("http.response.status_code"), "the server gave none");
}

#[test]
fn what_a_server_answers_is_an_error_by_the_conventions() {
    for (status, of_server, of_client) in
        [(200, false, false), (302, false, false), (404, false, true), (500, true, true), (503, true, true)]
    {
        let mut sampled = fine();
        sampled.recorded.entry.status = status;
        let spans = spans(&sampled);
        let is_error = |span: &SpanData| matches!(span.status, Status::Error { .. });
        assert_eq!((is_error(&spans[0]), is_error(&spans[1])), (of_server, of_client), "{status}");
        if of_server {
            assert_attributes(&spans[0], &[("error.type", &status.to_string())]);
        }
        if of_client {
            assert_attributes(&spans[1], &[("error.type", &status.to_string())]);
        }
    }
}

#[test]
fn a_client_that_goes_away_is_no_error_of_the_exchange() {
    let mut sampled = fine();
    let gone = Failure::client(Phase::Response, Cause::Reset);
    (sampled.recorded.entry.failure, sampled.recorded.entry.status) = (Some(gone), 0);
    let spans = spans(&sampled);
    assert_eq!(spans[0].status, Status::Unset);
    assert_attributes(&spans[0], &[("weir.failure", gone.reason())]);
    assert!(!attributes(&spans[0]).contains_key("http.response.status_code"));
}

#[test]
fn the_wait_for_a_server_is_a_span() {
    let mut sampled = fine();
    let entry = &mut sampled.recorded.entry;
    entry.times.add(Phase::Queue, 4_000);
    entry.queue_position = 3;
    entry.first_attempt.began = entry.began + Duration::from_millis(5);
    let given = spans(&sampled);
    let [server, queue, _] = &given[..] else { panic!("{given:#?}") };
    assert_eq!((&*queue.name, &queue.span_kind), ("queue", &SpanKind::Internal));
    assert_eq!(queue.parent_span_id, server.span_context.span_id());
    assert_eq!(queue.start_time.duration_since(server.start_time).ok(), Some(Duration::from_millis(1)));
    assert_eq!(queue.end_time.duration_since(queue.start_time).ok(), Some(Duration::from_millis(4)));
    assert_attributes(queue, &[("weir.queue.ahead", "3")]);

    // In vain: nothing was attempted, and the wait ends with the exchange.
    let entry = &mut sampled.recorded.entry;
    entry.first_attempt.server = NONE;
    (entry.failure, entry.status) = (Some(Failure::weir(Phase::Queue, Cause::TimedOut)), 503);
    let given = spans(&sampled);
    let [server, queue] = &given[..] else { panic!("{given:#?}") };
    assert_eq!(queue.end_time, server.end_time);
    assert_attributes(server, &[("error.type", "queue-timeout")]);
}

#[test]
fn what_is_not_known_any_more_is_left_out() {
    let mut sampled = fine();
    (sampled.recorded.entry.generation, sampled.recorded.entry.served_generation) = (9, 9);
    sampled.recorded.entry.words = Words::new(b"", Method::Other, b"", b"");
    let spans = spans(&sampled);
    assert_eq!((&*spans[0].name, spans.len()), ("HTTP", 2));
    assert_attributes(&spans[0], &[("http.request.method", "_OTHER")]);
    for name in ["weir.listener", "weir.upstream", "url.path", "server.address", "http.route"] {
        assert!(!attributes(&spans[0]).contains_key(name), "{name}");
    }
}

#[test]
fn authorities_come_apart() {
    for (authority, host, port) in [
        ("shop.test", "shop.test", None),
        ("shop.test:8080", "shop.test", Some(8080)),
        ("[::1]:80", "::1", Some(80)),
        ("[::1]", "::1", None),
        ("192.0.2.1:443", "192.0.2.1", Some(443)),
        ("a:", "a", None),
        ("", "", None),
    ] {
        assert_eq!(host_and_port(authority.as_bytes()), (host.as_bytes(), port), "{authority}");
    }
}

/// Whether OpenTelemetry's own sampler takes it.
fn official(ratio: f64, trace_id: u128) -> bool {
    let sampler = Sampler::TraceIdRatioBased(ratio);
    let kind = SpanKind::Server;
    let given = sampler.should_sample(None, TraceId::from(trace_id), "", &kind, &[], &[]);
    given.decision == SamplingDecision::RecordAndSample
}

proptest! {
    #[test]
    fn shares_are_those_of_the_official_sampler(parts in 0..=SHARE_WHOLE, trace_id in 1_u128..) {
        // Rounding differs in the last bits of the bound, which no id of a test hits.
        let ratio = f64::from(parts) / f64::from(SHARE_WHOLE);
        prop_assert_eq!(SampleShare::of_million(parts).takes(trace_id), official(ratio, trace_id));
    }
}
