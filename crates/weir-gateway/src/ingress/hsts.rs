//! `Strict-Transport-Security` of hosts with a certificate: by default what ingress-nginx sends, and otherwise by the words of its ConfigMap.
//!
//! Browsers remember the header for a year and nothing takes it back, so it is sent only while it is certain what it is to be.

use std::sync::Arc;

use weir_config::{HeaderName, HeaderTemplate, HeaderValue, RouteSettings};

use super::annotations::boolean;
use crate::api::ConfigMap;
use crate::options::settings::IngressSettings;
use crate::refusal::excerpt;
use crate::store::ObjectStore;

const NAME: &str = "strict-transport-security";

/// The default of `hsts-max-age` in seconds.
const MAX_AGE_S: u32 = 31_536_000;

/// The most names of other keys in one message.
const NAMES_MAX: usize = 10;

/// What hosts with a certificate send.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Hsts {
    header: Option<(HeaderName, HeaderTemplate)>,
    /// What is wrong with the ConfigMap.
    problem: Option<Box<str>>,
}

impl Hsts {
    /// As the ConfigMap is now; without one, the defaults.
    pub(super) fn load(store: &ObjectStore, ours: &IngressSettings) -> Self {
        let Some(key) = &ours.config_map else { return Self::read(&ConfigMap::default()) };
        let mut read = match store.config_maps.get(key) {
            Some(map) => Self::read(map),
            None => Self::unsent("it does not exist"),
        };
        read.problem = read.problem.map(|why| format!("{key}: {why}").into());
        read
    }

    fn unsent(why: &str) -> Self {
        let problem = format!("{why}; Strict-Transport-Security is not sent as long as that is so");
        Self { header: None, problem: Some(problem.into()) }
    }

    fn read(map: &ConfigMap) -> Self {
        let header = match header(map) {
            Ok(header) => header,
            Err(why) => return Self::unsent(&why),
        };
        let others: Vec<&str> = map.data.keys().map(|key| &**key).filter(|key| !KEYS.contains(key)).collect();
        let problem = (!others.is_empty()).then(|| {
            let names: Vec<String> =
                others.iter().take(NAMES_MAX).map(|name| format!("`{}`", excerpt(name))).collect();
            let more = if others.len() > NAMES_MAX { " and others" } else { "" };
            format!("keys without an effect: {}{more}", names.join(", ")).into()
        });
        Self { header, problem }
    }

    /// What is wrong with the ConfigMap.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Settings of a route with the header, unless they set it themselves.
    pub(super) fn applied_to(&self, settings: &Arc<RouteSettings>) -> Arc<RouteSettings> {
        let changes = &settings.response_headers;
        let is_theirs = changes.set.iter().chain(&changes.add).any(|(name, _)| &**name == NAME);
        let Some(header) = self.header.clone().filter(|_| !is_theirs) else { return Arc::clone(settings) };
        let mut with_header = RouteSettings::clone(settings);
        with_header.response_headers.set.push(header);
        Arc::new(with_header)
    }
}

/// The keys of the ConfigMap that count, by their names in ingress-nginx.
const KEYS: [&str; 4] = ["hsts", "hsts-max-age", "hsts-include-subdomains", "hsts-preload"];

fn header(map: &ConfigMap) -> Result<Option<(HeaderName, HeaderTemplate)>, String> {
    let value = |key: &str| map.data.get(key).map(|value| value.trim());
    let flag = |key: &str, default: bool| {
        value(key).map_or(Ok(default), |value| boolean(value).map_err(|why| format!("`{key}`: {why}")))
    };
    let [sent, subdomains, preload] =
        [flag("hsts", true)?, flag("hsts-include-subdomains", true)?, flag("hsts-preload", false)?];
    let max_age: u32 = match value("hsts-max-age") {
        None => MAX_AGE_S,
        Some(text) => text
            .parse()
            .map_err(|_| format!("`hsts-max-age`: `{}` is not a number of seconds", excerpt(text)))?,
    };
    if !sent {
        return Ok(None);
    }
    let subdomains = if subdomains { "; includeSubDomains" } else { "" };
    let preload = if preload { "; preload" } else { "" };
    let value: HeaderValue =
        format!("max-age={max_age}{subdomains}{preload}").parse().expect("it is the value of a header");
    Ok(Some((NAME.parse().expect("it is a name"), HeaderTemplate::of_literal(&value))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(pairs: &[(&str, &str)]) -> (Option<String>, Option<Box<str>>) {
        let data = pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let hsts = Hsts::read(&ConfigMap { data, ..ConfigMap::default() });
        (hsts.header.map(|(_, value)| value.to_string()), hsts.problem)
    }

    #[test]
    fn the_words_of_the_config_map_decide() {
        for (pairs, expected) in [
            (&[][..], Some("max-age=31536000; includeSubDomains")),
            (&[("hsts", "true")], Some("max-age=31536000; includeSubDomains")),
            (&[("hsts", "false")], None),
            (&[("hsts", "False"), ("hsts-preload", "true")], None),
            (&[("hsts-include-subdomains", "false")], Some("max-age=31536000")),
            (&[("hsts-max-age", "0")], Some("max-age=0; includeSubDomains")),
            (
                &[("hsts-max-age", "63072000"), ("hsts-preload", "true")],
                Some("max-age=63072000; includeSubDomains; preload"),
            ),
        ] {
            assert_eq!(sent(pairs), (expected.map(str::to_owned), None), "{pairs:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_has_nothing_sent() {
        for (key, value) in [
            ("hsts", "maybe"),
            ("hsts", ""),
            ("hsts-preload", "yes"),
            ("hsts-include-subdomains", "off"),
            ("hsts-max-age", "1y"),
            ("hsts-max-age", "-1"),
            ("hsts-max-age", "1; preload"),
            ("hsts-max-age", "4294967296"),
        ] {
            let (header, problem) = sent(&[(key, value)]);
            assert_eq!(header, None, "{key}={value}");
            let problem = problem.expect("it is said why");
            assert!(
                problem.contains(key) && problem.ends_with("is not sent as long as that is so"),
                "{problem}"
            );
        }
    }

    #[test]
    fn keys_without_an_effect_are_named() {
        let (header, problem) =
            sent(&[("use-gzip", "true"), ("hsts-max-age", "60"), ("proxy-body-size", "8m")]);
        assert_eq!(header.as_deref(), Some("max-age=60; includeSubDomains"));
        assert_eq!(problem.as_deref(), Some("keys without an effect: `proxy-body-size`, `use-gzip`"));
    }
}
