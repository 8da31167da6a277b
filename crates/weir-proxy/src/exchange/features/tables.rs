//! Tables of counters: which requests they count, and when their general purpose counters are raised.
//!
//! A request is counted before lists and limits are asked, so that it counts if they refuse it, and so that they know of it. Its response and its bytes
//! count when the exchange is over (`exchange_limits.rs`). Must not answer.

use weir_config::{Feature, Stage, WhenCondition};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::state::snapshot::{RequestRules, RoutePlan};
use crate::state::tables::table::TablePlan;

/// Counts a request, or a connection of TCP, in those of the tables that count at a stage.
#[cold]
pub(in crate::exchange) fn track<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    (route, rules): (Option<&RoutePlan>, &RequestRules),
    stage: Stage,
) {
    acting::note(stage, Feature::Tables);
    context.exchange.limits.is_asked = true;
    for table in rules.tables.iter().filter(|table| (table.stage > Stage::Route) == (stage > Stage::Route)) {
        let plan = &table.plan;
        // One that goes on elsewhere has been counted.
        if context.exchange.limits.tracked.iter().any(|hold| hold.plan.name() == plan.name()) {
            continue;
        }
        let mut text = std::mem::take(&mut context.exchange.limits.text);
        let mut tracked = std::mem::take(&mut context.exchange.limits.tracked);
        let begun = tracked.len();
        let values = TemplateValues::new(context, route);
        let holds = |condition: &WhenCondition| condition.holds(&values);
        if plan.config.when.as_ref().is_none_or(holds) {
            let (now, is_request) = (context.client.now, context.client.protocol.routes_requests());
            let address = || values.client_address();
            let keys = plan.find_keys(&values, address, &mut text);
            tracked
                .extend(keys.iter().filter_map(|key| plan.begin(key, is_request, (&values, address), now)));
        }
        context.exchange.limits.text = text;
        context.exchange.limits.tracked = tracked;
        if context.exchange.limits.tracked.len() > begun {
            let values = TemplateValues::new(context, route);
            let raised = raised(plan, &values, false);
            for hold in &context.exchange.limits.tracked[begun..] {
                raise(plan, hold.key, raised);
            }
        }
    }
}

/// Which of the general purpose counters an exchange raises, when it is counted or at its end.
fn raised(plan: &TablePlan, values: &TemplateValues<'_>, is_at_end: bool) -> [bool; 2] {
    plan.config.increments.each_ref().map(|increment| {
        increment.as_ref().is_some_and(|condition| {
            plan.config.is_asked_at_end(condition) == is_at_end && condition.holds(values)
        })
    })
}

fn raise(plan: &TablePlan, key: u64, raised: [bool; 2]) {
    for (number, _) in raised.into_iter().enumerate().filter(|(_, is_raised)| *is_raised) {
        plan.increment(key, number, clock::now());
    }
}

/// Raises the counters whose conditions ask for what is known at the end of an exchange; of a tunnel, when it begins.
#[cold]
pub(in crate::exchange) fn increment_at_end<U>(context: &mut Context<'_, impl ClientEnd, U>) {
    let (exchange, head) = (&*context.exchange, &context.exchange.response_text[..]);
    let response = (!head.is_empty()).then(|| (exchange.response.fields(), head));
    let values = TemplateValues::new(context, context.route());
    let values = TemplateValues { response, status: exchange.record.status, ..values };
    for hold in exchange.limits.tracked.iter().filter(|hold| hold.plan.asks_at_end) {
        raise(&hold.plan, hold.key, raised(&hold.plan, &values, true));
    }
}
