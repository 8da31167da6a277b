//! Which responses are compressed or decompressed on their way, and what their heads say then (RFC 9110 sections 8.4, 8.8 and 12.5).
//!
//! Decided by the plan of the route, by what the client accepts, and by status and fields of the response, whatever gives that response. A
//! response that would be another for another client says so in `Vary`. Must not know how a body is encoded.

use weir_config::{Compression, Feature, Stage, is_event_stream};
use weir_http::{AcceptedCodings, ContentCoding, FieldName, FieldWriter, Framing, Method, depends_on_coding};
use weir_observe::CompressionRefusal;

use crate::compression::{CodecLease, CompressionLimits};
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::exchange::exchange_state::response::body_coding::{BodyCoding, RewriteOutcome};
use crate::exchange::exchange_state::response::response_outline::{
    DecodedFields, ResponseFields, ResponseOutline, forbids_changes, has_content, is_unchangeable,
};
use crate::relay::filter::BodyFilter;
use crate::relay::filter::coding::{CodingFilter, FlushMode};
use crate::state::snapshot::{RoutePlan, Snapshot};

/// The name of the field that lists what a response depends on.
const VARY: &str = "vary";

/// The field that responses depend on which are compressed.
const ACCEPT_ENCODING: &[u8] = b"Accept-Encoding";

/// What is to become of a response, and why it passes as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CompressionDecision {
    coding: BodyCoding,
    refusal: Option<CompressionRefusal>,
}

impl CompressionDecision {
    const AS_IT_IS: Self = Self { coding: BodyCoding::AsItIs, refusal: None };

    const fn refused(coding: BodyCoding, refusal: CompressionRefusal) -> Self {
        Self { coding, refusal: Some(refusal) }
    }

    const fn new(coding: BodyCoding) -> Self {
        Self { coding, refusal: None }
    }
}

/// Decides by what is known of the response and of the client.
fn decide(
    plan: &Compression,
    accepted: impl FnOnce() -> AcceptedCodings,
    outline: ResponseOutline,
    fields: &impl ResponseFields,
) -> CompressionDecision {
    use CompressionRefusal::{Encoded, MediaType, NotAccepted, Short, Unchangeable};
    let is_of_type = fields.first("content-type").map(|value| plan.covers(value));
    if outline.status == 304 {
        // It seldom says what type the body has.
        let may_vary = is_of_type.unwrap_or(true) && !is_unchangeable(fields);
        // To a client that gets no coding, the body would have gone as it is, with its own tag (RFC 9110 section 15.4.5).
        let may_change =
            || plan.decompress || accepted().preferred(plan.algorithms.iter().copied()).is_some();
        return CompressionDecision::new(match may_vary {
            false => BodyCoding::AsItIs,
            true if may_change() => BodyCoding::NotModified { varies: true },
            true => BodyCoding::Varies,
        });
    }
    let Some(length) = outline.length.filter(|_| has_content(outline.status)) else {
        return CompressionDecision::AS_IT_IS;
    };
    if outline.status == 206 {
        // The whole would have `Vary`, so a part has it, too (RFC 9110 section 15.3.7).
        let may_vary = is_of_type.unwrap_or(false)
            && !forbids_changes(fields)
            && (plan.decompress || fields.first("content-encoding").is_none());
        let coding = if may_vary { BodyCoding::Varies } else { BodyCoding::AsItIs };
        return CompressionDecision::refused(coding, Unchangeable);
    }
    if is_unchangeable(fields) {
        return CompressionDecision::refused(BodyCoding::AsItIs, Unchangeable);
    }
    let mut codings = fields.values("content-encoding").filter(|value| !value.is_empty());
    if let Some(coding) = codings.next() {
        let known = ContentCoding::from_name(coding).filter(|_| plan.decompress && codings.next().is_none());
        return match known {
            None => CompressionDecision::refused(BodyCoding::AsItIs, Encoded),
            Some(coding) if accepted().accepts(coding) => {
                CompressionDecision::refused(BodyCoding::Varies, Encoded)
            }
            Some(coding) => CompressionDecision::new(BodyCoding::Decompressed(coding)),
        };
    }
    if !is_of_type.unwrap_or(false) {
        return CompressionDecision::refused(BodyCoding::AsItIs, MediaType);
    }
    if matches!(length, Framing::Length(length) if length < plan.length_min) {
        return CompressionDecision::refused(BodyCoding::AsItIs, Short);
    }
    match accepted().preferred(plan.algorithms.iter().copied()) {
        None => CompressionDecision::refused(BodyCoding::Varies, NotAccepted),
        Some(coding) => CompressionDecision::new(BodyCoding::Compressed(coding)),
    }
}

