//! RequestRedirect: where clients are sent depends on the listener, too.

use weir_config::{Redirect, Template};
use weir_traffic::rewrite::Rewrite;

use super::matches::prefix as trimmed;
use crate::api::{PathModifier, RequestRedirect, SharedText};
use crate::refusal::Refusal;

/// A redirect before its listener is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RedirectPlan {
    scheme: Option<SharedText>,
    host: SharedText,
    port: Option<u16>,
    /// Path and query, as a template.
    path: SharedText,
    /// What becomes of the `{path}` in it.
    rewrite: Option<Rewrite>,
    status: u16,
}

impl RedirectPlan {
    /// Reads it for requests whose path begins with `prefix`, if it is matched that way.
    pub(super) fn read(written: &RequestRedirect, prefix: Option<&str>) -> Result<Self, Refusal> {
        let port = written.port.map(u16::try_from).transpose();
        let port = port.map_err(|_| Refusal::unsupported("requestRedirect.port: not a port"))?;
        let status = written.status_code.unwrap_or(302);
        if ![301, 302, 303, 307, 308].contains(&status) {
            return Err(Refusal::unsupported(format!("requestRedirect.statusCode: {status} is no redirect")));
        }
        let scheme = written.scheme.clone();
        if !matches!(scheme.as_deref(), None | Some("http" | "https")) {
            return Err(Refusal::unsupported("requestRedirect.scheme: `http` or `https`"));
        }
        let (path, rewrite) = path(written.path.as_deref(), prefix)?;
        let plan = Self {
            scheme,
            host: literal(written.hostname.as_deref().unwrap_or("{host}"), written.hostname.is_some())?,
            port,
            path,
            rewrite,
            status: status as u16,
        };
        plan.at(false, 80)?;
        Ok(plan)
    }

    /// The redirect on a listener.
    pub(crate) fn at(&self, has_tls: bool, listener_port: u16) -> Result<Redirect, Refusal> {
        let scheme = self.scheme.as_deref().unwrap_or(if has_tls { "https" } else { "http" });
        let port = match (self.port, &self.scheme) {
            (Some(port), _) => Some(port),
            (None, Some(_)) => None,
            (None, None) => Some(listener_port),
        };
        let usual = if scheme == "https" { 443 } else { 80 };
        let port = port.filter(|port| *port != usual).map_or_else(String::new, |port| format!(":{port}"));
        let text = format!("{scheme}://{}{port}{}", self.host, self.path);
        let to: Template =
            text.parse().map_err(|error| Refusal::unsupported(format!("requestRedirect: {error}")))?;
        let mut redirect = Redirect::new(to, self.status);
        redirect.rewrite.clone_from(&self.rewrite);
        Ok(redirect)
    }
}

/// Path and query as a template, and what becomes of the `{path}` in it.
fn path(
    written: Option<&PathModifier>,
    prefix: Option<&str>,
) -> Result<(SharedText, Option<Rewrite>), Refusal> {
    let Some(written) = written else { return Ok(("{path}{query}".into(), None)) };
    match &*written.r#type {
        "ReplaceFullPath" => {
            let path = written.replace_full_path.as_deref().unwrap_or("/");
            let slash = if path.starts_with('/') { "" } else { "/" };
            Ok((format!("{slash}{}{{query}}", literal(path, true)?).into(), None))
        }
        "ReplacePrefixMatch" => {
            let bad = |error: &dyn std::fmt::Display| {
                Refusal::unsupported(format!("requestRedirect.path: {error}"))
            };
            let prefix =
                prefix.ok_or_else(|| bad(&"ReplacePrefixMatch needs a match of the type PathPrefix"))?;
            let to = written.replace_prefix_match.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
            let rewrite = Rewrite::replace_prefix(prefix, trimmed(&literal(to, false)?));
            Ok(("{path}{query}".into(), Some(rewrite.map_err(|error| bad(&error))?)))
        }
        other => {
            Err(Refusal::unsupported(format!("requestRedirect.path: the type `{other}` is not supported")))
        }
    }
}

/// Text without placeholders of Weir's.
fn literal(text: &str, is_written: bool) -> Result<SharedText, Refusal> {
    let bad = |c: char| !c.is_ascii_graphic() || (is_written && matches!(c, '{' | '}'));
    match text.chars().find(|c| bad(*c)) {
        Some(bad) => Err(Refusal::unsupported(format!("requestRedirect: {bad:?} cannot be in a URL"))),
        None => Ok(text.into()),
    }
}
