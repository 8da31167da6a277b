//! From one Ingress to paths, settings and certificates, whichever other Ingresses its hosts have.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use weir_config::{
    AccessList, KeyLimit, LimitUse, LoadedCertificate, RouteSettings, UpstreamTls, is_normal_path,
};
use weir_sort::CompactSort as _;
use weir_traffic::rewrite::Rewrite;
use weir_traffic::route::{BoundedRegexes, PathMatch, RouteRegex};

use super::annotations::{self, IngressDraft, IngressProblem};
use super::canary::{CanaryRule, CanaryRules, canary_rules};
use super::compilation::Compilation;
use super::lookup::{AuthPlan, MirrorAnnotation};
use super::regexes::{IngressRegexes, escaped};
use super::route_settings;
use super::servers::IngressScope;
use crate::api::{Ingress, IngressBackend, IngressPath, SharedText};
use crate::backends::Backend;
use crate::names::hosts::{canonical, covers};
use crate::options::settings::GatewaySettings;
use crate::refusal::excerpt;
use crate::store::{ObjectKey, ObjectKind, ObjectStore};

/// The longest path, which may be a regular expression.
const PATH_BYTES_MAX: usize = 4096;

/// An Ingress, translated as far as it alone decides.
#[derive(Debug)]
pub(super) struct CompiledIngress {
    pub(super) key: ObjectKey,
    pub(super) created: SharedText,
    pub(super) draft: IngressDraft,
    /// Whether its paths are answered 503: it cannot be served as it asks.
    pub(super) is_refused: bool,
    pub(super) paths: Vec<CompiledPath>,
    /// Where requests go that no path is for.
    pub(super) default_backend: Option<CompiledPath>,
    /// What decides about it as a canary, once it is one.
    pub(super) canary_rules: OnceLock<CanaryRules>,
    pub(super) certificates: Vec<IngressCertificate>,
    /// The settings of its routes but for what names upstreams by their indices.
    pub(super) settings: Arc<RouteSettings>,
    /// The same for hosts with a certificate, once there is one.
    pub(super) settings_with_hsts: OnceLock<Arc<RouteSettings>>,
    pub(super) lists: Vec<Arc<AccessList>>,
    pub(super) limits: Vec<Arc<KeyLimit>>,
    pub(super) auth: Option<AuthPlan>,
    pub(super) mirror: Option<MirrorAnnotation>,
    pub(super) problems: Vec<IngressProblem>,
    /// The objects that it refers to, whether they are there or not.
    pub(super) uses: BTreeSet<(ObjectKind, ObjectKey)>,
}

/// A path of a host.
#[derive(Debug)]
pub(super) struct CompiledPath {
    /// Empty for every host.
    pub(super) host: SharedText,
    pub(super) is_exact: bool,
    pub(super) text: SharedText,
    /// Where it leads; `None`: nowhere, it is answered 503.
    pub(super) backend: Option<Arc<Backend>>,
    plain: OnceLock<ReadPath>,
    literal: OnceLock<ReadPattern>,
    regex: OnceLock<ReadPattern>,
}

/// What a path matches, and what becomes of the path of a request; or why it cannot be used.
type ReadPath = Result<(PathMatch, Option<Rewrite>), String>;

/// The same with the regular expressions that it takes.
type ReadPattern = Result<((PathMatch, Option<Rewrite>), Vec<RouteRegex>), String>;

/// How a host reads a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathReading {
    /// As it is, in a host without regular expressions.
    Plain,
    /// As a regular expression.
    Regex,
    /// As it is, in a host with regular expressions.
    Literal,
}

/// A certificate for some hosts.
#[derive(Debug)]
pub(super) struct IngressCertificate {
    /// The hosts; empty: those of the rules.
    pub(super) hosts: Vec<SharedText>,
    /// `None`: it is to be the default certificate.
    pub(super) secret: Option<ObjectKey>,
    pub(super) certificate: Result<Arc<LoadedCertificate>, String>,
}

impl CompiledPath {
    pub(super) fn new(host: &str, is_exact: bool, text: &str, backend: Option<Arc<Backend>>) -> Self {
        let (plain, literal, regex) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { host: host.into(), is_exact, text: text.into(), backend, plain, literal, regex }
    }

    /// Makes it ready to be read so; `target` is the `rewrite-target` of its Ingress.
    pub(super) fn prepare(
        &self,
        reading: PathReading,
        target: Option<&str>,
        regexes: &mut IngressRegexes<'_>,
    ) -> Result<(), String> {
        match reading {
            PathReading::Plain => {
                self.plain.get_or_init(|| self.read_plain()).as_ref().map(drop).map_err(String::clone)
            }
            PathReading::Literal => regexes.hold(&self.literal, |regexes| self.read_literal(regexes)),
            PathReading::Regex => regexes.hold(&self.regex, |regexes| self.read_regex(target, regexes)),
        }
    }

