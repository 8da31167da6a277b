//! The hosts of all Ingresses: which of them each path belongs to, whether paths are regular expressions, which certificate there is.
//!
//! A host belongs to the namespace of its oldest Ingress. Ingresses of other namespaces may add paths to it, as is usual for servers that
//! prove who users are, but nothing that changes what its own paths do: no regular expressions, no certificate, no canary.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weir_config::LoadedCertificate;
use weir_sort::CompactSort as _;
use weir_traffic::rewrite::Rewrite;
use weir_traffic::route::{PathMatch, RegexCache};

use super::annotations::IngressProblem;
use super::compile::{CompiledIngress, CompiledPath, IngressCertificate, PathReading};
use super::default_certificate::DefaultCertificate;
use super::host_certificates::{HostCertificate, KeptCertificates, TlsDemand};
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
    /// Those that hosts keep if their Secrets have none any more.
    pub(super) kept_certificates: KeptCertificates,
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
    /// Whether its Ingresses ask for TLS.
    demand: TlsDemand,
    /// Its paths, those that precede others first.
    pub(super) entries: Vec<HostEntry<'a>>,
    /// The place of each path.
    places: HashMap<(bool, &'a str), usize>,
}

/// A host of an Ingress for which its Secret has no certificate.
#[derive(Debug)]
struct LackingCertificate<'a> {
    ingress: &'a Arc<CompiledIngress>,
    host: &'a str,
    found: &'a IngressCertificate,
}

/// A path of a host.
#[derive(Debug)]
pub(super) struct HostEntry<'a> {
    pub(super) ingress: &'a Arc<CompiledIngress>,
    pub(super) path: &'a CompiledPath,
    pub(super) canary: Option<(&'a Arc<CompiledIngress>, &'a CompiledPath)>,
    /// Whether it may be served without TLS.
    pub(super) demand: TlsDemand,
}

impl<'a> HostTable<'a> {
    /// Of all Ingresses; `default` is the certificate of hosts that have none of their own, `kept` are those that hosts had last, `cache` has
    /// the regular expressions in use.
    pub(super) fn new(
        ingresses: &'a BTreeMap<ObjectKey, Arc<CompiledIngress>>,
        (default, kept): (&DefaultCertificate, &KeptCertificates),
        cache: &'a mut RegexCache,
    ) -> Self {
        let mut oldest_first: Vec<&Arc<CompiledIngress>> = ingresses.values().collect();
        oldest_first
            .sort_compact_by(|one, other| (&one.created, &one.key).cmp(&(&other.created, &other.key)));
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
        others.iter().for_each(|ingress| table.demand_tls(ingress, kept));
        let lacking: Vec<_> =
            others.iter().flat_map(|ingress| table.add_certificates(ingress, kept)).collect();
        lacking.iter().for_each(|one| table.settle(one, default, kept));
        canaries.iter().for_each(|ingress| table.add_canary(ingress, &mut regexes));
        table.displaced = regexes.displaced();
        table.hosts.values_mut().for_each(HostPlan::arrange);
        table.hosts.iter_mut().for_each(|(host, plan)| plan.set_demands(host, kept));
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
            let plan = self.hosts.entry(host.into()).or_insert_with(|| HostPlan::new(&ingress.key.namespace));
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
        plan.entries.push(HostEntry { ingress, path, canary: None, demand: TlsDemand::Unasked });
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
            let mut plan = HostPlan::new(&ingress.key.namespace);
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
            self.hosts.entry(SharedText::default()).or_insert_with(|| HostPlan::new(&ingress.key.namespace));
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

    /// Notes which hosts may not be served without TLS.
    fn demand_tls(&mut self, ingress: &'a Arc<CompiledIngress>, kept: &KeptCertificates) {
        let hosts: Vec<&str> = ingress.hosts().into_iter().chain(ingress.default_host()).collect();
        let demands: Vec<TlsDemand> = hosts.iter().map(|host| ingress.tls_demand(host, kept)).collect();
        let highest = demands.iter().max().copied().unwrap_or_default();
        // An alias is another name of all of them.
        let of_alias = |alias: &'a SharedText| (&**alias, highest.max(ingress.tls_demand(alias, kept)));
        let of_aliases = ingress.draft.paths.aliases.iter().map(of_alias);
        for (host, demand) in hosts.into_iter().zip(demands).chain(of_aliases) {
            let Some(plan) = self.hosts.get_mut(host).filter(|plan| plan.is_of(ingress)) else { continue };
            plan.demand = plan.demand.max(demand);
            if demand == TlsDemand::Unknown {
                let host = shown(host);
                self.note(
                    ingress,
                    ProblemWeight::Certificate,
                    format!("tls: host `{host}` is redirected to https as long as a Secret cannot be read whose certificate may be for it"),
                );
            }
        }
    }

    /// Adds the certificates of an Ingress that can be used; returns what is wrong with the others.
    fn add_certificates(
        &mut self,
        ingress: &'a Arc<CompiledIngress>,
        kept: &KeptCertificates,
    ) -> Vec<LackingCertificate<'a>> {
        let aliases = ingress.draft.paths.aliases.iter().map(|alias| &**alias);
        let of_tls = ingress.hosts_of_tls().filter(|host| !self.hosts.contains_key(*host));
        let of_rules = ingress.hosts().into_iter().chain(ingress.default_host());
        let hosts: BTreeSet<&'a str> = of_rules.chain(aliases).chain(of_tls).collect();
        let mut lacking = Vec::new();
        for host in hosts {
            let Some(found) = ingress.certificate_for(host, kept) else { continue };
            let Some(plan) = self.serving(host) else { continue };
            if !plan.is_of(ingress) {
                let message =
                    format!("tls: host `{}` belongs to the namespace `{}`", shown(host), plan.owner);
                self.note(ingress, ProblemWeight::Part, message);
                continue;
            }
            let usable = found.usable_for(host);
            if let (Some(secret), Some(last)) = (&found.secret, usable.or_else(|| found.kept_for(host, kept)))
            {
                self.kept_certificates.keep(secret, host, last);
            }
            match usable {
                Some(certificate) => self.show(host, certificate),
                None => lacking.push(LackingCertificate { ingress, host, found }),
            }
        }
        lacking
    }

