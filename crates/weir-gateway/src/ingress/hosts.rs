//! The hosts of all Ingresses: which of them each path belongs to, whether paths are regular expressions, which certificate there is.
//!
//! A host belongs to the namespace of its oldest Ingress. Ingresses of other namespaces may add paths to it, as is usual for servers that
//! prove who users are, but nothing that changes what its own paths do: no regular expressions, no certificate, no canary.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weir_config::LoadedCertificate;
use weir_traffic::rewrite::Rewrite;
use weir_traffic::route::{PathMatch, RegexCache};

use super::annotations::IngressProblem;
use super::compile::{CompiledIngress, CompiledPath, PathReading, is_covered};
use super::default_certificate::DefaultCertificate;
use super::regexes::RegexShares;
use crate::api::{NGINX_PREFIX, SharedText};
use crate::refusal::excerpt;
use crate::store::ObjectKey;

/// What the hosts come to.
#[derive(Debug, Default)]
pub(super) struct HostTable<'a> {
    /// Ingresses to be compiled anew, since they have no room for their regular expressions any more.
    pub(super) displaced: Vec<ObjectKey>,
    pub(super) hosts: BTreeMap<SharedText, HostPlan<'a>>,
    /// Hosts that are redirected to others, with the Ingress that wants it.
    pub(super) redirected: BTreeMap<SharedText, (SharedText, &'a Arc<CompiledIngress>)>,
    /// The certificates with the hosts that each is for, oldest first.
    pub(super) certificates: Vec<(Arc<LoadedCertificate>, BTreeSet<SharedText>)>,
    /// What Ingresses make of each other.
    pub(super) problems: Vec<TableProblem>,
    /// Ingresses that cannot be served for that reason.
    pub(super) refused: BTreeSet<&'a ObjectKey>,
}

/// Something that shows only with other Ingresses, or with the default certificate.
#[derive(Debug)]
pub(super) struct TableProblem {
    pub(super) ingress: ObjectKey,
    pub(super) problem: IngressProblem,
    pub(super) weight: ProblemWeight,
}

/// How much a problem takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProblemWeight {
    /// A certificate: whether there is one depends on objects beside Ingresses.
    Certificate,
    /// Something about paths that are served.
    Part,
    /// A path is not served, or all of them are not.
    Unserved,
}

/// A host.
#[derive(Debug)]
pub(super) struct HostPlan<'a> {
    /// The namespace of its oldest Ingress.
    owner: &'a str,
    /// Whether the paths of its owner are regular expressions.
    pub(super) is_regex: bool,
    /// The certificate that it has.
    pub(super) certificate: HostCertificate,
    /// Its paths, those that precede others first.
    pub(super) entries: Vec<HostEntry<'a>>,
    /// The place of each path.
    places: HashMap<(bool, &'a str), usize>,
}

/// Which certificate a host is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostCertificate {
    /// None that its Ingresses ask for.
    Unasked,
    /// The default certificate, which is there.
    Default,
    /// One of its own.
    Own,
}

/// A path of a host.
#[derive(Debug)]
pub(super) struct HostEntry<'a> {
    pub(super) ingress: &'a Arc<CompiledIngress>,
    pub(super) path: &'a CompiledPath,
    pub(super) canary: Option<(&'a Arc<CompiledIngress>, &'a CompiledPath)>,
}

impl<'a> HostTable<'a> {
    /// Of all Ingresses; `default` says which certificate hosts get that have none of their own, `cache` has the regular expressions in use.
    pub(super) fn new(
        ingresses: &'a BTreeMap<ObjectKey, Arc<CompiledIngress>>,
        default: &DefaultCertificate,
        cache: &'a mut RegexCache,
    ) -> Self {
        let mut oldest_first: Vec<&Arc<CompiledIngress>> = ingresses.values().collect();
        oldest_first.sort_by(|one, other| (&one.created, &one.key).cmp(&(&other.created, &other.key)));
        let (canaries, others): (Vec<_>, Vec<_>) =
            oldest_first.into_iter().partition(|ingress| ingress.draft.canary.is_canary);
        let mut table = Self::default();
        let mut regexes = RegexShares::new(cache);
        others.iter().for_each(|ingress| table.claim(ingress));
        others.iter().for_each(|ingress| table.add_paths(ingress, &mut regexes));
        others.iter().for_each(|ingress| table.add_aliases(ingress, &mut regexes));
        others.iter().for_each(|ingress| table.add_default(ingress, &mut regexes));
        others.iter().for_each(|ingress| table.add_redirects(ingress));
        others.iter().for_each(|ingress| table.note_foreign_root(ingress));
        others.iter().for_each(|ingress| table.add_certificates(ingress, default));
        canaries.iter().for_each(|ingress| table.add_canary(ingress, &mut regexes));
        table.displaced = regexes.displaced();
        table.hosts.values_mut().for_each(HostPlan::arrange);
        table
    }