    /// What it matches where it is read so, once it is ready.
    pub(super) fn read(&self, reading: PathReading) -> Option<&(PathMatch, Option<Rewrite>)> {
        match reading {
            PathReading::Plain => self.plain.get()?.as_ref().ok(),
            PathReading::Literal => self.literal.get()?.as_ref().ok().map(|(read, _)| read),
            PathReading::Regex => self.regex.get()?.as_ref().ok().map(|(read, _)| read),
        }
    }

    fn normal(&self) -> Result<&str, String> {
        let normal = is_normal_path(&self.text).then_some(&*self.text);
        normal.ok_or_else(|| "no request has this path: it is not in its normal form".to_owned())
    }

    fn read_plain(&self) -> ReadPath {
        let path = self.normal()?;
        let made = if self.is_exact { PathMatch::exact(path) } else { PathMatch::prefix(stem(path)) };
        Ok((made.map_err(|error| error.to_string())?, None))
    }

    /// The same requests as [`PathReading::Plain`], by an expression that has its place among others.
    fn read_literal(&self, regexes: &mut BoundedRegexes<'_>) -> ReadPath {
        let path = self.normal()?;
        let pattern = match (self.is_exact, stem(path)) {
            (true, _) => format!("^{}$", escaped(path)),
            (false, "/") => "^/".to_owned(),
            (false, stem) => format!("^{}(?:/|$)", escaped(stem)),
        };
        let pattern = regexes.compile(&pattern).map_err(|error| error.to_string())?;
        Ok((PathMatch::of_pattern(pattern), None))
    }

    /// The whole path is replaced, as nginx does.
    fn read_regex(&self, target: Option<&str>, regexes: &mut BoundedRegexes<'_>) -> ReadPath {
        // Alone first: a parenthesis must not end the group that the rewrite puts it into.
        BoundedRegexes::check_part(&self.text).map_err(|error| error.to_string())?;
        let path = regexes.compile(&format!("(?i)^{}", self.text)).map_err(|error| error.to_string())?;
        let Some(target) = target else { return Ok((PathMatch::of_pattern(path), None)) };
        let of_target = |error: &dyn std::fmt::Display| format!("rewrite-target: {error}");
        let pattern = regexes.compile_with_groups(&format!("(?i)^.*?(?:{}).*$", self.text));
        let pattern = pattern.map_err(|error| of_target(&error))?;
        let rewrite = Rewrite::of_pattern(pattern, target).map_err(|error| of_target(&error))?;
        Ok((PathMatch::of_pattern(path), Some(rewrite)))
    }

    /// What makes it the same path as another of its host: whether only the whole path matches, and the text.
    pub(super) fn identity(&self, reading: PathReading) -> (bool, &str) {
        match reading {
            PathReading::Regex => (false, &self.text),
            _ if self.is_exact => (true, &self.text),
            _ => (false, stem(&self.text)),
        }
    }
}

/// A prefix without the slash at its end, which has no meaning in Ingresses.
fn stem(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(stem) => stem,
    }
}

impl CompiledIngress {
    /// The hosts of its rules, each once.
    pub(super) fn hosts(&self) -> Vec<&str> {
        let mut hosts: Vec<&str> = self.paths.iter().map(|path| &*path.host).collect();
        hosts.sort_compact();
        hosts.dedup();
        hosts
    }

    /// Makes ready what decides about it as a canary.
    pub(super) fn prepare_canary(&self, regexes: &mut IngressRegexes<'_>) -> Result<(), String> {
        regexes.hold(&self.canary_rules, |regexes| canary_rules(&self.draft.canary, regexes))
    }

    /// What decides about it as a canary, once that is ready.
    pub(super) fn canary_rules(&self) -> &[CanaryRule] {
        let rules = self.canary_rules.get().and_then(|made| made.as_ref().ok());
        rules.map_or(&[], |(rules, _)| rules)
    }
}

/// Whether the name of a certificate is for a host.
pub(super) fn is_covered(name: &str, host: &str) -> bool {
    let one_label = || name.matches('.').count() == host.matches('.').count();
    name == host || (name.starts_with('*') && covers(name, host) && one_label())
}

pub(super) fn compile(ingress: &Ingress, store: &ObjectStore, settings: &GatewaySettings) -> CompiledIngress {
    let key = ObjectKey::from_object_meta(&ingress.metadata);
    let (draft, problems) = annotations::read(&key.namespace, &ingress.annotations);
    let mut work = Compilation {
        scope: IngressScope { store, settings, key: &key },
        draft: &draft,
        problems,
        uses: BTreeSet::new(),
    };
    let (route, lists, limits) = work.settings();
    let (auth, mirror) = (work.auth(), work.mirror());
    let (paths, default_backend) = work.paths(ingress);
    let certificates = work.certificates(ingress);
    let Compilation { mut problems, uses, .. } = work;
    problems.sort_compact();
    problems.dedup();
    CompiledIngress {
        created: ingress.metadata.creation_timestamp.clone().unwrap_or_else(|| "~".into()),
        is_refused: problems.iter().any(|problem| problem.refuses),
        paths,
        default_backend,
        canary_rules: OnceLock::new(),
        certificates,
        settings: Arc::new(route),
        settings_with_hsts: OnceLock::new(),
        lists,
        limits,
        auth,
        mirror,
        problems,
        uses,
        draft,
        key,
    }
}