/// Decides about a response of a route that changes bodies, from whatever it comes, and has its body compressed or decompressed.
pub(in crate::exchange) fn begin<S, U>(
    context: &mut Context<'_, S, U>,
    (snapshot, route): (&Snapshot, &RoutePlan),
    outcome: RewriteOutcome,
    (outline, fields): (ResponseOutline, &impl ResponseFields),
) -> BodyCoding {
    let coding = match outcome {
        RewriteOutcome::AsItIs => compress(context, (snapshot, route), (outline, outline.length), fields),
        RewriteOutcome::NotModified => {
            let compressed = compress(context, (snapshot, route), (outline, None), fields);
            BodyCoding::NotModified { varies: compressed.varies() }
        }
        RewriteOutcome::Rewritten => {
            // How long it will be is not known; of one that was compressed, nor how long it is.
            let length = Some(Framing::Delimited);
            let was_compressed = fields.values("content-encoding").any(|coding| !coding.is_empty());
            let outline = if was_compressed { ResponseOutline { length, ..outline } } else { outline };
            match compress(context, (snapshot, route), (outline, length), &DecodedFields(fields)) {
                coding @ BodyCoding::Compressed(_) => coding,
                coding => BodyCoding::Rewritten { varies: coding.varies() },
            }
        }
    };
    context.exchange.body_coding = coding;
    coding
}

/// Has the body compressed or decompressed, as the route wants it. `length` is that of what the codec gets.
fn compress<S, U>(
    context: &mut Context<'_, S, U>,
    (snapshot, route): (&Snapshot, &RoutePlan),
    (outline, length): (ResponseOutline, Option<Framing>),
    fields: &impl ResponseFields,
) -> BodyCoding {
    let Some(plan) = route.config.compression.as_deref() else { return BodyCoding::AsItIs };
    let accepted = || {
        let fields = context.exchange.request.fields().all(FieldName::AcceptEncoding);
        AcceptedCodings::parse(fields.map(|field| field.value.of(&context.exchange.request_text)))
    };
    let mut decision = decide(plan, accepted, outline, fields);
    let stock = &context.client.worker.codecs;
    if context.exchange.request.method() != Method::Head {
        let codec = codec(context.client, snapshot, plan, decision.coding, length);
        match codec {
            Some(Ok(lease)) => {
                let mode = flush_mode(length, fields);
                let filter =
                    CodingFilter::new(lease, mode, &context.client.worker.timers, context.client.now);
                context.exchange.response_relay.add_filter(BodyFilter::Coding(filter));
            }
            Some(Err(refusal)) => decision = CompressionDecision::refused(BodyCoding::Varies, refusal),
            None => {}
        }
    }
    if let Some(refusal) = decision.refusal {
        stock.counters().refused[refusal as usize].increment();
    }
    decision.coding
}

/// What a worker may spend on codecs.
pub(in crate::exchange) fn limits(client: &Client, snapshot: &Snapshot) -> CompressionLimits {
    let process = &snapshot.process;
    CompressionLimits {
        time: process.compression_time.percent(),
        codecs_max: process.compressions_max.div_ceil(client.worker.shared.loads.len().max(1) as u32),
    }
}

/// The codec for a body that is to change.
fn codec(
    client: &Client,
    snapshot: &Snapshot,
    plan: &Compression,
    coding: BodyCoding,
    length: Option<Framing>,
) -> Option<Result<CodecLease, CompressionRefusal>> {
    let limits = limits(client, snapshot);
    let length = match length {
        Some(Framing::Length(length)) => Some(length),
        _ => None,
    };
    let stock = &client.worker.codecs;
    match coding {
        BodyCoding::Compressed(coding) => {
            Some(stock.encoder(coding, plan.levels[coding as usize], length, limits, client.now))
        }
        BodyCoding::Decompressed(coding) => Some(stock.decoder(coding, limits)),
        BodyCoding::AsItIs
        | BodyCoding::Varies
        | BodyCoding::NotModified { .. }
        | BodyCoding::Rewritten { .. } => None,
    }
}

fn flush_mode(length: Option<Framing>, fields: &impl ResponseFields) -> FlushMode {
    match length {
        _ if fields.first("content-type").is_some_and(is_event_stream) => FlushMode::EachPiece,
        Some(Framing::Length(_)) => FlushMode::Late,
        _ => FlushMode::Early,
    }
}

/// Whether a field of the response does not pass as it is.
pub(in crate::exchange) fn is_replaced(coding: BodyCoding, name: &[u8]) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    match coding {
        BodyCoding::AsItIs => false,
        BodyCoding::Varies => is(VARY),
        BodyCoding::NotModified { varies } => varies && is(VARY) || is("etag"),
        BodyCoding::Rewritten { varies } => varies && is(VARY) || is_of_body(name),
        BodyCoding::Compressed(_) | BodyCoding::Decompressed(_) => is(VARY) || is_of_body(name),
    }
}