    fn note(&mut self, ingress: &CompiledIngress, weight: ProblemWeight, message: String) {
        let (ingress, problem) = (ingress.key.clone(), IngressProblem::new("", false, message));
        self.problems.push(TableProblem { ingress, problem, weight });
    }

    /// Notes why an Ingress is not served.
    pub(super) fn note_refused(&mut self, ingress: &CompiledIngress, annotation: &str, message: &str) {
        let annotation =
            if annotation.is_empty() { String::new() } else { format!("{NGINX_PREFIX}{annotation}") };
        let problem = IngressProblem::new(&annotation, true, message);
        self.problems.push(TableProblem {
            ingress: ingress.key.clone(),
            problem,
            weight: ProblemWeight::Unserved,
        });
    }

    /// Whose each host is, and whether its paths are regular expressions.
    fn claim(&mut self, ingress: &'a Arc<CompiledIngress>) {
        let wants_regex = ingress.draft.wants_regex() && !ingress.is_refused;
        for host in ingress.hosts() {
            let plan = self.hosts.entry(host.into()).or_insert_with(|| HostPlan::of(&ingress.key.namespace));
            if !wants_regex {
                continue;
            }
            if plan.is_of(ingress) {
                plan.is_regex = true;
            } else {
                let message = format!(
                    "host `{host}` belongs to the namespace `{}`: Ingresses of others have no regular expressions there",
                    plan.owner
                );
                self.refused.insert(&ingress.key);
                self.note_refused(ingress, "", &message);
            }
        }
    }

    fn add_paths(&mut self, ingress: &'a Arc<CompiledIngress>, regexes: &mut RegexShares<'a>) {
        for path in &ingress.paths {
            let host = path.host.clone();
            self.add(&host, (ingress, path), regexes);
        }
    }

    fn add(
        &mut self,
        host: &str,
        (ingress, path): (&'a Arc<CompiledIngress>, &'a CompiledPath),
        regexes: &mut RegexShares<'a>,
    ) {
        let Some(plan) = self.hosts.get_mut(host) else { return };
        // One that would change what the paths of another namespace do has none there.
        if self.refused.contains(&ingress.key) && !plan.is_of(ingress) {
            return;
        }
        let reading = plan.reading(ingress);
        let target = ingress.draft.paths.rewrite_target.as_deref();
        let ready = regexes.with(&ingress.key, |regexes| path.prepare(reading, target, regexes));
        if let Err(why) = ready {
            let message = format!("path {host}{}: {why}", excerpt(&path.text));
            self.note(ingress, ProblemWeight::Unserved, message);
            return;
        }
        let identity = path.identity(reading);
        if let Some(place) = plan.places.get(&identity) {
            let other = &plan.entries[*place].ingress.key;
            if *other != ingress.key {
                let message = format!(
                    "path {host}{} belongs to the Ingress {other}, which is older",
                    excerpt(&path.text)
                );
                self.note(ingress, ProblemWeight::Unserved, message);
            }
            return;
        }
        plan.places.insert(identity, plan.entries.len());
        plan.entries.push(HostEntry { ingress, path, canary: None });
    }

    fn add_aliases(&mut self, ingress: &'a Arc<CompiledIngress>, regexes: &mut RegexShares<'a>) {
        for alias in &ingress.draft.paths.aliases {
            if self.hosts.contains_key(&**alias) {
                self.note(
                    ingress,
                    ProblemWeight::Part,
                    format!("server-alias: `{alias}` is a host of another Ingress or alias"),
                );
                continue;
            }
            let mut plan = HostPlan::of(&ingress.key.namespace);
            let is_regex =
                |host: &&str| self.hosts.get(*host).is_some_and(|plan| plan.is_regex && plan.is_of(ingress));
            plan.is_regex = ingress.hosts().iter().any(is_regex);
            self.hosts.insert(alias.clone(), plan);
            ingress.paths.iter().for_each(|path| self.add(alias, (ingress, path), regexes));
        }
    }

