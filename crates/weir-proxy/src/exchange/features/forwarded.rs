//! The fields that describe the client to servers: `X-Forwarded-*`, `Forwarded` (RFC 7239), `Via`, the request id, the certificate of the client.
//!
//! Values from the client are accepted only when its peer is a trusted proxy; those of other peers are replaced, never
//! added to.

use weir_config::{AcceptFrom, Feature, Stage};
use weir_http::{Authority, FieldName, FieldWriter, ForwardedNode, Version, digits, write_forwarded};
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::acting;
use crate::exchange::context::{self, Context};
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::forwarded_lines::ForwardedLinesKey;
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::exchange::exchange_state::record::REQUEST_ID_LEN;
use crate::state::snapshot::ListenerPlan;

/// Longest request id that is taken over from a client.
const REQUEST_ID_TAKEN_MAX: usize = 128;

/// Finds out the address of the client, and takes over the id of its request or makes one.
///
/// # Errors
/// A trusted proxy names the client in a way that cannot be read. The address of the proxy does not do instead: it may be allowed more.
#[inline(always)]
pub(in crate::exchange) fn begin<S, U>(context: &mut Context<'_, S, U>) -> Result<(), Failure> {
    let named = context::named_client_address(context.client, context.exchange, context.listener);
    let Ok(address) = named else {
        // From here on, it is the peer.
        return Err(Failure::client(Phase::Request, Cause::ClientAddressBad));
    };
    context.known_client_address = Some(address);
    take_request_id(context);
    Ok(())
}

#[inline(always)]
fn take_request_id<S, U>(context: &mut Context<'_, S, U>) {
    let Some(header) = &context.listener.config.request_id.header else { return };
    acting::note(Stage::RequestHead, Feature::Forwarded);
    let believed = match context.listener.config.request_id.accept {
        AcceptFrom::Never => false,
        AcceptFrom::TrustedProxies => context.listener.trusts(context.client.peer),
        AcceptFrom::Always => true,
    };
    if believed
        && let Some(field) =
            context.exchange.request.fields().get_by_name(&context.exchange.request_text, header)
    {
        let id = field.value.of(&context.exchange.request_text);
        let fits = !id.is_empty() && id.len() <= REQUEST_ID_TAKEN_MAX;
        if fits && id.iter().all(u8::is_ascii_graphic) {
            context.exchange.record.request_id.extend_from_slice(id);
            return;
        }
    }
    make_request_id(context);
}

/// Makes a request id for a request whose head could not be read, where there are to be any.
#[cold]
pub(in crate::exchange) fn make_late_request_id<S, U>(context: &mut Context<'_, S, U>) {
    if context.listener.config.request_id.header.is_some() {
        make_request_id(context);
    }
}

#[inline(always)]
fn make_request_id<S, U>(context: &mut Context<'_, S, U>) {
    let mut id = [0; REQUEST_ID_LEN];
    for half in id.as_chunks_mut::<{ REQUEST_ID_LEN / 2 }>().0 {
        *half = digits::hexadecimal_random(context.client.worker.random());
    }
    context.exchange.record.request_id.extend_from_slice(&id);
}

/// Adds the forwarding fields that the listener has enabled, except those that the route removes or sets itself.
#[inline(always)]
pub(in crate::exchange) fn write<S, U>(
    out: &mut impl FieldWriter,
    context: &Context<'_, S, U>,
    changes: HeadChanges<'_>,
) {
    acting::note(Stage::Server, Feature::Forwarded);
    if let Some(lines) = context.exchange.forwarded_lines.as_deref().filter(|lines| lines.apply)
        && let Some(out) = out.as_lines()
    {
        let (before_host, behind_host) = lines.parts();
        out.extend_from_slice(before_host);
        out.extend_from_slice(context.exchange.request.authority().of(&context.exchange.request_text));
        out.extend_from_slice(behind_host);
        if context.listener.config.request_id.header.is_some() {
            out.extend_from_slice(&context.exchange.record.request_id);
            out.extend_from_slice(b"\r\n");
        }
        return;
    }
    write_by_field(out, context, changes);
    write_request_id(out, context.exchange, context.listener, changes);
}

/// Tells the server that the request came before the handshake of its client was over, unless the client has said so (RFC 8470 section 5.1).
#[inline(always)]
pub(in crate::exchange) fn write_early_data<S: ClientEnd, U>(
    out: &mut impl FieldWriter,
    context: &Context<'_, S, U>,
    changes: HeadChanges<'_>,
) {
    let is_told = || {
        let (request, text) = (&context.exchange.request, &context.exchange.request_text);
        request.fields().get_by_name(text, "early-data").is_some()
    };
    if context.stream.is_early() && !is_told() && changes.leave(b"Early-Data") {
        out.field(b"Early-Data", b"1");
    }
}