    /// Gives a host the certificate that it had last, else the default one.
    fn settle(
        &mut self,
        lacking: &LackingCertificate<'a>,
        default: &DefaultCertificate,
        kept: &KeptCertificates,
    ) {
        let LackingCertificate { ingress, host, found } = *lacking;
        let why = match (&found.certificate, &found.secret) {
            (Ok(_), Some(secret)) => {
                format!("the certificate of the Secret {secret} is not for `{}`", shown(host))
            }
            (Ok(_), None) => return,
            (Err(why), _) => why.clone(),
        };
        let has_one = match self.hosts.get(host) {
            Some(plan) => plan.certificate == HostCertificate::Own,
            None => self.certificates.iter().any(|(_, hosts)| hosts.contains(host)),
        };
        let result = match found.kept_for(host, kept) {
            _ if has_one => "has the certificate of another Secret".to_owned(),
            Some(last) => {
                self.show(host, last);
                "keeps the certificate that it had last".to_owned()
            }
            None => {
                if let Some(plan) = self.hosts.get_mut(host).filter(|_| default.loaded.is_some()) {
                    plan.certificate = HostCertificate::Default;
                }
                // No Secret at all asks for the default certificate.
                if found.secret.is_none() && default.loaded.is_some() {
                    return;
                }
                default.sentence()
            }
        };
        let message = format!("tls: {why}; host `{}` {result}", shown(host));
        self.note(ingress, ProblemWeight::Certificate, message);
    }

    /// Has a host show a certificate, unless it shows one.
    fn show(&mut self, host: &str, certificate: &Arc<LoadedCertificate>) {
        match self.hosts.get_mut(host) {
            Some(plan) if plan.certificate == HostCertificate::Own => return,
            Some(plan) => plan.certificate = HostCertificate::Own,
            None if self.certificates.iter().any(|(_, hosts)| hosts.contains(host)) => return,
            None => {}
        }
        match self.certificates.iter_mut().find(|(known, _)| known == certificate) {
            Some((_, names)) => drop(names.insert(host.into())),
            None => self.certificates.push((Arc::clone(certificate), [host.into()].into())),
        }
    }

    /// The host to which requests for a host belong: itself, else the most specific one with a wildcard, else every host.
    fn serving(&self, host: &str) -> Option<&HostPlan<'a>> {
        let wildcard = |(at, _): (usize, &str)| self.hosts.get(format!("*{}", &host[at..]).as_str());
        let own = self.hosts.get(host);
        own.or_else(|| host.match_indices('.').find_map(wildcard)).or_else(|| self.hosts.get(""))
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
    fn new(owner: &'a str) -> Self {
        let (entries, places) = (Vec::new(), HashMap::new());
        let (certificate, demand) = (HostCertificate::Unasked, TlsDemand::Unasked);
        Self { owner, is_regex: false, certificate, demand, entries, places }
    }

    /// Which of its paths may be served without TLS: none that its owner or the Ingress of the path asks for TLS.
    fn set_demands(&mut self, host: &str, kept: &KeptCertificates) {
        let of_certificate = match self.certificate {
            HostCertificate::Unasked => self.demand,
            HostCertificate::Default | HostCertificate::Own => TlsDemand::Asked,
        };
        for entry in &mut self.entries {
            entry.demand = match self.owner == &*entry.ingress.key.namespace {
                true => of_certificate,
                false => of_certificate.max(entry.ingress.tls_demand(host, kept)),
            };
        }
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
        self.entries
            .sort_compact_by_key(|entry| (!is_regex && !entry.path.is_exact, Reverse(entry.path.text.len())));
    }
}

/// A host as it is shown.
pub(super) fn shown(host: &str) -> &str {
    if host.is_empty() { "*" } else { host }
}
