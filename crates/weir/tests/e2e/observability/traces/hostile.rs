//! Values of `traceparent` that break a rule of W3C Trace Context: a new trace begins, and the value is not forwarded.

use super::collector::Collector;
use super::{SPAN, TRACE, get, trace_context, tracing};
use crate::harness::{Client, Origin};

#[test]
fn what_breaks_a_rule_begins_a_new_trace() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, "");
    let zeros = "0".repeat(32);
    let values = [
        String::new(),
        "00".to_owned(),
        format!("00-{TRACE}-{SPAN}-01-"),
        format!("00-{TRACE}-{SPAN}-01-more"),
        format!("00-{TRACE}-{SPAN}-1"),
        format!("00-{TRACE}-{SPAN}-0g"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("FF-{TRACE}-{SPAN}-01"),
        format!("0-{TRACE}-{SPAN}-01"),
        format!("cc-{TRACE}-{SPAN}-01.more"),
        format!("00-{zeros}-{SPAN}-01"),
        format!("00-{TRACE}-{}-01", &zeros[..16]),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
        format!("00-{}-{SPAN}-01", &TRACE[1..]),
        format!("00 {TRACE} {SPAN} 01"),
        format!("00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01"),
        format!("\u{e9}0-{TRACE}-{SPAN}-01"),
        "0".repeat(4000),
        "\"'<script>{{}}%00%0d%0a".to_owned(),
    ];
    for value in &values {
        let fields = format!("traceparent: {value}\r\ntracestate: kept=not\r\n");
        assert_eq!(Client::exchange(weir.web(), &get("/", &fields)).status, 200, "{value}");
        let request = origin.last_request();
        assert_eq!(request.fields().all("traceparent").len(), 1, "{value}");
        assert_ne!(trace_context(&request)[0], TRACE, "{value}");
        assert_eq!(request.field("tracestate"), None, "{value}");
    }
    let spans = collector.wait_for(values.len() * 2);
    for span in spans.iter().filter(|span| span.kind == "server") {
        assert_eq!(span.parent, "", "{span:#?}");
    }
}

#[test]
fn several_are_none() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, "");
    let one = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\n");
    for fields in [format!("{one}{one}"), format!("{one}Traceparent: x\r\n")] {
        let fields = format!("{fields}tracestate: kept=not\r\n");
        assert_eq!(Client::exchange(weir.web(), &get("/", &fields)).status, 200);
        let request = origin.last_request();
        assert_eq!(request.fields().all("traceparent").len(), 1, "{fields}");
        assert_ne!(trace_context(&request)[0], TRACE, "{fields}");
        assert_eq!(request.field("tracestate"), None);
    }
}

#[test]
fn versions_to_come_are_read_as_far_as_they_are_known() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = tracing(&origin, &collector, "");
    for value in [format!("cc-{TRACE}-{SPAN}-01"), format!("01-{TRACE}-{SPAN}-09-what-the-future-brings")] {
        assert_eq!(Client::exchange(weir.web(), &get("/", &format!("traceparent: {value}\r\n"))).status, 200);
        let [trace, _, flags] = trace_context(&origin.last_request());
        assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "01"), "{value}");
    }
}