/// Makes the lines that [`write`] adds as they are, where the last ones are not those of this request.
#[inline]
pub(in crate::exchange) fn prepare<S, U>(
    context: &mut Context<'_, S, U>,
    generation: u64,
    has_changes: bool,
) {
    let apply = !has_changes && uses_lines(context);
    if let Some(lines) = &mut context.exchange.forwarded_lines {
        lines.apply = apply;
    }
    if !apply {
        return;
    }
    let version = context.exchange.request.version();
    let key = ForwardedLinesKey {
        generation,
        listener: context.exchange.record.listener(),
        client: context.client.peer.ip(),
        port: context.client.local_port,
        is_tls: context.client.is_tls,
        version,
    };
    let lines = context.exchange.forwarded_lines.get_or_insert_default();
    lines.prepare(key, |text| write_lines(text, context.client, context.listener, version));
}

/// Whether the fields are those that most listeners write, of which only the host is a matter of the request. A stream of HTTP/2 or HTTP/3 keeps no lines: its
/// connection has hundreds of them at a time.
#[inline]
fn uses_lines<S, U>(context: &Context<'_, S, U>) -> bool {
    let forwarded = &context.listener.config.forwarded;
    let are_usual =
        forwarded.x_forwarded && !forwarded.rfc7239 && !context.listener.trusts(context.client.peer);
    let request = &context.exchange.request;
    let adds_to_via = forwarded.via && request.fields().contains(FieldName::Via);
    are_usual && !adds_to_via && request.version() < Version::Http2 && !request.authority().is_empty()
}

/// Writes the lines around the host of a request, and returns where that belongs: the fields of [`write_by_field`] in their order, and the name of that
/// with the id of the request, which comes behind them.
#[cold]
fn write_lines(text: &mut Vec<u8>, client: &Client, listener: &ListenerPlan, version: Version) -> usize {
    text.extend_from_slice(b"X-Forwarded-For: ");
    write_peer(text, client);
    text.extend_from_slice(b"\r\nX-Forwarded-Proto: ");
    text.extend_from_slice(scheme(client));
    text.extend_from_slice(b"\r\nX-Forwarded-Host: ");
    let host_at = text.len();
    text.extend_from_slice(b"\r\n");
    if let Some(port) = client.local_port {
        text.extend_from_slice(b"X-Forwarded-Port: ");
        digits::decimal(text, u64::from(port));
        text.extend_from_slice(b"\r\n");
    }
    if listener.config.forwarded.via {
        text.extend_from_slice(b"Via: ");
        write_via(text, listener, version);
        text.extend_from_slice(b"\r\n");
    }
    if let Some(header) = &listener.config.request_id.header {
        text.extend_from_slice(header.as_bytes());
        text.extend_from_slice(b": ");
    }
    host_at
}

/// Adds the fields but the request id one by one: some are not Weir's alone, or the head is none of HTTP/1.
#[inline(never)]
fn write_by_field<S, U>(out: &mut impl FieldWriter, context: &Context<'_, S, U>, changes: HeadChanges<'_>) {
    let trusted = context.listener.trusts(context.client.peer);
    if context.listener.config.forwarded.x_forwarded {
        write_x_forwarded(out, context, trusted, changes);
    }
    if context.listener.config.forwarded.rfc7239 && changes.leave(b"Forwarded") {
        write_rfc7239(out, context, trusted);
    }
    if context.listener.config.forwarded.via && changes.leave(b"Via") {
        write_list(out, context.exchange, FieldName::Via, b"Via", |out| {
            write_via(out, context.listener, context.exchange.request.version());
        });
    }
}

/// Writes the element of `Via` about a message that came in this version.
fn write_via(out: &mut Vec<u8>, listener: &ListenerPlan, version: Version) {
    out.extend_from_slice(match version {
        Version::Http10 => b"1.0 ",
        Version::Http11 => b"1.1 ",
        Version::Http2 => b"2.0 ",
        Version::Http3 => b"3.0 ",
    });
    out.extend_from_slice(listener.via_name.as_bytes());
    // One process may have a request twice, at two listeners.
    out.extend_from_slice(b" (");
    out.extend_from_slice(listener.config.name.as_bytes());
    out.push(b')');
}

/// Adds the request id alone.
#[inline(always)]
pub(crate) fn write_request_id(
    out: &mut impl FieldWriter,
    exchange: &Exchange,
    listener: &ListenerPlan,
    changes: HeadChanges<'_>,
) {
    if let Some(header) = &listener.config.request_id.header
        && changes.leave(header.as_bytes())
    {
        out.field(header.as_bytes(), &exchange.record.request_id);
    }
}

/// Adds the fields about the certificate of the client, on a listener that requests one.
pub(crate) fn write_certificate(
    out: &mut impl FieldWriter,
    stream: &impl ClientEnd,
    listener: &ListenerPlan,
) {
    let Some(without) = &listener.fields_without_certificate else { return };
    let certificate = stream.tls().and_then(|tls| tls.client_certificate);
    for (name, value) in certificate.map_or(without, |certificate| &certificate.fields) {
        out.field(name.as_bytes(), value.as_bytes());
    }
}

