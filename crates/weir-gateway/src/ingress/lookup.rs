//! URLs in annotations: which servers they lead to. An Ingress reaches Services of its namespace, others with a ReferenceGrant, and hosts of
//! Ingresses; nothing else, since who writes an Ingress may not reach everything that this process does.

use std::sync::Arc;

use weir_config::{ForwardHost, Size};

use super::compilation::Compilation;
use crate::api::SharedText;
use crate::backends::{Backend, Payload};
use crate::refusal::excerpt;
use crate::store::{ObjectKey, ObjectKind};

/// The group of Ingresses, for ReferenceGrants.
const GROUP: &str = "networking.k8s.io";

/// The server of `auth-url`.
#[derive(Debug)]
pub(super) struct AuthPlan {
    pub(super) target: UrlTarget,
    /// Path and query.
    pub(super) path: SharedText,
    pub(super) forward_host: ForwardHost,
}

/// Where a URL leads.
#[derive(Debug)]
pub(super) enum UrlTarget {
    /// To a Service.
    Service(Arc<Backend>),
    /// To the host of the request.
    SameHost,
    /// To a host that an Ingress has.
    Host(SharedText),
}

/// The servers of `mirror-target`.
#[derive(Debug)]
pub(super) struct MirrorAnnotation {
    pub(super) backend: Arc<Backend>,
    pub(super) forward_host: ForwardHost,
    pub(super) body_max: Option<Size>,
}

/// A URL in its parts; the path begins behind the authority and may be empty.
struct UrlParts<'a> {
    is_tls: bool,
    host: &'a str,
    port: Option<u16>,
    path: &'a str,
}

fn parts(url: &str) -> Result<UrlParts<'_>, String> {
    let wrong = || format!("`{}` is not a URL of http or https", excerpt(url));
    let (is_tls, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err(wrong()),
    };
    let variables = ["$host", "$http_host", "$best_http_host"];
    let known = variables.into_iter().find(|name| {
        rest.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '?']))
    });
    let (authority, path) = match known {
        Some(name) => rest.split_at(name.len()),
        None => rest.split_at(rest.find(['/', '?', '$']).unwrap_or(rest.len())),
    };
    let (authority, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
        None => (authority, None),
    };
    if authority.is_empty() || authority.contains('@') {
        return Err(wrong());
    }
    Ok(UrlParts { is_tls, host: authority, port, path })
}

/// Name and namespace of the Service that a host is, in the cluster's DNS.
fn service_of(host: &str) -> Option<ObjectKey> {
    let mut labels = host.split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    (labels.next() == Some("svc")).then(|| ObjectKey::new(namespace, name))
}

/// The Service that a URL names, and its port.
pub(super) fn service_of_url(url: &str) -> Option<(ObjectKey, u16)> {
    let parts = parts(url).ok()?;
    Some((service_of(parts.host)?, parts.port.unwrap_or(80)))
}

impl Compilation<'_> {
    pub(super) fn auth(&mut self) -> Option<AuthPlan> {
        let url = self.draft.access.forward.as_deref()?;
        self.auth_of(url).map_err(|why| self.refuse("auth-url", true, why)).ok()
    }

    fn auth_of(&mut self, url: &str) -> Result<AuthPlan, String> {
        let parts = parts(url)?;
        let path =
            if parts.path.starts_with('/') { parts.path.to_owned() } else { format!("/{}", parts.path) };
        if let Some(bad) = path.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '$' | '#')) {
            return Err(format!("{bad:?} in the path has no equivalent"));
        }
        let (target, forward_host) = if parts.host.starts_with('$') {
            (UrlTarget::SameHost, ForwardHost::Keep)
        } else if let Some(key) = service_of(parts.host) {
            let host = ForwardHost::Literal(parts.host.into());
            (UrlTarget::Service(self.service(&key, &parts)?), host)
        } else {
            let host = parts.host.to_ascii_lowercase();
            (UrlTarget::Host(host.as_str().into()), ForwardHost::Literal(host.into()))
        };
        Ok(AuthPlan { target, path: path.into(), forward_host })
    }

    pub(super) fn mirror(&mut self) -> Option<MirrorAnnotation> {
        let url = self.draft.messages.mirror.as_deref()?;
        self.mirror_of(url).map_err(|why| self.refuse("mirror-target", false, why)).ok()
    }

    fn mirror_of(&mut self, url: &str) -> Result<MirrorAnnotation, String> {
        let parts = parts(url)?;
        if !matches!(parts.path, "" | "/" | "$request_uri" | "/$request_uri") {
            return Err(format!("`{}`: copies have the path of the request", excerpt(parts.path)));
        }
        let key =
            service_of(parts.host).ok_or_else(|| format!("`{}` is not a Service", excerpt(parts.host)))?;
        let host = self.draft.messages.mirror_host.as_deref().unwrap_or(parts.host);
        Ok(MirrorAnnotation {
            backend: self.service(&key, &parts)?,
            forward_host: ForwardHost::Literal(host.into()),
            body_max: self.draft.messages.mirror_bodiless.then_some(Size::from_bytes(0)),
        })
    }

    /// The upstream of a Service that a URL names.
    fn service(&mut self, key: &ObjectKey, parts: &UrlParts<'_>) -> Result<Arc<Backend>, String> {
        self.uses.insert((ObjectKind::Service, key.clone()));
        if parts.is_tls {
            return Err(format!(
                "the Service {key} is reached by http://, whose servers are not verified by name"
            ));
        }
        let own = &self.scope.key.namespace;
        if !self.scope.store.is_granted((GROUP, "Ingress", own), ("", "Service", key)) {
            return Err(format!("no ReferenceGrant in `{}` permits the Service {key}", key.namespace));
        }
        self.scope.of_service(key, i32::from(parts.port.unwrap_or(80)), Payload::Http)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_parts() {
        let read = |url| {
            let parts = parts(url).map_err(|_| ())?;
            Ok((parts.is_tls, parts.host.to_owned(), parts.port, parts.path.to_owned()))
        };
        for (url, expected) in [
            ("http://a.b.svc:8080/x?y", Ok((false, "a.b.svc", Some(8080), "/x?y"))),
            ("https://$host/oauth2/auth", Ok((true, "$host", None, "/oauth2/auth"))),
            ("http://a.b.svc$request_uri", Ok((false, "a.b.svc", None, "$request_uri"))),
            ("https://a.example", Ok((true, "a.example", None, ""))),
            ("https://$hostname/", Err(())),
            ("a.example", Err(())),
            ("http://user@a.example/", Err(())),
            ("http:///x", Err(())),
            ("http://a:b/", Err(())),
        ] {
            let expected = expected.map(|(tls, host, port, path): (bool, &str, Option<u16>, &str)| {
                (tls, host.to_owned(), port, path.to_owned())
            });
            assert_eq!(read(url), expected, "{url}");
        }
        assert_eq!(service_of("auth.infra.svc.cluster.local"), Some(ObjectKey::new("infra", "auth")));
        assert_eq!(service_of("auth.infra.svc"), Some(ObjectKey::new("infra", "auth")));
        assert_eq!(service_of("auth.example.com"), None);
    }
}
