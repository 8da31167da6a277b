//! Which responses are compressed or decompressed on their way, and what their heads say then (RFC 9110 sections 8.4, 8.8 and 12.5).
//!
//! Decided by the plan of the route, by what the client accepts, and by status and fields of the response, whatever gives that response. A
//! response that would be another for another client says so in `Vary`. Must not know how a body is encoded.

use weir_config::{Compression, Feature, HeaderName, Stage, is_event_stream};
use weir_http::{
    AcceptedCodings, ContentCoding, FieldName, FieldWriter, Fields, Framing, Method, depends_on_coding,
};
use weir_observe::CompressionRefusal;

use crate::compression::{CodecLease, CompressionLimits};
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::body_coding::BodyCoding;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::exchange::exchange_state::plans::Plans;
use crate::relay::filter::BodyFilter;
use crate::relay::filter::coding::{CodingFilter, FlushMode};
use crate::state::snapshot::{RoutePlan, Snapshot};

/// The name of the field that lists what a response depends on.
const VARY: &str = "vary";

/// The field that responses depend on which are compressed.
const ACCEPT_ENCODING: &[u8] = b"Accept-Encoding";

/// The fields of a response, of a server or of Weir itself.
pub(in crate::exchange) trait ResponseFields {
    /// The values of the fields of this name, which is in lower case.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;

    fn first<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.values(name).next()
    }
}

/// Those of a received head.
pub(in crate::exchange) struct ReceivedFields<'a> {
    pub(in crate::exchange) fields: &'a Fields,
    pub(in crate::exchange) text: &'a [u8],
}

impl ResponseFields for ReceivedFields<'_> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.all_by_name(self.text, name).map(|field| field.value.of(self.text))
    }
}

/// Those of an answer of Weir's own.
pub(in crate::exchange) struct OwnFields<'a, V>(pub(in crate::exchange) &'a [(&'a [u8], V)]);

impl<V: AsRef<[u8]>> ResponseFields for OwnFields<'_, V> {
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_named = move |other: &[u8]| other.eq_ignore_ascii_case(name.as_bytes());
        self.0.iter().filter(move |(other, _)| is_named(other)).map(|(_, value)| value.as_ref())
    }
}

/// What is known of a response before its body.
#[derive(Debug, Clone, Copy)]
pub(in crate::exchange) struct ResponseOutline {
    pub(in crate::exchange) status: u16,
    /// The length of the body that GET would bring: `None` when there is none.
    pub(in crate::exchange) length: Option<Framing>,
}

impl ResponseOutline {
    /// Of a response with a body of this length, and `announced` where the answer to HEAD tells it.
    pub(in crate::exchange) fn new(
        status: u16,
        method: Method,
        length: Framing,
        announced: Option<u64>,
    ) -> Self {
        let length = match (length, method) {
            (Framing::None, Method::Head) => match announced {
                Some(0) => None,
                Some(length) => Some(Framing::Length(length)),
                None => Some(Framing::Delimited),
            },
            (length, _) => Some(length).filter(|length| !length.is_empty()),
        };
        Self { status, length }
    }
}

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
            true if may_change() => BodyCoding::NotModified,
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

/// Whether a final response of this status may have content of its own, or a part of some.
const fn has_content(status: u16) -> bool {
    status >= 200 && !matches!(status, 204 | 205 | 304)
}

/// Whether the body may not be changed, or is a part.
fn is_unchangeable(fields: &impl ResponseFields) -> bool {
    forbids_changes(fields) || fields.first("content-range").is_some()
}

/// Whether the response says that its body may not be changed (RFC 9110 section 7.7).
fn forbids_changes(fields: &impl ResponseFields) -> bool {
    let forbids = |value: &[u8]| {
        value.split(|byte| *byte == b',').any(|part| part.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
    };
    fields.values("cache-control").any(forbids)
}

/// Prepares for the response of a server, of which `head` is the text; gives the length that its body has for the client.
#[cold]
pub(in crate::exchange) fn begin_received<S, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    head: &[u8],
    length: Framing,
) -> Framing {
    let response = std::mem::take(&mut context.exchange.response);
    let method = context.exchange.request.method();
    let outline = ResponseOutline::new(response.status(), method, length, response.content_length());
    let fields = ReceivedFields { fields: response.fields(), text: head };
    let length = begin(context, (&plans.config.snapshot, plans.route), outline, &fields).framing_for(length);
    context.exchange.response = response;
    length
}