#[inline(always)]
fn write_x_forwarded<S, U>(
    out: &mut impl FieldWriter,
    context: &Context<'_, S, U>,
    trusted: bool,
    changes: HeadChanges<'_>,
) {
    if changes.leave(b"X-Forwarded-For") {
        write_forwarded_for(out, context, trusted);
    }
    let arrival = match trusted {
        false => Arrival { proto: None, host: None, port: None },
        true => Arrival::claimed(context.exchange),
    };
    if arrival.proto.is_none() && changes.leave(b"X-Forwarded-Proto") {
        out.field(b"X-Forwarded-Proto", scheme(context.client));
    }
    let host = context.exchange.request.authority().of(&context.exchange.request_text);
    if !host.is_empty() && arrival.host.is_none() && changes.leave(b"X-Forwarded-Host") {
        out.field(b"X-Forwarded-Host", host);
    }
    if arrival.port.is_none()
        && changes.leave(b"X-Forwarded-Port")
        && let Some(port) = arrival.port_or(context.client.local_port)
    {
        out.decimal_field(b"X-Forwarded-Port", u64::from(port));
    }
}

/// What a trusted proxy says of where the request of its client has arrived: one decision for all fields that tell servers of it.
#[derive(Debug, Clone, Copy)]
pub(in crate::exchange) struct Arrival<'a> {
    proto: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
    port: Option<&'a [u8]>,
}

impl<'a> Arrival<'a> {
    #[cold]
    fn claimed(exchange: &'a Exchange) -> Self {
        let claimed = |name| {
            let field = exchange.request.fields().first(name)?;
            Some(field.value.of(&exchange.request_text))
        };
        Self {
            proto: claimed(FieldName::XForwardedProto),
            host: claimed(FieldName::XForwardedHost),
            port: claimed(FieldName::XForwardedPort),
        }
    }

    /// What the peer says, if it is trusted.
    pub(in crate::exchange) fn new<S, U>(context: &'a Context<'a, S, U>) -> Self {
        match context.listener.trusts(context.client.peer) {
            true => Self::claimed(context.exchange),
            false => Self { proto: None, host: None, port: None },
        }
    }

    /// Whether the client of the proxy has used TLS; `is_tls`: whether the peer has.
    pub(in crate::exchange) fn is_https(&self, is_tls: bool) -> bool {
        self.proto.map_or(is_tls, |proto| {
            proto.eq_ignore_ascii_case(b"https") || proto.eq_ignore_ascii_case(b"wss")
        })
    }

    /// The port that the client of the proxy has used, as far as that is said: behind the host, else the usual one of the scheme. Without a word of
    /// either, `local`, the one that this connection came to: the port of the listener is not the one that the client of the proxy has asked for.
    #[inline]
    pub(in crate::exchange) fn port_or(&self, local: Option<u16>) -> Option<u16> {
        if self.proto.is_none() && self.host.is_none() && self.port.is_none() {
            local
        } else {
            self.claimed_port(local)
        }
    }

    #[cold]
    fn claimed_port(&self, local: Option<u16>) -> Option<u16> {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
        let behind_host = || Authority::parse(self.host?)?.port;
        let usual = || Some(if self.is_https(false) { 443 } else { 80 }).filter(|_| self.proto.is_some());
        self.port.and_then(number).or_else(behind_host).or_else(usual).or(local)
    }
}

fn write_forwarded_for<S, U>(out: &mut impl FieldWriter, context: &Context<'_, S, U>, trusted: bool) {
    if trusted {
        write_list(out, context.exchange, FieldName::XForwardedFor, b"X-Forwarded-For", |out| {
            write_peer(out, context.client);
        });
    } else {
        out.field_with(b"X-Forwarded-For", |out| write_peer(out, context.client));
    }
}

fn write_rfc7239<S, U>(out: &mut impl FieldWriter, context: &Context<'_, S, U>, trusted: bool) {
    let element = |out: &mut Vec<u8>| {
        let host = context.exchange.request.authority().of(&context.exchange.request_text);
        let node =
            context.client.peer.ip().map_or(ForwardedNode::Unknown, |ip| ForwardedNode::Address(ip, None));
        write_forwarded(out, node, None, host, scheme(context.client));
    };
    if trusted {
        write_list(out, context.exchange, FieldName::Forwarded, b"Forwarded", element);
    } else {
        out.field_with(b"Forwarded", element);
    }
}

/// The scheme of the request URL, by the connection of the client.
fn scheme(client: &Client) -> &'static [u8] {
    if client.is_tls { b"https" } else { b"http" }
}

/// Adds one field that has the values of all fields of this name, then what `last` appends.
fn write_list(
    out: &mut impl FieldWriter,
    exchange: &Exchange,
    known: FieldName,
    name: &[u8],
    last: impl FnOnce(&mut Vec<u8>),
) {
    out.field_with(name, |out| {
        for field in exchange.request.fields().all(known) {
            let value = field.value.of(&exchange.request_text);
            if !value.is_empty() {
                out.extend_from_slice(value);
                out.extend_from_slice(b", ");
            }
        }
        last(out);
    });
}

/// Writes the peer in the format of `X-Forwarded-For`: bare, IPv6 without brackets.
fn write_peer(out: &mut Vec<u8>, client: &Client) {
    match client.peer.ip() {
        Some(ip) => digits::address(out, ip),
        // The identifier for a peer without an address (RFC 7239 section 6).
        None => out.extend_from_slice(b"unknown"),
    }
}
