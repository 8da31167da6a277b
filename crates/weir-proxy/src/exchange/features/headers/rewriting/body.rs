//! Which bodies are rewritten on their way, and what is put in (`rewrite_body`).
//!
//! Decided by the plan of the route, and by status and fields of the response, whatever gives that response. A body that a server has compressed is
//! decoded before; whether it is compressed again is the matter of `compression`. Must not know how a body is searched.

use std::sync::Arc;

use weir_config::{BodyPart, BodyRewrite, HeaderName};
use weir_http::{ContentCoding, Framing, Method};
use weir_observe::{CompressionRefusal, escape_for};
use weir_rewrite::{BodyRewriter, MatchReplacement, ReplacementPiece};

use crate::compression::CompressionLimits;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::response::body_coding::{BodyCoding, RewriteOutcome};
use crate::exchange::exchange_state::response::response_outline::{
    ReceivedFields, ResponseFields, ResponseOutline, has_content, is_unchangeable,
};
use crate::exchange::features::compression;
use crate::exchange::features::headers::fields::kept_with;
use crate::exchange::placeholders::TemplateValues;
use crate::relay::filter::BodyFilter;
use crate::relay::filter::coding::{CodingFilter, FlushMode};
use crate::relay::filter::rewrite::RewriteFilter;
use crate::responder::fixed::format_of;
use crate::state::snapshot::{RoutePlan, Snapshot};

/// What is to become of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RewriteDecision {
    AsItIs,
    /// It is in a coding that Weir does not know.
    Encoded,
    NotModified,
    /// It is rewritten, and decoded before.
    Rewrite(Option<ContentCoding>),
}

/// Decides by what is known of the response.
fn decide(plan: &BodyRewrite, outline: ResponseOutline, fields: &impl ResponseFields) -> RewriteDecision {
    let content_type = fields.first("content-type");
    let is_of_type = plan.covers(content_type);
    // A 304 seldom says what type the body has.
    if is_unchangeable(fields) || !is_of_type && (content_type.is_some() || outline.status != 304) {
        return RewriteDecision::AsItIs;
    }
    if outline.status == 304 {
        return RewriteDecision::NotModified;
    }
    let has_body = outline.length.is_some() && has_content(outline.status);
    if !has_body || outline.status == 206 {
        return RewriteDecision::AsItIs;
    }
    let mut codings = fields.values("content-encoding").filter(|value| !value.is_empty());
    let Some(coding) = codings.next() else { return RewriteDecision::Rewrite(None) };
    match ContentCoding::from_name(coding).filter(|_| codings.next().is_none()) {
        None => RewriteDecision::Encoded,
        coding => RewriteDecision::Rewrite(coding),
    }
}

/// Prepares for the response of a server, of which `head` is the text; gives the length that its body has for the client.
#[cold]
pub(in crate::exchange) fn begin_received<S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    head: &[u8],
    length: Framing,
) -> Framing {
    let response = std::mem::take(&mut context.exchange.response);
    let method = context.exchange.request.method();
    let outline = ResponseOutline::new(response.status(), method, length, response.content_length());
    let kept = kept_with(context.exchange, response.status(), (response.fields(), head));
    let fields = ReceivedFields { fields: response.fields(), text: head, kept };
    let length = begin(context, (&plans.config.snapshot, plans.route), outline, &fields).framing_for(length);
    context.exchange.response = response;
    length
}

/// Prepares for a response of a route that changes bodies, from whatever it comes: has it rewritten, then compressed or decompressed.
#[cold]
pub(in crate::exchange) fn begin<S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    (snapshot, route): (&Snapshot, &RoutePlan),
    outline: ResponseOutline,
    fields: &impl ResponseFields,
) -> BodyCoding {
    context.exchange.body_coding = BodyCoding::AsItIs;
    // A coding that the route itself names is that of the body: for some responses at least.
    let is_coding = |name: &HeaderName| &**name == "content-encoding";
    let names_coding = route.config.response_headers.replaced().any(is_coding);
    if context.exchange.grpc.is_some() || names_coding {
        return BodyCoding::AsItIs;
    }
    let limits = compression::limits(context.client, snapshot);
    let outcome = rewrite(context, route, limits, (outline, fields));
    compression::begin(context, (snapshot, route), outcome, (outline, fields))
}

/// Whether a route changes bodies.
#[inline(always)]
pub(in crate::exchange) fn is_wanted(route: &RoutePlan) -> bool {
    route.config.compression.is_some() || route.config.rewrite_body.is_some()
}