/// Whether a field holds for the body as the server has sent it.
fn is_of_body(name: &[u8]) -> bool {
    let named = ["etag", "content-encoding"].iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    named || depends_on_coding(name)
}

/// Adds the fields that say what became of the body, in place of those that [`is_replaced`] names.
pub(in crate::exchange) fn write(
    out: &mut impl FieldWriter,
    exchange: &Exchange,
    fields: &impl ResponseFields,
    changes: HeadChanges<'_>,
) {
    let coding = exchange.body_coding;
    if coding == BodyCoding::AsItIs {
        return;
    }
    if matches!(coding, BodyCoding::Rewritten { .. }) && exchange.rewritten_fields.is_none() {
        acting::note(Stage::ResponseFields, Feature::Rewriting);
    }
    if coding.varies() {
        acting::note(Stage::ResponseFields, Feature::Compression);
    }
    if let BodyCoding::Compressed(coding) = coding {
        out.field(b"Content-Encoding", coding.name().as_bytes());
    }
    if let Some(etag) =
        fields.first("etag").filter(|_| coding != BodyCoding::Varies && changes.leave(b"etag"))
    {
        write_etag(out, exchange, coding, etag);
    }
    if coding.varies() && changes.leave(VARY.as_bytes()) {
        write_vary(out, fields);
    }
}

/// Bodies of several codings are no longer equal byte by byte, but the same content (RFC 9110 section 8.8.1). A client that asks with the
/// weak tag has got that from here.
fn write_etag(out: &mut impl FieldWriter, exchange: &Exchange, coding: BodyCoding, etag: &[u8]) {
    let is_strong = etag.starts_with(b"\"");
    if is_strong && (coding.changes_body() || asks_with_weak(exchange, etag)) {
        out.field_with(b"ETag", |value| {
            value.extend_from_slice(b"W/");
            value.extend_from_slice(etag);
        });
    } else {
        out.field(b"ETag", etag);
    }
}

/// Whether the request asks about the weak form of a strong entity tag.
fn asks_with_weak(exchange: &Exchange, etag: &[u8]) -> bool {
    exchange.request.fields().all(FieldName::IfNoneMatch).any(|field| {
        let value = field.value.of(&exchange.request_text);
        // An entity tag contains no quotes but those around it.
        memchr::memmem::find_iter(value, etag).any(|at| value[..at].ends_with(b"W/"))
    })
}

/// Adds `Accept-Encoding` to what the response says it depends on.
fn write_vary(out: &mut impl FieldWriter, fields: &impl ResponseFields) {
    let named = |member: &[u8]| member == b"*" || member.eq_ignore_ascii_case(ACCEPT_ENCODING);
    let members = || fields.values(VARY).flat_map(|value| value.split(|byte| *byte == b','));
    let is_named = members().any(|member| named(member.trim_ascii()));
    let known = fields.values(VARY).filter(|known| !known.is_empty());
    let more = (!is_named).then_some(ACCEPT_ENCODING);
    out.field_with(b"Vary", |value| {
        for (at, names) in known.chain(more).enumerate() {
            if at > 0 {
                value.extend_from_slice(b", ");
            }
            value.extend_from_slice(names);
        }
    });
}

#[cfg(test)]
mod tests {
    use weir_config::Config;
    use weir_http::ContentCoding::{Brotli, Gzip};

    use super::*;
    use crate::exchange::exchange_state::response::kept_fields::KeptFields;
    use crate::exchange::exchange_state::response::response_outline::OwnFields;

    /// The compression of a listener with these keys.
    fn plan(keys: &str) -> Compression {
        let text = format!(
            "listener.web = {{ address = \":80\", upstream = \"app\", compression = {{ {keys} }} }}\n\
             upstream.app.servers = [\"10.0.0.1:80\"]\n"
        );
        let config = Config::parse(&text, "test.toml").expect("the config is valid");
        *config.listeners[0].routes[0].compression.clone().expect("it compresses")
    }

    /// What becomes of a response with these fields, one a line.
    fn decided(
        plan: &Compression,
        accepts: &str,
        status: u16,
        length: Option<Framing>,
        head: &str,
    ) -> CompressionDecision {
        let fields: Vec<(&[u8], &[u8])> = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        let accepted = || AcceptedCodings::parse(std::iter::once(accepts.as_bytes()));
        decide(plan, accepted, ResponseOutline { status, length }, &OwnFields(&fields, KeptFields::default()))
    }

