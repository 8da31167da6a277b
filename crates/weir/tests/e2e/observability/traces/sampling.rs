//! Which exchanges are sampled: all, none, a share, and so many a second at most.

use super::collector::Collector;
use super::{SPAN, config, get, trace_context, tracing};
use crate::harness::{Client, Origin, Weir, eventually};

/// How many of so many requests were sampled, by the flag that the server got; sent on one connection.
fn sampled_of(weir: &Weir, origin: &Origin, count: usize, fields: &str) -> usize {
    let mut client = Client::connect(weir.web());
    for _ in 0..count {
        client.send(get("/", fields));
        assert_eq!(client.response().status, 200);
    }
    let requests = origin.requests();
    requests[requests.len() - count..].iter().filter(|request| trace_context(request)[2] == "01").count()
}

#[test]
fn without_sampling_servers_still_get_the_trace_context() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, ", ratio = \"0%\"");
    assert_eq!(sampled_of(&weir, &origin, 50, ""), 0);
    assert_eq!(weir.metrics().sum("weir_worker_traces_sampled_total", &[]), 0.0);
    assert_eq!(collector.spans().len(), 0);
}

#[test]
fn exported_traces_are_those_that_servers_got_as_sampled() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, ", ratio = \"50%\"");
    let sampled = sampled_of(&weir, &origin, 400, "");
    // Outside of this once in 10^20 times.
    assert!((100..=300).contains(&sampled), "{sampled} of 400");
    let spans = collector.wait_for(2 * sampled);
    let mut exported: Vec<String> =
        spans.iter().filter(|span| span.kind == "client").map(|span| span.id.clone()).collect();
    let requests = origin.requests();
    let flagged = requests.iter().map(trace_context).filter(|trace_context| trace_context[2] == "01");
    let mut expected: Vec<String> = flagged.map(|trace_context| trace_context[1].clone()).collect();
    exported.sort();
    expected.sort();
    assert_eq!(exported, expected);
    assert_eq!(weir.metrics().sum("weir_worker_traces_sampled_total", &[]), sampled as f64);
    let exported = || weir.metrics().sum("weir_trace_spans_exported_total", &[]) as usize;
    eventually("what was taken is counted", || exported() == 2 * sampled);
}

#[test]
fn the_same_trace_is_sampled_or_not_wherever_it_begins() {
    // Two Weirs with the same share decide alike about ids that a third has made: by the id alone.
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let first = tracing(&origin, &collector, ", ratio = \"30%\"");
    sampled_of(&first, &origin, 100, "");
    for request in origin.requests() {
        let [trace, _, flags] = trace_context(&request);
        let low = u64::from_str_radix(&trace[16..], 16).expect("it is a number") >> 1;
        let is_in = (low as f64) < 0.3 * 2_f64.powi(63);
        assert_eq!(flags == "01", is_in, "{trace}");
    }
}

#[test]
fn no_client_can_exceed_the_sampling_rate() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, ", rate = 5");
    let mut fields = Vec::new();
    for trace in 1..=200 {
        fields.push(format!("traceparent: 00-{trace:032x}-{SPAN}-01\r\n"));
    }
    let began = crate::harness::watchdog::now();
    let sampled: usize = fields.iter().map(|fields| sampled_of(&weir, &origin, 1, fields)).sum();
    // Five at once, and five a second from then on.
    let allowed = 5 + 5 * (began.elapsed().as_secs() as usize + 1);
    assert!((5..=allowed).contains(&sampled), "{sampled} of 200, {allowed} allowed");
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_worker_traces_limited_total", &[]), (200 - sampled) as f64);
    collector.wait_for(2 * sampled);
    for (request, trace) in origin.requests().iter().zip(1..) {
        assert_eq!(
            trace_context(request)[0],
            format!("{trace:032x}"),
            "also what is not sampled goes on in its trace"
        );
    }
}

#[test]
fn the_share_is_of_traces_that_begin_here() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = Weir::start(&config(
        &origin,
        &format!("endpoint = \"{}\", accept = \"always\", ratio = \"0%\"", collector.url()),
    ));
    let fields = format!("traceparent: 00-{:032x}-{SPAN}-01\r\n", 7);
    assert_eq!(sampled_of(&weir, &origin, 1, &fields), 1, "the caller samples it");
    collector.wait_for(2);
}
