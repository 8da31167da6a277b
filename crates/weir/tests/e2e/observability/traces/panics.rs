//! A panic in the export of traces, which a test orders: the batch in hand is lost and counted, and later ones are sent.

use super::collector::Collector;
use super::{config, get};
use crate::harness::{Client, Origin, Weir, eventually};

#[test]
fn traces_go_on_after_a_panic() {
    let (origin, collector) = (Origin::serving("seen"), Collector::start());
    let weir = Weir::start_faulty(&config(&origin, &format!("endpoint = \"{}\"", collector.url())));
    let order = "Weir-Fault: panic-task the export of traces\r\n";
    // It is in the batch itself.
    assert_eq!(Client::exchange(weir.web(), &get("/", order)).status, 200);
    weir.line(&["a task of the control plane has ended by a defect of Weir", "the export of traces"]);
    eventually("its spans are counted", || {
        weir.metrics().sum("weir_trace_spans_dropped_total", &["reason=\"refused\""]) == 2.0
    });
    assert_eq!(Client::exchange(weir.web(), &get("/", "")).status, 200);
    assert_eq!(collector.wait_for(2).len(), 2);
}