/// Prepares for a response of a route with compression, from whatever it comes.
#[cold]
pub(in crate::exchange) fn begin<S, U>(
    context: &mut Context<'_, S, U>,
    (snapshot, route): (&Snapshot, &RoutePlan),
    outline: ResponseOutline,
    fields: &impl ResponseFields,
) -> BodyCoding {
    context.exchange.body_coding = BodyCoding::AsItIs;
    let Some(plan) = route.config.compression.as_deref() else { return BodyCoding::AsItIs };
    // A coding that the route itself names is that of the body: for some responses at least.
    let is_coding = |name: &HeaderName| &**name == "content-encoding";
    if context.exchange.grpc.is_some() || route.config.response_headers.replaced().any(is_coding) {
        return BodyCoding::AsItIs;
    }
    let accepted = || {
        let fields = context.exchange.request.fields().all(FieldName::AcceptEncoding);
        AcceptedCodings::parse(fields.map(|field| field.value.of(&context.exchange.request_text)))
    };
    let mut decision = decide(plan, accepted, outline, fields);
    let stock = &context.client.worker.codecs;
    if context.exchange.request.method() != Method::Head {
        let codec = codec(context.client, snapshot, plan, decision.coding, outline);
        match codec {
            Some(Ok(lease)) => {
                let mode = flush_mode(outline, fields);
                let filter =
                    CodingFilter::new(lease, mode, &context.client.worker.timers, context.client.now);
                context.exchange.response_relay.set_filter(BodyFilter::Coding(filter));
            }
            Some(Err(refusal)) => decision = CompressionDecision::refused(BodyCoding::Varies, refusal),
            None => {}
        }
    }
    if let Some(refusal) = decision.refusal {
        stock.counters().refused[refusal as usize].increment();
    }
    context.exchange.body_coding = decision.coding;
    decision.coding
}

/// The codec for a body that is to change.
fn codec(
    client: &Client,
    snapshot: &Snapshot,
    plan: &Compression,
    coding: BodyCoding,
    outline: ResponseOutline,
) -> Option<Result<CodecLease, CompressionRefusal>> {
    let process = &snapshot.process;
    let limits = CompressionLimits {
        time: process.compression_time.percent(),
        codecs_max: process.compressions_max.div_ceil(client.worker.shared.loads.len().max(1) as u32),
    };
    let length = match outline.length {
        Some(Framing::Length(length)) => Some(length),
        _ => None,
    };
    let stock = &client.worker.codecs;
    match coding {
        BodyCoding::Compressed(coding) => {
            Some(stock.encoder(coding, plan.levels[coding as usize], length, limits, client.now))
        }
        BodyCoding::Decompressed(coding) => Some(stock.decoder(coding, limits)),
        BodyCoding::AsItIs | BodyCoding::Varies | BodyCoding::NotModified => None,
    }
}

fn flush_mode(outline: ResponseOutline, fields: &impl ResponseFields) -> FlushMode {
    match outline.length {
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
        BodyCoding::NotModified => is(VARY) || is("etag"),
        BodyCoding::Compressed(_) | BodyCoding::Decompressed(_) => {
            is(VARY) || is("etag") || is("content-encoding") || depends_on_coding(name)
        }
    }
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
    acting::note(Stage::ResponseFields, Feature::Compression);
    if let BodyCoding::Compressed(coding) = coding {
        out.field(b"Content-Encoding", coding.name().as_bytes());
    }
    if let Some(etag) =
        fields.first("etag").filter(|_| coding != BodyCoding::Varies && changes.leave(b"etag"))
    {
        write_etag(out, exchange, coding, etag);
    }
    if changes.leave(VARY.as_bytes()) {
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
        decide(plan, accepted, ResponseOutline { status, length }, &OwnFields(&fields))
    }

    const HTML: &str = "Content-Type: text/html";
    const LONG: Option<Framing> = Some(Framing::Length(10_240));
    const UNKNOWN: Option<Framing> = Some(Framing::Delimited);

    #[test]
    fn what_becomes_of_each_response() {
        use BodyCoding::{AsItIs, Compressed, Decompressed, NotModified, Varies};
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
            (&usual, "gzip", 304, None, "", NotModified, None),
            (&usual, "gzip", 304, None, HTML, NotModified, None),
            (&usual, "", 304, None, HTML, Varies, None),
            (&usual, "zstd, gzip;q=0", 304, None, "", Varies, None),
            (&decoding, "", 304, None, "", NotModified, None),
            (&usual, "gzip", 304, None, "Content-Type: image/png", AsItIs, None),
            (&usual, "gzip", 304, None, "Cache-Control: no-transform", AsItIs, None),
        ] {
            let expected = CompressionDecision { coding, refusal };
            assert_eq!(decided(plan, accepts, status, length, head), expected, "{status} {accepts} {head}");
        }
    }

    #[test]
    fn the_answer_to_head_is_decided_by_the_length_that_it_tells() {
        let outline = |method, length, announced| ResponseOutline::new(200, method, length, announced).length;
        assert_eq!(outline(Method::Head, Framing::None, Some(5)), Some(Framing::Length(5)));
        assert_eq!(outline(Method::Head, Framing::None, None), Some(Framing::Delimited));
        assert_eq!(outline(Method::Head, Framing::None, Some(0)), None);
        assert_eq!(outline(Method::Get, Framing::None, None), None);
        assert_eq!(outline(Method::Get, Framing::Length(0), Some(0)), None);
        assert_eq!(outline(Method::Get, Framing::Length(5), Some(5)), Some(Framing::Length(5)));
    }
}