    /// Where the requests of hosts go that no path is for.
    fn add_default(&mut self, ingress: &'a Arc<CompiledIngress>, regexes: &mut RegexShares<'a>) {
        let Some(path) = &ingress.default_backend else { return };
        let mut hosts: Vec<SharedText> = ingress.hosts().into_iter().map(SharedText::from).collect();
        if ingress.paths.is_empty() {
            self.hosts.entry(SharedText::default()).or_insert_with(|| HostPlan::of(&ingress.key.namespace));
            hosts.push(SharedText::default());
        }
        for host in hosts {
            let has_root = self.hosts.get(&host).is_some_and(|plan| plan.places.contains_key(&(false, "/")));
            if !has_root || ingress.paths.is_empty() {
                self.add(&host, (ingress, path), regexes);
            }
        }
    }

    fn add_redirects(&mut self, ingress: &'a Arc<CompiledIngress>) {
        if !ingress.draft.paths.www_redirect {
            return;
        }
        for host in ingress.hosts() {
            if host.is_empty() || host.starts_with('*') {
                continue;
            }
            if self.note_foreign(ingress, host, "from-to-www-redirect") {
                continue;
            }
            let other: SharedText = match host.strip_prefix("www.") {
                Some(bare) => bare.into(),
                None => format!("www.{host}").into(),
            };
            if !self.hosts.contains_key(&other) {
                self.redirected.entry(other).or_insert_with(|| (host.into(), ingress));
            }
        }
    }

    /// Notes that an annotation does not hold for the host of another namespace; whether it is one.
    fn note_foreign(&mut self, ingress: &CompiledIngress, host: &str, annotation: &str) -> bool {
        let Some(plan) = self.hosts.get(host).filter(|plan| !plan.is_of(ingress)) else { return false };
        let message = format!("host `{}` belongs to the namespace `{}`", shown(host), plan.owner);
        let annotation = format!("{NGINX_PREFIX}{annotation}");
        let (ingress, problem) = (ingress.key.clone(), IngressProblem::new(&annotation, false, message));
        self.problems.push(TableProblem { ingress, problem, weight: ProblemWeight::Part });
        true
    }

    fn note_foreign_root(&mut self, ingress: &CompiledIngress) {
        if ingress.draft.paths.app_root.is_some() {
            for host in ingress.hosts() {
                self.note_foreign(ingress, host, "app-root");
            }
        }
    }

    fn add_certificates(&mut self, ingress: &'a Arc<CompiledIngress>, default: &DefaultCertificate) {
        let aliases = ingress.draft.paths.aliases.iter().map(|alias| &**alias);
        let hosts: BTreeSet<&str> = ingress.hosts().into_iter().chain(aliases).collect();
        for host in hosts {
            let Some(found) = ingress.certificate_for(host) else { continue };
            let Some(plan) = self.hosts.get_mut(host) else { continue };
            if !plan.is_of(ingress) {
                let message =
                    format!("tls: host `{}` belongs to the namespace `{}`", shown(host), plan.owner);
                self.note(ingress, ProblemWeight::Part, message);
                continue;
            }
            if plan.certificate == HostCertificate::Own || (host.is_empty() && found.secret.is_some()) {
                continue;
            }
            let is_for = |certificate: &&Arc<LoadedCertificate>| {
                certificate.names.iter().any(|name| is_covered(name, host))
            };
            let (certificate, why) = match (&found.certificate, &found.secret) {
                (Ok(certificate), _) if is_for(&certificate) => (Some(certificate), String::new()),
                (Ok(_), Some(secret)) => {
                    (None, format!("the certificate of the Secret {secret} is not for `{}`", shown(host)))
                }
                (Ok(_), None) => continue,
                (Err(why), _) => (None, why.clone()),
            };
            let Some(certificate) = certificate else {
                if default.loaded.is_ok() {
                    plan.certificate = HostCertificate::Default;
                }
                // No Secret at all asks for the default certificate.
                if found.secret.is_some() || default.loaded.is_err() {
                    self.note(
                        ingress,
                        ProblemWeight::Certificate,
                        format!("tls: {why}; host `{}` {}", shown(host), default.sentence()),
                    );
                }
                continue;
            };
            plan.certificate = HostCertificate::Own;
            match self.certificates.iter_mut().find(|(known, _)| known == certificate) {
                Some((_, names)) => drop(names.insert(host.into())),
                None => self.certificates.push((Arc::clone(certificate), [host.into()].into())),
            }
        }
    }