impl Compilation<'_> {
    fn settings(&mut self) -> (RouteSettings, Vec<Arc<AccessList>>, Vec<Arc<KeyLimit>>) {
        let mut route = self.draft.route.clone();
        route_settings::set_headers(self, &mut route);
        route_settings::set_basic(self, &mut route);
        let lists = route_settings::lists(self);
        let limits = route_settings::limits(self);
        route.lists.extend(lists.iter().cloned());
        let uses = limits.iter().map(|limit| LimitUse::new(Arc::clone(limit)));
        route.limited_by.extend(uses);
        (route, lists, limits)
    }

    fn paths(&mut self, ingress: &Ingress) -> (Vec<CompiledPath>, Option<CompiledPath>) {
        let tls = match self.scope.tls(self.draft) {
            Ok(tls) => tls,
            Err(why) => {
                self.refuse("proxy-ssl-secret", true, why);
                None
            }
        };
        let of_secret = self.draft.servers.tls_secret.clone();
        self.uses.extend(of_secret.iter().map(|key| (ObjectKind::OpaqueSecret, key.clone())));
        self.uses.extend(of_secret.map(|key| (ObjectKind::Secret, key)));
        let mut paths = Vec::new();
        for rule in &ingress.spec.rules {
            let host = match canonical(rule.host.as_deref()) {
                Ok(host) => host,
                Err(error) => {
                    self.note(format!(
                        "host `{}`: {error}",
                        excerpt(rule.host.as_deref().unwrap_or_default())
                    ));
                    continue;
                }
            };
            let Some(http) = &rule.http else { continue };
            for path in &http.paths {
                let place = format!("path {}{}", host, path.path.as_deref().unwrap_or("/"));
                let Some((is_exact, text)) = self.path(path, &place) else { continue };
                let backend = self.resolve(&path.backend, &place, tls.as_ref());
                paths.push(CompiledPath::new(&host, is_exact, text, backend));
            }
        }
        let default_backend = ingress.spec.default_backend.as_deref().map(|backend| {
            let backend = self.resolve(backend, "defaultBackend", tls.as_ref());
            CompiledPath::new("", false, "/", backend)
        });
        (paths, default_backend)
    }

    fn resolve(
        &mut self,
        backend: &IngressBackend,
        place: &str,
        tls: Option<&UpstreamTls>,
    ) -> Option<Arc<Backend>> {
        let Some(service) = &backend.service else {
            let kind = backend.resource.as_deref().map_or("nothing", |resource| &resource.kind);
            self.note(format!("{place}: the backend is a Service, not {}", excerpt(kind)));
            return None;
        };
        self.uses.insert((ObjectKind::Service, ObjectKey::new(&self.scope.key.namespace, &service.name)));
        match self.scope.resolve(&service.name, &service.port, self.draft, tls) {
            Ok(backend) => Some(backend),
            Err(why) => {
                self.note(format!("{place}: {why}"));
                None
            }
        }
    }

    /// Whether a path is exact, and its text.
    fn path<'p>(&mut self, path: &'p IngressPath, place: &str) -> Option<(bool, &'p str)> {
        let text = path.path.as_deref().filter(|text| !text.is_empty()).unwrap_or("/");
        let is_exact = match path.path_type.as_deref() {
            Some("Exact") => true,
            None | Some("Prefix" | "ImplementationSpecific") => false,
            Some(other) => {
                self.note(format!("{place}: the pathType `{}` is not supported", excerpt(other)));
                return None;
            }
        };
        if text.len() > PATH_BYTES_MAX || !text.starts_with('/') {
            self.note(format!(
                "{}: a path begins with / and has {PATH_BYTES_MAX} bytes at most",
                excerpt(place)
            ));
            return None;
        }
        Some((is_exact, text))
    }

    fn certificates(&mut self, ingress: &Ingress) -> Vec<IngressCertificate> {
        let mut certificates = Vec::new();
        for tls in &ingress.spec.tls {
            let hosts: Vec<SharedText> =
                tls.hosts.iter().filter_map(|host| canonical(Some(host)).ok()).collect();
            let Some(name) = tls.secret_name.as_deref().filter(|name| !name.is_empty()) else {
                let certificate = Err("`tls` names no Secret".to_owned());
                certificates.push(IngressCertificate { hosts, secret: None, certificate });
                continue;
            };
            let secret = ObjectKey::new(&self.scope.key.namespace, name);
            self.uses.insert((ObjectKind::Secret, secret.clone()));
            self.uses.insert((ObjectKind::OpaqueSecret, secret.clone()));
            let certificate = self.scope.certificate_of(&secret);
            certificates.push(IngressCertificate { hosts, secret: Some(secret), certificate });
        }
        certificates
    }
}
