//! Annotations about headers, bodies, copies, CORS and logs.

use std::time::Duration;

use weir_config::{
    Cors, CorsOrigin, ForwardHost, HeaderName, HeaderTemplate, HeaderValue, RequestBuffering,
    ResponseBuffering, RouteAccessLog, Size, Token,
};

use super::values::{Parsed, boolean, items, number, on_off, own_object, size};
use super::{IngressAnnotation, IngressDraft, IngressProblem};
use crate::api::NGINX_PREFIX;
use crate::refusal::excerpt;

const CORS_METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const CORS_HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization";
const CORS_SECONDS: u64 = 1_728_000;

pub(super) const ROWS: &[IngressAnnotation] = &[
    IngressAnnotation::translated(
        "proxy-body-size",
        "the largest body of a request; `0`: any",
        "`limits.body_size` of the listener, for this route. Without the annotation there is no limit, in ingress-nginx 1 MiB",
        |draft, value| {
            let size = size(value)?;
            draft.route.body_size = (size.bytes() != 0).then_some(size);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "proxy-buffering",
        "whether responses are taken in as fast as the server gives them",
        "`buffer_responses`",
        |draft, value| {
            draft.route.buffer_responses = on_off(value)?.then(ResponseBuffering::default);
            Ok(())
        },
    ),
    IngressAnnotation::needless(
        "proxy-buffers-number",
        "buffers of a response",
        "`buffer_responses.memory` has a size alone",
    ),
    IngressAnnotation::needless(
        "proxy-busy-buffers-size",
        "buffers that are being sent",
        "see `proxy-buffers-number`",
    ),
    IngressAnnotation::translated(
        "proxy-max-temp-file-size",
        "the largest file of a response; `0`: none",
        "`buffer_responses.file`, if `proxy-buffering` is `on`",
        |draft, value| {
            let size = Size::from_bytes(size(value)?.bytes().min(1 << 30));
            draft.messages.response_file = Some(size);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "proxy-request-buffering",
        "whether the whole body of a request is taken in first",
        "`buffer_requests`. Without the annotation bodies pass as they come; ingress-nginx takes them in",
        |draft, value| {
            draft.route.buffer_requests = on_off(value)?.then(RequestBuffering::default);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "client-body-buffer-size",
        "how much of the body is in memory",
        "`buffer_requests.memory`, if `proxy-request-buffering` is `on`",
        |draft, value| {
            draft.messages.body_memory = Some(Size::from_bytes(size(value)?.bytes().min(16 << 20)));
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "upstream-vhost",
        "the `Host` that servers get",
        "`forward_host`",
        |draft, value| {
            if value.is_empty() || !value.chars().all(|c| c.is_ascii_alphanumeric() || "-._:[]".contains(c)) {
                return Err(format!("`{}` is not a host", excerpt(value)));
            }
            draft.route.forward_host = ForwardHost::Literal(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "x-forwarded-prefix",
        "the header `X-Forwarded-Prefix` of requests",
        "`request_headers.set`; groups of the path (`$1`) are not supported",
        |draft, value| {
            if value.contains('$') {
                return Err(format!("`{}`: groups of the path have no equivalent", excerpt(value)));
            }
            let header = header("x-forwarded-prefix", value)?;
            draft.route.request_headers.set.push(header);
            Ok(())
        },
    ),
    IngressAnnotation::left_out(
        "connection-proxy-header",
        "the `Connection` that servers get",
        "Weir sets it for each connection",
    ),
    IngressAnnotation::translated(
        "custom-headers",
        "a ConfigMap with headers of responses",
        "`response_headers.set`; the ConfigMap is in the same namespace, and needs no list of permitted headers",
        |draft, value| {
            draft.messages.response_headers = Some(own_object(value, &draft.namespace)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "proxy-set-headers",
        "a ConfigMap with headers of requests",
        "`request_headers.set`; the ConfigMap is in the same namespace. ingress-nginx has it for all Ingresses only",
        |draft, value| {
            draft.messages.request_headers = Some(own_object(value, &draft.namespace)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "mirror-target",
        "where copies of requests go",
        "`mirror` of the route. The URL names a Service (`http://NAME.NAMESPACE.svc.cluster.local$request_uri`; one of another \
         namespace needs a ReferenceGrant); copies have the path of the request. Calls of gRPC are copied, \
         too. Other hosts are not supported",
        |draft, value| {
            draft.messages.mirror = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "mirror-host",
        "the `Host` of copies",
        "`mirror.forward_host`",
        |draft, value| {
            draft.messages.mirror_host = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "mirror-request-body",
        "whether copies have the body",
        "`mirror.body_max`",
        |draft, value| {
            draft.messages.mirror_bodiless = !on_off(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "enable-cors",
        "answers for scripts of other origins",
        "`cors`",
        |draft, value| {
            draft.messages.cors = boolean(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "cors-allow-origin",
        "the origins, `*`",
        "`cors.origins`; `*` permits no credentials, which browsers would not accept either",
        |draft, value| {
            origins(value)?;
            draft.messages.cors_origins = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated("cors-allow-methods", "the methods", "`cors.methods`", |draft, value| {
        methods(value)?;
        draft.messages.cors_methods = Some(value.into());
        Ok(())
    }),
    IngressAnnotation::translated(
        "cors-allow-headers",
        "the headers of requests",
        "`cors.headers`",
        |draft, value| {
            names(value)?;
            draft.messages.cors_headers = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "cors-expose-headers",
        "the headers of responses",
        "`cors.expose`",
        |draft, value| {
            draft.messages.cors_expose = names(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "cors-allow-credentials",
        "whether requests have cookies, `true`",
        "`cors.credentials`",
        |draft, value| {
            draft.messages.cors_without_credentials = !boolean(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "cors-max-age",
        "how long browsers remember it",
        "`cors.max_age`, a day at most, as in browsers",
        |draft, value| {
            draft.messages.cors_seconds = Some(u64::from(number(value)?));
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "enable-access-log",
        "whether requests have lines in the access log",
        "`access_log = \"only-failures\"` of the route: failures have theirs in any case",
        |draft, value| {
            draft.route.access_log =
                if boolean(value)? { RouteAccessLog::OfListener } else { RouteAccessLog::OnlyFailures };
            Ok(())
        },
    ),
    IngressAnnotation::needless(
        "http2-push-preload",
        "pushes of HTTP/2",
        "no browser accepts pushes any more",
    ),
];

/// A header with a value that is text.
pub(crate) fn header(name: &str, value: &str) -> Parsed<(HeaderName, HeaderTemplate)> {
    let bad = |error: &dyn std::fmt::Display| format!("`{}`: {error}", excerpt(name));
    let name: HeaderName = name.parse().map_err(|error| bad(&error))?;
    if name.is_framing() || &*name == "host" {
        return Err(bad(&"Weir sets it for each connection"));
    }
    let value: HeaderValue = value.trim().parse().map_err(|error| bad(&error))?;
    Ok((name, HeaderTemplate::of_literal(&value)))
}

fn origins(value: &str) -> Parsed<Vec<CorsOrigin>> {
    items(value).map(|one| one.parse().map_err(|error| format!("`{}`: {error}", excerpt(one)))).collect()
}

fn methods(value: &str) -> Parsed<Option<Vec<Token>>> {
    if items(value).any(|one| one == "*") {
        return Ok(None);
    }
    let method = |one: &str| one.parse().map_err(|error| format!("`{}`: {error}", excerpt(one)));
    items(value).map(method).collect::<Parsed<_>>().map(Some)
}

fn names(value: &str) -> Parsed<Option<Vec<HeaderName>>> {
    if items(value).any(|one| one == "*") {
        return Ok(None);
    }
    let name = |one: &str| one.parse().map_err(|error| format!("`{}`: {error}", excerpt(one)));
    items(value).map(name).collect::<Parsed<_>>().map(Some)
}

impl IngressDraft {
    pub(super) fn finish_messages(&mut self, problems: &mut Vec<IngressProblem>) {
        let messages = &self.messages;
        if let (Some(file), Some(buffering)) = (messages.response_file, &mut self.route.buffer_responses) {
            buffering.file = file;
        }
        if let (Some(memory), Some(buffering)) = (messages.body_memory, &mut self.route.buffer_requests) {
            buffering.memory = memory;
        }
        if messages.cors {
            match self.cors() {
                Ok(cors) => self.route.cors = Some(Box::new(cors)),
                Err(why) => {
                    problems.push(IngressProblem::new(&format!("{NGINX_PREFIX}enable-cors"), false, why));
                }
            }
        }
    }

    fn cors(&self) -> Parsed<Cors> {
        let messages = &self.messages;
        let origins = origins(messages.cors_origins.as_deref().unwrap_or("*"))?;
        let seconds = messages.cors_seconds.unwrap_or(CORS_SECONDS).min(86_400);
        let may_have_credentials = !origins.contains(&CorsOrigin::Any);
        let mut cors = Cors::new(origins);
        cors.methods = methods(messages.cors_methods.as_deref().unwrap_or(CORS_METHODS))?;
        cors.headers = names(messages.cors_headers.as_deref().unwrap_or(CORS_HEADERS))?;
        cors.expose = messages.cors_expose.clone().unwrap_or_default();
        cors.credentials = !messages.cors_without_credentials && may_have_credentials;
        cors.max_age = Duration::from_secs(seconds);
        Ok(cors)
    }
}
