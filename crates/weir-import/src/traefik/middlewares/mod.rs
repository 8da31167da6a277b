//! Middlewares of a router in their order, as keys of its routes. What should keep requests out and cannot be said keeps all of them out.

mod access;
mod limits;
mod responses;
mod redirects;
mod paths;
mod fields;

pub(super) use fields::FieldSetting;
pub(super) use paths::PathChange;
pub(super) use redirects::{RedirectRule, scheme_target};

use super::rule::RuleMatch;
use super::services::{RetrySetting, TraefikServices};
use super::tree::{key, refuse, values};
use crate::document::{Draft, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// How deep chains may be in each other.
const DEPTH_MAX: usize = 8;
/// How many middlewares a router may have, those of its chains included.
const MIDDLEWARES_MAX: usize = 200;

/// What a router does, so far.
#[derive(Clone, Default)]
pub(super) struct RouterSettings<'s> {
    /// Keys of the route, each with the statement that it comes from.
    pub(super) keys: Vec<(&'static str, TomlValue, &'s Statement)>,
    pub(super) request: Vec<FieldSetting<'s>>,
    pub(super) response: Vec<FieldSetting<'s>>,
    pub(super) forward_host: Option<(String, &'s Statement)>,
    pub(super) paths: Vec<PathChange<'s>>,
    /// What should decide who gets in, or make another request of it, cannot: no one gets in.
    pub(super) forbidden: Option<&'s Statement>,
    pub(super) retry: Option<RetrySetting>,
    pub(super) error_pages: Vec<(TomlValue, &'s Statement)>,
    /// Redirects, each with what came before it.
    pub(super) redirects: Vec<(RedirectRule<'s>, RouterSettings<'s>)>,
    /// A redirect takes all of its requests: nothing behind it has any.
    pub(super) is_taken: bool,
    pub(super) count: usize,
}

/// Where a router is: what its middlewares are asked about.
pub(super) struct RouterPlace<'s, 'b> {
    pub(super) ledger: &'s Ledger,
    pub(super) definitions: &'b [(&'s str, &'s Statement)],
    pub(super) services: &'b mut TraefikServices<'s>,
    pub(super) draft: &'b mut Draft,
    /// The name of the router.
    pub(super) router: String,
    pub(super) matched: RuleMatch,
    pub(super) has_tls: bool,
    /// The value that has the address of clients: that of the connection, or of its PROXY header.
    pub(super) client: &'static str,
    /// Whether `X-Forwarded-For` of some peers counts.
    pub(super) trusts_peers: bool,
    /// Whether several routers have a middleware, which counts for each of them then.
    pub(super) is_shared: &'b dyn Fn(&str) -> bool,
}

impl<'s> RouterSettings<'s> {
    fn set(&mut self, key: &'static str, value: impl Into<TomlValue>, from: &'s Statement) {
        self.keys.retain(|(known, ..)| *known != key);
        self.keys.push((key, value.into(), from));
    }

    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, ..)| *known == key)
    }

    /// Adds a name to the list of a key.
    fn add(&mut self, key: &'static str, name: &str, from: &'s Statement) {
        let known = self.keys.iter_mut().find(|(known, ..)| *known == key);
        match known {
            Some((_, TomlValue::Array(list), _)) => list.push(name.into()),
            Some((_, value, _)) => *value = TomlValue::Array(vec![value.clone(), name.into()]),
            None => self.keys.push((key, name.into(), from)),
        }
    }

    /// No one gets in, for this reason.
    fn forbid(&mut self, ledger: &Ledger, statement: &'s Statement, why: &str) {
        refuse(ledger, statement, why);
        self.forbidden = Some(statement);
    }
}

impl<'s> RouterPlace<'s, '_> {
    /// Adds the middlewares of these names, which `from` lists.
    pub(super) fn apply(&mut self, names: &[&str], from: &'s Statement, settings: &mut RouterSettings<'s>) {
        self.apply_within(names, from, settings, 0);
    }

    fn apply_within(
        &mut self,
        names: &[&str],
        from: &'s Statement,
        settings: &mut RouterSettings<'s>,
        depth: usize,
    ) {
        for name in names {
            let plain = name.strip_suffix("@file").unwrap_or(name);
            let found = self.definitions.iter().find(|(known, _)| *known == plain).map(|(_, found)| *found);
            settings.count += 1;
            let Some(definition) = found.filter(|_| depth <= DEPTH_MAX && settings.count <= MIDDLEWARES_MAX)
            else {
                self.ledger.unsupported(from, &format!("there is no middleware `{name}` in these files"));
                settings.forbidden = Some(from);
                continue;
            };
            if self.definitions.iter().filter(|(known, _)| *known == plain).count() > 1 {
                settings.forbid(
                    self.ledger,
                    definition,
                    "it is there twice, so that no router has it: no one gets in",
                );
                continue;
            }
            if definition.children().is_empty() {
                settings.forbid(self.ledger, definition, "a middleware of no kind: no one gets in");
                continue;
            }
            self.ledger.exact(definition);
            for kind in definition.children() {
                if key(kind) == "chain" {
                    self.chain(kind, settings, depth);
                } else if settings.is_taken {
                    // All requests are redirected before they come here, on this entry point.
                } else {
                    self.one(plain, kind, settings);
                }
            }
        }
    }

    fn chain(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>, depth: usize) {
        self.ledger.exact(kind);
        for part in kind.children() {
            let names = values(self.ledger, part);
            self.ledger.exact(part);
            self.apply_within(&names, part, settings, depth + 1);
        }
    }

    fn one(&mut self, name: &str, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        match key(kind).as_str() {
            "redirectscheme" => self.redirect_scheme(kind, settings),
            "redirectregex" => self.redirect_regex(name, kind, settings),
            "stripprefix" => self.strip_prefix(kind, settings),
            "stripprefixregex" => self.strip_prefix_regex(kind, settings),
            "addprefix" => self.add_prefix(kind, settings),
            "replacepath" => self.replace_path(kind, settings),
            "replacepathregex" => self.replace_path_regex(kind, settings),
            "headers" => self.headers(kind, settings),
            "basicauth" => self.basic_auth(kind, settings),
            "forwardauth" => self.forward_auth(kind, settings),
            "digestauth" => settings.forbid(
                self.ledger,
                kind,
                "Weir has no Digest authentication (RFC 7616): `basic` over TLS, or `forward_auth`; until then, no one gets in",
            ),
            "ipallowlist" | "ipwhitelist" => self.allow_list(name, kind, settings),
            "ratelimit" => self.rate_limit(name, kind, settings),
            "inflightreq" => self.concurrent_limit(name, kind, settings),
            "compress" => self.compress(kind, settings),
            "retry" => self.retry(kind, settings),
            "buffering" => self.buffering(kind, settings),
            "errors" => self.error_pages(kind, settings),
            "circuitbreaker" => refuse(
                self.ledger,
                kind,
                "servers that fail are ejected one by one: `ejection` of the upstream; a queue bounds what waits",
            ),
            "passtlsclientcert" => refuse(
                self.ledger,
                kind,
                "see `client_certificates.headers` of `tls` of the listener: other names and forms",
            ),
            "contenttype" => self.content_type(kind),
            "grpcweb" => self.grpc_web(kind, settings),
            "plugin" => settings.forbid(
                self.ledger,
                kind,
                "Weir has no plugins: this one might keep requests out, so no one gets in until the route is written by hand",
            ),
            _ => settings.forbid(self.ledger, kind, "the import does not know this middleware, so no one gets in"),
        }
    }
}
