//! Annotations about who may send requests.

use weir_config::{HeaderName, ValueError};

use super::values::{Parsed, header_template, items, networks, own_object};
use super::{IngressAnnotation, IngressDraft, IngressProblem};
use crate::api::NGINX_PREFIX;
use crate::refusal::excerpt;

/// Networks of one annotation at most.
const NETWORKS_MAX: usize = 1000;

const ALLOWED: &str = "a `list` of the route with `action = \"deny\"` for all other networks: 403";

pub(super) const ROWS: &[IngressAnnotation] = &[
    IngressAnnotation::guard("whitelist-source-range", "networks whose clients are served", ALLOWED, allowed),
    IngressAnnotation::guard("allowlist-source-range", "networks whose clients are served", ALLOWED, allowed),
    IngressAnnotation::guard(
        "denylist-source-range",
        "networks whose clients are not served",
        "a `list` of the route with `action = \"deny\"`: 403",
        |draft, value| {
            draft.access.denied = some_networks(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::guard(
        "auth-type",
        "`basic` or `digest`",
        "`basic` of the route; `digest` is refused",
        |draft, value| match value {
            "basic" => {
                draft.access.basic = true;
                Ok(())
            }
            other => Err(format!("`{}` is not supported, only `basic`", excerpt(other))),
        },
    ),
    IngressAnnotation::guard(
        "auth-secret",
        "the Secret with the users",
        "`basic.file`: the key `auth` of a Secret of the type `Opaque` in the same namespace, as `htpasswd` writes \
         it",
        |draft, value| {
            draft.access.secret = Some(own_object(value, &draft.namespace)?);
            Ok(())
        },
    ),
    IngressAnnotation::guard(
        "auth-secret-type",
        "`auth-file` or `auth-map`",
        "`auth-file`; `auth-map` is refused",
        |_, value| match value {
            "auth-file" => Ok(()),
            other => Err(format!("`{}` is not supported, only `auth-file`", excerpt(other))),
        },
    ),
    IngressAnnotation::translated("auth-realm", "what browsers show", "`basic.realm`", |draft, value| {
        let realm = (!value.is_empty()).then(|| value.parse()).transpose();
        draft.access.realm = realm.map_err(|error: ValueError| error.message)?;
        Ok(())
    }),
    IngressAnnotation::guard(
        "auth-url",
        "a server that decides about each request",
        "`forward_auth` of the route, whose question has the headers of the client, `X-Original-URL`, `X-Original-URI`, `X-Original-Method`, \
         `X-Real-IP`, `X-Auth-Request-Redirect`, and `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`, `-Method`, `-Uri`. The URL names a Service (`http://NAME.NAMESPACE.svc.cluster.local:PORT/PATH`; one of another \
         namespace needs a ReferenceGrant) or a host of an Ingress (`https://$host/oauth2/auth`); other hosts are refused",
        |draft, value| {
            draft.access.forward = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::guard(
        "auth-method",
        "the method of the question",
        "`GET`; other methods are refused",
        |_, value| match value {
            "GET" => Ok(()),
            other => Err(format!("`{}` is not supported, only `GET`", excerpt(other))),
        },
    ),
    IngressAnnotation::translated(
        "auth-response-headers",
        "headers of the answer that the request gets",
        "`forward_auth.response_headers`; no client may send them",
        |draft, value| {
            let name = |name: &str| name.parse().map_err(|error| format!("`{}`: {error}", excerpt(name)));
            draft.access.forward_headers = items(value).map(name).collect::<Parsed<Vec<HeaderName>>>()?;
            Ok(())
        },
    ),
    IngressAnnotation::left_out(
        "auth-signin",
        "where clients are sent that have no session",
        "clients get the answer of the server of `auth-url`, a 401 or a redirect of its own",
    ),
    IngressAnnotation::left_out(
        "auth-signin-redirect-param",
        "the parameter with the URL of the request",
        "it says something about `auth-signin` alone",
    ),
    IngressAnnotation::translated(
        "auth-request-redirect",
        "the header `X-Auth-Request-Redirect` of the question, `$request_uri`",
        "`forward_auth.headers`; `$request_uri`, `$host` and `$scheme` are `{path}{query}`, `{host}` and `{scheme}`",
        |draft, value| {
            draft.access.redirect = Some(header_template(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::refused(
        "auth-proxy-set-headers",
        "a ConfigMap with headers of the question",
        "the server of `auth-url` would decide without them",
    ),
    IngressAnnotation::left_out(
        "auth-cache-key",
        "what answers are stored by",
        "each request is asked about",
    ),
    IngressAnnotation::left_out(
        "auth-cache-duration",
        "how long answers are stored",
        "each request is asked about",
    ),
    IngressAnnotation::left_out(
        "auth-always-set-cookie",
        "cookies of the answer reach the client",
        "name `Set-Cookie` in `auth-response-headers` for the server, not for the client",
    ),
    IngressAnnotation::needless(
        "auth-keepalive",
        "connections that are kept",
        "connections to servers are kept",
    ),
    IngressAnnotation::needless(
        "auth-keepalive-requests",
        "requests of one connection",
        "see `auth-keepalive`",
    ),
    IngressAnnotation::needless("auth-keepalive-timeout", "how long one is kept", "see `auth-keepalive`"),
    IngressAnnotation::needless("auth-keepalive-share-vars", "variables of nginx", "see `auth-keepalive`"),
    IngressAnnotation::needless(
        "enable-global-auth",
        "the `auth-url` of all Ingresses",
        "there is none of all Ingresses",
    ),
    IngressAnnotation::guard(
        "satisfy",
        "whether all proofs are needed, or any",
        "`all`; `any` is refused",
        |_, value| match value {
            "all" => Ok(()),
            other => Err(format!("`{}` is not supported: all proofs are needed", excerpt(other))),
        },
    ),
];

fn allowed(draft: &mut IngressDraft, value: &str) -> Result<(), String> {
    draft.access.allowed = some_networks(value)?;
    Ok(())
}

pub(super) fn some_networks(value: &str) -> Parsed<Vec<ipnet::IpNet>> {
    let networks = networks(value)?;
    match networks.len() <= NETWORKS_MAX {
        true => Ok(networks),
        false => Err(format!("it names more than {NETWORKS_MAX} networks")),
    }
}

impl IngressDraft {
    /// What annotations need of each other.
    pub(super) fn finish_access(&self, problems: &mut Vec<IngressProblem>) {
        let name = |short: &str| format!("{NGINX_PREFIX}{short}");
        match (self.access.basic, &self.access.secret) {
            (true, None) => {
                let message = "it needs `auth-secret`, which names the users";
                problems.push(IngressProblem::new(&name("auth-type"), true, message));
            }
            (false, Some(_)) => {
                let message = "it needs `auth-type`, without which no password is asked for";
                problems.push(IngressProblem::new(&name("auth-secret"), true, message));
            }
            _ => {}
        }
        if self.access.forward.is_none() && !self.access.forward_headers.is_empty() {
            let message = "it says something about `auth-url` alone, which is not there";
            problems.push(IngressProblem::new(&name("auth-response-headers"), false, message));
        }
        if self.access.forward.is_none() && self.access.redirect.is_some() {
            let message = "it says something about `auth-url` alone, which is not there";
            problems.push(IngressProblem::new(&name("auth-request-redirect"), false, message));
        }
    }
}