    /// Hosts without a certificate of their own for which a wildcard certificate of another namespace would be shown.
    pub(super) fn hosts_of_default(&self) -> BTreeSet<&str> {
        let owner_of_wildcard = |host: &str| {
            let (_, parent) = host.split_once('.')?;
            let plan = self.hosts.get(format!("*.{parent}").as_str())?;
            (plan.certificate == HostCertificate::Own).then_some(plan.owner)
        };
        let without = self.hosts.iter().filter(|(_, plan)| plan.certificate != HostCertificate::Own);
        let redirected = self.redirected.iter().map(|(host, (_, ingress))| (host, &*ingress.key.namespace));
        let all = without.map(|(host, plan)| (host, plan.owner)).chain(redirected);
        all.filter(|(host, _)| !host.starts_with('*'))
            .filter(|(host, owner)| owner_of_wildcard(host).is_some_and(|of_wildcard| of_wildcard != *owner))
            .map(|(host, _)| &**host)
            .collect()
    }

    fn add_canary(&mut self, ingress: &'a Arc<CompiledIngress>, regexes: &mut RegexShares<'a>) {
        if !ingress.is_refused
            && let Err(why) = regexes.with(&ingress.key, |regexes| ingress.prepare_canary(regexes))
        {
            return self.note(ingress, ProblemWeight::Unserved, why);
        }
        for path in &ingress.paths {
            let place = format!("path {}{}", path.host, excerpt(&path.text));
            let plan = self.hosts.get_mut(&path.host);
            let entry = plan.and_then(|plan| {
                let place = *plan.places.get(&path.identity(plan.reading(ingress)))?;
                Some(&mut plan.entries[place])
            });
            let message = match entry {
                None => format!("{place}: a canary needs an Ingress with the same host and path"),
                Some(entry) if entry.ingress.key.namespace != ingress.key.namespace => {
                    format!("{place} belongs to the Ingress {} of another namespace", entry.ingress.key)
                }
                Some(HostEntry { canary: Some((other, _)), .. }) => {
                    format!("{place} has a canary already, the Ingress {}, which is older", other.key)
                }
                Some(_) if ingress.is_refused => continue,
                Some(entry) => {
                    entry.canary = Some((ingress, path));
                    continue;
                }
            };
            self.note(ingress, ProblemWeight::Unserved, message);
        }
    }

    /// Where a path of a host leads.
    pub(super) fn find(&self, host: &str, path: &str) -> Option<&HostEntry<'a>> {
        let path = path.split('?').next().unwrap_or_default();
        let plan = self.hosts.get(host).or_else(|| {
            let (_, parent) = host.split_once('.')?;
            self.hosts.get(format!("*.{parent}").as_str())
        });
        let plan = plan?;
        plan.entries
            .iter()
            .find(|entry| plan.read(entry).is_some_and(|(of_entry, _)| of_entry.matches(path.as_bytes())))
    }
}

impl<'a> HostPlan<'a> {
    fn of(owner: &'a str) -> Self {
        let (entries, places) = (Vec::new(), HashMap::new());
        Self { owner, is_regex: false, certificate: HostCertificate::Unasked, entries, places }
    }

    /// Whether it belongs to the namespace of an Ingress.
    pub(super) fn is_of(&self, ingress: &CompiledIngress) -> bool {
        self.owner == &*ingress.key.namespace
    }

    /// How it reads the paths of an Ingress: only those of its owner are regular expressions.
    fn reading(&self, ingress: &CompiledIngress) -> PathReading {
        match self.is_regex {
            true if self.is_of(ingress) => PathReading::Regex,
            true => PathReading::Literal,
            false => PathReading::Plain,
        }
    }

    /// What one of its paths matches, and what becomes of it.
    pub(super) fn read<'e>(&self, entry: &HostEntry<'e>) -> Option<&'e (PathMatch, Option<Rewrite>)> {
        entry.path.read(self.reading(entry.ingress))
    }

    /// The order in which paths are tried: exact ones, then the longest, then those of the oldest Ingress.
    fn arrange(&mut self) {
        let is_regex = self.is_regex;
        self.places.clear();
        self.entries.sort_by_key(|entry| (!is_regex && !entry.path.is_exact, Reverse(entry.path.text.len())));
    }
}

/// A host as it is shown.
pub(super) fn shown(host: &str) -> &str {
    if host.is_empty() { "*" } else { host }
}