/// Has the body rewritten, if the route wants that.
fn rewrite<S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    route: &RoutePlan,
    limits: CompressionLimits,
    (outline, fields): (ResponseOutline, &impl ResponseFields),
) -> RewriteOutcome {
    let Some(plan) = route.config.rewrite_body.as_deref() else { return RewriteOutcome::AsItIs };
    let coding = match decide(plan, outline, fields) {
        RewriteDecision::AsItIs => return RewriteOutcome::AsItIs,
        RewriteDecision::NotModified => return RewriteOutcome::NotModified,
        RewriteDecision::Encoded => return passes(context, route, CompressionRefusal::Encoded),
        RewriteDecision::Rewrite(coding) => coding,
    };
    if context.exchange.request.method() == Method::Head {
        return RewriteOutcome::Rewritten;
    }
    if let Some(coding) = coding {
        let lease = match context.client.worker.codecs.decoder(coding, limits) {
            Ok(lease) => lease,
            Err(refusal) => return passes(context, route, refusal),
        };
        let (timers, now) = (&context.client.worker.timers, context.client.now);
        let filter = CodingFilter::new(lease, FlushMode::Late, timers, now);
        context.exchange.response_relay.add_filter(BodyFilter::Coding(filter));
    }
    let to = resolve(context, (plan, route), outline, fields);
    let rewriter = BodyRewriter::new(Arc::clone(&plan.rules), to);
    context.exchange.response_relay.add_filter(BodyFilter::Rewrite(RewriteFilter::new(rewriter)));
    RewriteOutcome::Rewritten
}

/// The body passes although the route would have it rewritten.
fn passes<S, U>(
    context: &Context<'_, S, U>,
    route: &RoutePlan,
    refusal: CompressionRefusal,
) -> RewriteOutcome {
    context.client.worker.codecs.counters().not_rewritten[refusal as usize].increment();
    tracing::debug!(
        route = &*route.config.name,
        reason = refusal.name(),
        "a body passes without being rewritten"
    );
    RewriteOutcome::AsItIs
}

/// What each rule puts in place of its matches in this response.
fn resolve<S: ClientEnd, U>(
    context: &Context<'_, S, U>,
    (plan, route): (&BodyRewrite, &RoutePlan),
    outline: ResponseOutline,
    fields: &impl ResponseFields,
) -> Vec<MatchReplacement> {
    let values = TemplateValues::new(context, Some(route));
    let values = TemplateValues { response: fields.received(), status: outline.status, ..values };
    let content_type = fields.first("content-type").unwrap_or_default();
    let format = format_of(&String::from_utf8_lossy(content_type));
    let piece = |part: &BodyPart| match part {
        BodyPart::Literal(text) => ReplacementPiece::Text(text.as_bytes().into()),
        BodyPart::Group(group) => ReplacementPiece::Group(*group),
        BodyPart::Value(value) => {
            let (mut text, mut escaped) = (Vec::new(), Vec::new());
            values.write_one(value, &mut text);
            match format {
                Some(format) => escape_for(format, &text, &mut escaped),
                None => escaped = text,
            }
            ReplacementPiece::Text(escaped.into())
        }
    };
    plan.to.iter().map(|parts| parts.iter().map(piece).collect()).collect()
}

#[cfg(test)]
mod tests {
    use weir_config::Config;
    use weir_http::ContentCoding::Gzip;

    use super::RewriteDecision::{AsItIs, Encoded, NotModified, Rewrite};
    use super::*;
    use crate::exchange::exchange_state::response::kept_fields::KeptFields;
    use crate::exchange::exchange_state::response::response_outline::OwnFields;

    #[test]
    fn which_responses_are_rewritten() {
        let text = "listener.web = { address = \":80\", upstream = \"app\", rewrite_body = { rules = [{ text = \"a\", to = \"b\" }] } }\n\
                    upstream.app.servers = [\"10.0.0.1:80\"]\n";
        let config = Config::parse(text, "test.toml").expect("the config is valid");
        let plan = config.listeners[0].routes[0].rewrite_body.clone().expect("it rewrites");
        let (body, html) = (Some(Framing::Delimited), "Content-Type: Text/HTML; charset=utf-8");
        for (status, length, head, expected) in [
            (200, body, html, Rewrite(None)),
            (404, body, html, Rewrite(None)),
            (200, body, "", AsItIs),
            (200, body, "Content-Type: text/css", AsItIs),
            (200, None, html, AsItIs),
            (204, body, html, AsItIs),
            (205, body, html, AsItIs),
            (206, body, html, AsItIs),
            (200, body, "Content-Type: text/html\nContent-Range: bytes 0-1/2", AsItIs),
            (200, body, "Content-Type: text/html\nCache-Control: a, No-Transform", AsItIs),
            (200, body, "Content-Type: text/html\nContent-Encoding: gzip", Rewrite(Some(Gzip))),
            (200, body, "Content-Type: text/html\nContent-Encoding: deflate", Encoded),
            (200, body, "Content-Type: text/html\nContent-Encoding: gzip, br", Encoded),
            (200, body, "Content-Type: text/html\nContent-Encoding: gzip\nContent-Encoding: br", Encoded),
            (200, body, "Content-Type: text/css\nContent-Encoding: deflate", AsItIs),
            (304, None, "", NotModified),
            (304, None, html, NotModified),
            (304, None, "Content-Type: image/png", AsItIs),
            (304, None, "Cache-Control: no-transform", AsItIs),
        ] {
            let fields: Vec<(&[u8], &[u8])> = head
                .lines()
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
                .collect();
            let decided =
                decide(&plan, ResponseOutline { status, length }, &OwnFields(&fields, KeptFields::default()));
            assert_eq!(decided, expected, "{status} {head}");
        }
    }
}
