//! Fields that only Weir may send on: removed from what clients send, and from trailers of servers, be they in a head or behind a body.
//!
//! They say who a client is, by its certificate, a trusted proxy, the server that decides about requests or the config. A client that could send them could pose as
//! any other.

use weir_config::{Feature, ForwardAuth, HeaderChanges, Listener, Route, RowSet, Stage, WithheldHeaders};
use weir_sort::CompactSort as _;

/// Fields that ask a server for a body that cannot be rewritten, or for a part of one.
const AGAINST_REWRITING: [&str; 3] = ["accept-encoding", "if-range", "range"];

/// Names that peers may not use.
#[derive(Debug, Clone)]
pub(crate) struct StrippedFields {
    names: Box<[Box<str>]>,
    /// Whether no name has an underscore.
    underscored: bool,
    /// Whether no name passes at all.
    everything: bool,
}

/// Names that peers of a listener may not use: trusted proxies, and others. Where Weir requests certificates itself, those of a trusted proxy are
/// stripped, too.
pub(in crate::state) fn of_listener(config: &Listener, withheld: &WithheldHeaders) -> [Vec<Box<str>>; 2] {
    let clients = config.tls.as_ref().and_then(|tls| tls.client_certificates.as_ref());
    let mut of_certificates = withheld.certificates.clone();
    of_certificates.extend(clients.iter().flat_map(|clients| clients.headers.withheld()));
    let of_others = [&of_certificates[..], &withheld.marks, &withheld.client_addresses].concat();
    [if clients.is_some() { of_certificates } else { Vec::new() }, of_others]
}

/// Fields of requests by which programs behind a proxy are told how to send files, or that are for the proxy itself: a client that could send them
/// would choose what is sent.
const OF_ACCEL: [&str; 8] = [
    "x-accel-mapping",
    "x-sendfile-type",
    "x-accel-redirect",
    "x-accel-expires",
    "x-accel-buffering",
    "x-accel-limit-rate",
    "x-accel-charset",
    "x-sendfile",
];

impl StrippedFields {
    /// The fields that a route takes out of every request, or puts there itself.
    pub(in crate::state) fn of_requests(route: &Route) -> Option<Self> {
        if !route.forward_headers {
            return Some(Self { names: Box::default(), underscored: false, everything: true });
        }
        let HeaderChanges { remove, set, .. } = &route.request_headers;
        let forward = route.access.as_ref().and_then(|access| access.forward.as_ref());
        let given = forward.iter().flat_map(|forward| &forward.response_headers);
        let names = remove.iter().chain(set.iter().map(|(name, _)| name)).chain(given);
        let of_bodies = route.rewrite_body.iter().flat_map(|_| AGAINST_REWRITING).map(Box::from);
        let obeys = route.rows().meets(RowSet::row(Stage::ResponseHead, Feature::Accel));
        let of_accel = OF_ACCEL.into_iter().filter(|_| obeys).map(Box::from);
        Self::new(names.map(|name| (**name).into()).chain(of_bodies).chain(of_accel).collect())
    }

    /// The fields that a route takes out of some requests at least: what comes behind a body has none of them, whatever conditions said of the head.
    pub(in crate::state) fn of_request_trailers(route: &Route) -> Option<Self> {
        let of_rules = route.request_headers.rules.iter().flat_map(|rule| {
            let set = rule.set.iter().map(|(name, _)| name);
            rule.remove.iter().chain(set)
        });
        let of_rules = Self::new(of_rules.map(|name| (**name).into()).collect());
        match (Self::of_requests(route), of_rules) {
            (Some(always), Some(of_rules)) => Some(always.with(&of_rules)),
            (always, of_rules) => always.or(of_rules),
        }
    }

    /// The same of responses.
    pub(in crate::state) fn of_responses(route: &Route) -> Option<Self> {
        Self::new(route.response_headers.replaced().map(|name| (**name).into()).collect())
    }

    /// `None` when there are none.
    pub(crate) fn new(mut names: Vec<Box<str>>) -> Option<Self> {
        names.sort_compact();
        names.dedup();
        (!names.is_empty()).then(|| Self { names: names.into(), underscored: false, everything: false })
    }

    /// Those of trailers, where each name is examined: the same ones, and those with an underscore unless they pass in heads.
    pub(crate) fn of_trailers(names: Vec<Box<str>>, passes_underscores: bool) -> Option<Self> {
        let stripped = Self::new(names);
        if passes_underscores {
            return stripped;
        }
        let stripped =
            stripped.unwrap_or(Self { names: Box::default(), underscored: false, everything: false });
        Some(Self { underscored: true, ..stripped })
    }

    /// These and others.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let names = [&self.names[..], &other.names].concat();
        Self {
            names: names.into(),
            underscored: self.underscored || other.underscored,
            everything: self.everything || other.everything,
        }
    }

    /// Whether a server may take `name` for one of these.
    pub(crate) fn covers(&self, name: &[u8]) -> bool {
        let mut names = self.names.iter();
        self.everything
            || self.underscored && name.contains(&b'_')
            || names.any(|known| is_taken_for(known.as_bytes(), name))
    }
}

/// Whether a server may take `name` for a field that only the server gives which decides about requests.
pub(crate) fn is_given_by(forward: &ForwardAuth, name: &[u8]) -> bool {
    forward.response_headers.iter().any(|given| is_taken_for(given.as_bytes(), name))
}

/// Whether a server may take `name` for `known`: servers with a CGI-style environment know letters and digits only.
pub(crate) fn is_taken_for(known: &[u8], name: &[u8]) -> bool {
    let alike = |(one, other): (&u8, &u8)| {
        one.eq_ignore_ascii_case(other) || !one.is_ascii_alphanumeric() && !other.is_ascii_alphanumeric()
    };
    known.len() == name.len() && known.iter().zip(name).all(alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_gets_past() {
        let stripped = StrippedFields::new(vec!["x-ssl-client-verify".into(), "client-cert".into()]).unwrap();
        for (name, expected) in [
            ("x-ssl-client-verify", true),
            ("X-SSL-Client-Verify", true),
            ("X_SSL_CLIENT_VERIFY", true),
            ("x.ssl-client~verify", true),
            ("Client_Cert", true),
            ("x-ssl-client-verif", false),
            ("x-ssl-client-verify2", false),
            ("xxssl-client-verify", false),
            ("client-certs", false),
            ("", false),
        ] {
            assert_eq!(stripped.covers(name.as_bytes()), expected, "{name}");
        }
        assert!(StrippedFields::new(Vec::new()).is_none());
    }

    #[test]
    fn trailers_have_no_underscores_unless_heads_have() {
        let stripped = StrippedFields::of_trailers(vec!["x-user".into()], false).unwrap();
        assert!(stripped.covers(b"x_other") && stripped.covers(b"X.User") && !stripped.covers(b"x-other"));
        let lenient = StrippedFields::of_trailers(vec!["x-user".into()], true).unwrap();
        assert!(!lenient.covers(b"x_other") && lenient.covers(b"x_user"));
        assert!(StrippedFields::of_trailers(Vec::new(), true).is_none());
        let both = StrippedFields::new(vec!["x-a".into()]).unwrap().with(&stripped);
        assert!(both.covers(b"x-a") && both.covers(b"x-user") && both.covers(b"a_b") && !both.covers(b"x-b"));
    }
}