    const HTML: &str = "Content-Type: text/html";
    const LONG: Option<Framing> = Some(Framing::Length(10_240));
    const UNKNOWN: Option<Framing> = Some(Framing::Delimited);

    #[test]
    fn what_becomes_of_each_response() {
        use BodyCoding::{AsItIs, Compressed, Decompressed, Varies};
        const NOT_MODIFIED: BodyCoding = BodyCoding::NotModified { varies: true };
        use CompressionRefusal::{Encoded, MediaType, NotAccepted, Short, Unchangeable};
        let usual = plan("algorithms = [\"br\", \"gzip\"]");
        let decoding = plan("algorithms = [\"gzip\"], decompress = true, min_length = \"0B\"");
        let encoded = "Content-Type: text/html\nContent-Encoding: gzip";
        for (plan, accepts, status, length, head, coding, refusal) in [
            (&usual, "gzip", 200, LONG, HTML, Compressed(Gzip), None),
            (&usual, "gzip, br", 200, UNKNOWN, HTML, Compressed(Brotli), None),
            (&usual, "gzip", 404, LONG, HTML, Compressed(Gzip), None),
            (&usual, "", 200, LONG, HTML, Varies, Some(NotAccepted)),
            (&usual, "zstd", 200, LONG, HTML, Varies, Some(NotAccepted)),
            (&usual, "gzip", 200, Some(Framing::Length(1023)), HTML, AsItIs, Some(Short)),
            (&usual, "gzip", 200, Some(Framing::Length(1024)), HTML, Compressed(Gzip), None),
            (&decoding, "gzip", 200, Some(Framing::Length(1)), HTML, Compressed(Gzip), None),
            (&usual, "gzip", 200, None, HTML, AsItIs, None),
            (&usual, "gzip", 204, UNKNOWN, HTML, AsItIs, None),
            (&usual, "gzip", 205, LONG, HTML, AsItIs, None),
            (&usual, "gzip", 206, LONG, HTML, Varies, Some(Unchangeable)),
            (&usual, "gzip", 206, LONG, "Content-Type: image/png", AsItIs, Some(Unchangeable)),
            (&usual, "gzip", 206, LONG, encoded, AsItIs, Some(Unchangeable)),
            (&decoding, "gzip", 206, LONG, encoded, Varies, Some(Unchangeable)),
            (&usual, "gzip", 200, LONG, "", AsItIs, Some(MediaType)),
            (&usual, "gzip", 200, LONG, "Content-Type: image/png", AsItIs, Some(MediaType)),
            (&usual, "gzip", 200, LONG, "Content-Type: text/event-stream", AsItIs, Some(MediaType)),
            (
                &usual,
                "gzip",
                200,
                LONG,
                "Content-Type: text/html\nCache-Control: a, no-transform",
                AsItIs,
                Some(Unchangeable),
            ),
            (
                &usual,
                "gzip",
                200,
                LONG,
                "Content-Type: text/html\nContent-Range: bytes 0-1/2",
                AsItIs,
                Some(Unchangeable),
            ),
            (&usual, "br", 200, LONG, encoded, AsItIs, Some(Encoded)),
            (&decoding, "br", 200, LONG, encoded, Decompressed(Gzip), None),
            (&decoding, "gzip;q=0.1", 200, LONG, encoded, Varies, Some(Encoded)),
            (&decoding, "", 200, LONG, "Content-Encoding: x-gzip", Decompressed(Gzip), None),
            (&decoding, "", 200, LONG, "Content-Encoding: deflate", AsItIs, Some(Encoded)),
            (&decoding, "", 200, LONG, "Content-Encoding: gzip, br", AsItIs, Some(Encoded)),
            (&decoding, "", 200, LONG, "Content-Encoding: gzip\nContent-Encoding: br", AsItIs, Some(Encoded)),
            (
                &decoding,
                "",
                200,
                LONG,
                "Content-Encoding: gzip\nCache-Control: no-transform",
                AsItIs,
                Some(Unchangeable),
            ),
            (&usual, "gzip", 304, None, "", NOT_MODIFIED, None),
            (&usual, "gzip", 304, None, HTML, NOT_MODIFIED, None),
            (&usual, "", 304, None, HTML, Varies, None),
            (&usual, "zstd, gzip;q=0", 304, None, "", Varies, None),
            (&decoding, "", 304, None, "", NOT_MODIFIED, None),
            (&usual, "gzip", 304, None, "Content-Type: image/png", AsItIs, None),
            (&usual, "gzip", 304, None, "Cache-Control: no-transform", AsItIs, None),
        ] {
            let expected = CompressionDecision { coding, refusal };
            assert_eq!(decided(plan, accepts, status, length, head), expected, "{status} {accepts} {head}");
        }
    }
}
