//! The trace that an exchange belongs to (W3C Trace Context): its id, whether it is sampled, and the field `traceparent` for servers.
//!
//! Decided once, when the head is there. Nothing here allocates; without tracing the cost is one branch. Sampled exchanges are
//! exported by `trace_export` of weir-control.

use weir_config::{AcceptFrom, Feature, Stage};
use weir_http::{FieldName, FieldSet, FieldWriter, Traceparent, Version};
use weir_observe::Phase;

use super::recording;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::exchange::exchange_state::record::Trace;
use crate::state::snapshot::TracePlan;
use crate::state::tracing::trace_queue::{ExchangeSpan, SampledExchange};
use crate::state::worker_config::WorkerConfig;

/// Maximum length of a rewritten path that is kept.
const PATH_BYTES_MAX: usize = 256;

/// Finds out which trace the request belongs to, if anything is traced.
#[inline]
pub(in crate::exchange) fn begin<S, U>(context: &mut Context<'_, S, U>) {
    if let Some(plan) = &context.config.snapshot.traces {
        begin_traced(context, plan);
    }
}

#[inline(never)]
fn begin_traced<S, U>(context: &mut Context<'_, S, U>, plan: &TracePlan) {
    acting::note(Stage::RequestHead, Feature::Telemetry);
    let is_believed = match plan.follow {
        AcceptFrom::Never => false,
        AcceptFrom::TrustedProxies => context.listener.trusts(context.client.peer),
        AcceptFrom::Always => true,
    };
    let caller = if is_believed { caller(context.exchange) } else { None };
    let is_http_10 = context.exchange.request.version() == Version::Http10;
    context.exchange.record.trace = Trace {
        own: Some(place(context.client, context.config, plan, caller, is_http_10)),
        stripped: match caller {
            Some(_) => FieldSet::new(&[FieldName::Traceparent]),
            None => FieldSet::new(&[FieldName::Traceparent, FieldName::Tracestate]),
        },
    };
}

/// A trace for a request whose head could not be read, if anything is traced.
#[cold]
pub(in crate::exchange) fn begin_late<S, U>(context: &mut Context<'_, S, U>, phase: Phase) {
    // Before there was any request there is nothing to trace.
    let came = phase >= Phase::Request;
    if let (None, true, Some(plan)) =
        (context.exchange.record.trace.own, came, &context.config.snapshot.traces)
    {
        let own = place(context.client, context.config, plan, None, false);
        context.exchange.record.trace.own = Some(own);
    }
}

/// What the client says, when it says it once and by the rules (section 3.2.1: several are none).
fn caller(exchange: &Exchange) -> Option<Traceparent> {
    let mut all = exchange.request.fields().all(FieldName::Traceparent);
    let (only, more) = (all.next()?, all.next());
    Traceparent::parse(only.value.of(&exchange.request_text)).filter(|_| more.is_none())
}

fn place(
    client: &Client,
    config: &WorkerConfig,
    plan: &TracePlan,
    caller: Option<Traceparent>,
    is_http_10: bool,
) -> ExchangeSpan {
    let random = || client.worker.random();
    let trace_id = match caller {
        Some(caller) => caller.trace_id,
        None => u128::from(random()) << 64 | u128::from(random()),
    };
    let is_wanted = caller.map_or_else(|| plan.share.takes(trace_id), |caller| caller.is_sampled);
    let is_sampled = is_wanted && client.worker.may_sample(plan, client.now - config.snapshot.epoch);
    ExchangeSpan {
        traceparent: Traceparent { trace_id, span_id: random(), is_sampled },
        parent_id: caller.map_or(0, |caller| caller.span_id),
        is_http_10,
    }
}

/// Adds `traceparent` with the span of the current attempt, unless the route sets that field.
#[inline]
pub(crate) fn write(out: &mut impl FieldWriter, exchange: &Exchange, changes: HeadChanges<'_>) {
    if let Some(own) = &exchange.record.trace.own {
        write_traced(out, own, exchange.attempt_trace.seen(), changes);
    }
}

#[inline(never)]
fn write_traced(out: &mut impl FieldWriter, own: &ExchangeSpan, attempt: u8, changes: HeadChanges<'_>) {
    let name = FieldName::Traceparent.as_str().as_bytes();
    acting::note(Stage::Server, Feature::Telemetry);
    if changes.leave(name) {
        let span = Traceparent { span_id: own.attempt_id(attempt), ..own.traceparent };
        out.field_with(name, |out| span.write(out));
    }
}

/// Hands a sampled exchange over that is over, to where the newest config says.
pub(crate) fn hand_over(client: &Client, exchange: &Exchange, config: &WorkerConfig) {
    // Not while it is being replaced, which a connection that ends by a panic could come across.
    let Ok(present) = client.worker.config.try_borrow() else { return };
    let (Some(plan), Some(own)) = (&present.snapshot.traces, exchange.record.trace.sampled()) else { return };
    let sampled = || {
        let rewritten = exchange.rewritten.split(|byte| *byte == b'?').next().unwrap_or_default();
        let rewritten = &rewritten[..rewritten.len().min(PATH_BYTES_MAX)];
        Box::new(SampledExchange {
            own: *own,
            recorded: recording::full(client, exchange, config),
            rewritten: (!rewritten.is_empty()).then(|| rewritten.into()),
        })
    };
    if !plan.outlet.send(sampled) {
        client.worker.shard.traces_dropped.increment();
    }
}
