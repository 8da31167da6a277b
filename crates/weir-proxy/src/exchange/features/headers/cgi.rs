//! What a server of FastCGI is told about a request: the parameters of CGI (RFC 3875 section 4.1), and those of the web servers that programs
//! know.
//!
//! Fields of the request follow as `HTTP_NAME`, by the same rules as for servers of HTTP. Must not look at the disk: which script it is has
//! been decided.

use std::borrow::Cow;
use std::net::IpAddr;

use weir_config::FastcgiSettings;
use weir_http::fastcgi::Params;
use weir_http::{TargetForm, Version, digits};

use super::fields;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::cgi_script::CgiScript;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::features::forwarded::Arrival;
use crate::exchange::placeholders::TemplateValues;
use crate::net::peer::Peer;
use crate::responder::files::path::file_path;
use crate::state::snapshot::ListenerPlan;

/// What programs see as the name of the server's software.
const SOFTWARE: &[u8] = concat!("weir/", env!("CARGO_PKG_VERSION")).as_bytes();

/// The path that the request names, after rewrites.
pub(in crate::exchange) fn requested_path(exchange: &Exchange) -> &[u8] {
    match &exchange.rewritten[..] {
        [] => exchange.request.normal_path(&exchange.request_text),
        rewritten => rewritten.split(|byte| *byte == b'?').next().unwrap_or_default(),
    }
}

/// Adds the parameters, but those that the stream knows: host and length of the body.
pub(in crate::exchange) fn write_params<U>(
    params: &mut Params,
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
) {
    let Some(settings) = &plans.route.config.fastcgi else { return };
    let values = TemplateValues::new(context, Some(plans.route));
    for (name, template) in &settings.params {
        params.fix(name.as_bytes(), |out| {
            values.write(template, out);
        });
    }
    write_script(params, context.exchange, settings);
    write_request(params, context.exchange, context.listener);
    write_peers(params, context);
    fields::write_cgi_request(params, context, plans);
}

/// Which script is to run.
fn write_script(params: &mut Params, exchange: &Exchange, settings: &FastcgiSettings) {
    let script = match &exchange.cgi_script {
        Some(script) => Cow::Borrowed(&**script),
        None => Cow::Owned(otherwise(exchange, settings)),
    };
    let CgiScript { path, path_info } = &*script;
    let prefix = stripped_prefix(exchange);
    if let Some(root) = &settings.root {
        use std::os::unix::ffi::OsStrExt as _;
        let root = root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        params.set_with(b"SCRIPT_FILENAME", |out| append(out, &[root, path]));
        params.set(b"DOCUMENT_ROOT", root);
        if !path_info.is_empty() {
            params.set_with(b"PATH_TRANSLATED", |out| append(out, &[root, path_info]));
        }
    }
    params.set_with(b"SCRIPT_NAME", |out| append(out, &[&prefix, path]));
    if !path_info.is_empty() {
        params.set(b"PATH_INFO", path_info);
    }
    params.set_with(b"DOCUMENT_URI", |out| append(out, &[&prefix, path, path_info]));
}

/// The script of a request whose path names none.
fn otherwise(exchange: &Exchange, settings: &FastcgiSettings) -> CgiScript {
    match settings.script.as_deref() {
        Some(script) if !script.is_empty() => CgiScript { path: script.into(), path_info: Vec::new() },
        _ => {
            let path = requested_path(exchange);
            let decoded =
                file_path(path, true).map(|decoded| CgiScript::in_path(&decoded, 0).path_info_alone());
            CgiScript { path: Vec::new(), path_info: decoded.unwrap_or_else(|| path.to_vec()) }
        }
    }
}

impl CgiScript {
    /// The path of an application, which is no script.
    fn path_info_alone(self) -> Vec<u8> {
        match self.path_info.starts_with(b"/") {
            true => self.path_info,
            false => [b"/", &self.path_info[..]].concat(),
        }
    }
}

/// What a rewrite has removed at the front of the path: for clients, the script is below it.
fn stripped_prefix(exchange: &Exchange) -> Vec<u8> {
    if exchange.rewritten.is_empty() {
        return Vec::new();
    }
    let path = exchange.request.normal_path(&exchange.request_text);
    let prefix = match requested_path(exchange) {
        b"/" => path.strip_suffix(b"/").unwrap_or(path),
        rest => path.strip_suffix(rest).unwrap_or_default(),
    };
    match file_path(prefix, true) {
        Some(decoded) if !decoded.relative.is_empty() => [b"/", &decoded.relative[..]].concat(),
        _ => Vec::new(),
    }
}

/// What the request says.
fn write_request(params: &mut Params, exchange: &Exchange, listener: &ListenerPlan) {
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let query = match &exchange.rewritten[..] {
        [] => request.query().map(|query| query.of(text)),
        rewritten => memchr::memchr(b'?', rewritten).map(|at| &rewritten[at + 1..]),
    };
    params.set(b"QUERY_STRING", query.unwrap_or_default());
    params.set(b"REQUEST_METHOD", request.method_span().of(text));
    params.set_with(b"REQUEST_URI", |out| {
        if matches!(request.target_form(), TargetForm::Asterisk | TargetForm::Authority) {
            return out.extend_from_slice(request.target().of(text));
        }
        exchange.write_request_uri(listener.config.paths.forward, out);
    });
    params.set(
        b"SERVER_PROTOCOL",
        match request.version() {
            Version::Http10 => b"HTTP/1.0",
            Version::Http11 => b"HTTP/1.1",
            Version::Http2 => b"HTTP/2.0",
            Version::Http3 => b"HTTP/3.0",
        },
    );
    params.set(b"GATEWAY_INTERFACE", b"CGI/1.1");
    params.set(b"SERVER_SOFTWARE", SOFTWARE);
    // PHP as CGI runs nothing without it.
    params.set(b"REDIRECT_STATUS", b"200");
    let user = exchange.user();
    if !user.is_empty() {
        params.set(b"REMOTE_USER", user);
    }
}

/// Who asks, and whom. What a trusted proxy says of its client counts.
fn write_peers<U>(params: &mut Params, context: &Context<'_, impl ClientEnd, U>) {
    let (request, text) = (&context.exchange.request, &context.exchange.request_text[..]);
    let address = context.client_address();
    params.set_with(b"REMOTE_ADDR", |out| digits::address(out, address));
    if context.client.peer.ip() == Some(address)
        && let Peer::Inet(peer) = context.client.peer
    {
        params.set_with(b"REMOTE_PORT", |out| digits::decimal(out, peer.port().into()));
    }
    let arrival = Arrival::new(context);
    let is_https = arrival.is_https(context.client.is_tls);
    let local = context.client.known_destination().or_else(|| context.stream.local_address());
    if let Some(local) = local {
        params.set_with(b"SERVER_ADDR", |out| digits::address(out, IpAddr::to_canonical(&local.ip())));
    }
    let port = arrival.port_or(local.map(|local| local.port())).unwrap_or(if is_https { 443 } else { 80 });
    params.set_with(b"SERVER_PORT", |out| digits::decimal(out, port.into()));
    match (request.host().of(text), local) {
        ([], Some(local)) => params.set_with(b"SERVER_NAME", |out| digits::address(out, local.ip())),
        (host, _) => params.set(b"SERVER_NAME", host),
    }
    params.set(b"REQUEST_SCHEME", if is_https { b"https" } else { b"http" });
    if is_https {
        params.set(b"HTTPS", b"on");
    }
}

fn append(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}
