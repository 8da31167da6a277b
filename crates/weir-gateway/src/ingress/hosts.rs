//! The hosts of all Ingresses: which of them each path belongs to, whether paths are regular expressions, which certificate there is.
//!
//! A host belongs to the namespace of its oldest Ingress. Ingresses of other namespaces may add paths to it, as is usual for servers that
//! prove who users are, but nothing that changes what its own paths do: no regular expressions, no certificate, no canary.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weir_config::LoadedCertificate;

use super::annotations::IngressProblem;
use super::compile::{CompiledIngress, CompiledPath, is_covered};
use crate::api::SharedText;
use crate::refusal::excerpt;
use crate::store::ObjectKey;

/// What the hosts come to.
#[derive(Debug, Default)]
pub(super) struct HostTable<'a> {
    pub(super) hosts: BTreeMap<SharedText, HostPlan<'a>>,
    /// Hosts that are redirected to others, with the Ingress that wants it.
    pub(super) redirected: BTreeMap<SharedText, (SharedText, &'a Arc<CompiledIngress>)>,
    /// The certificates with the hosts that each is for, oldest first.
    pub(super) certificates: Vec<(Arc<LoadedCertificate>, BTreeSet<SharedText>)>,
    /// What Ingresses make of each other.
    pub(super) problems: Vec<(ObjectKey, IngressProblem)>,
    /// Ingresses that cannot be served for that reason.
    pub(super) refused: BTreeSet<&'a ObjectKey>,
}

/// A host.
#[derive(Debug)]
pub(super) struct HostPlan<'a> {
    /// The namespace of its oldest Ingress.
    owner: &'a str,
    pub(super) is_regex: bool,
    pub(super) has_certificate: bool,
    /// Its paths, those that precede others first.
    pub(super) entries: Vec<HostEntry<'a>>,
    /// The place of each path.
    places: HashMap<(bool, &'a str), usize>,
}

/// A path of a host.
#[derive(Debug)]
pub(super) struct HostEntry<'a> {
    pub(super) ingress: &'a Arc<CompiledIngress>,
    pub(super) path: &'a CompiledPath,
    pub(super) canary: Option<(&'a Arc<CompiledIngress>, &'a CompiledPath)>,
}

impl<'a> HostTable<'a> {
    /// Of all Ingresses.
    pub(super) fn new(ingresses: &'a BTreeMap<ObjectKey, Arc<CompiledIngress>>) -> Self {
        let mut oldest_first: Vec<&Arc<CompiledIngress>> = ingresses.values().collect();
        oldest_first.sort_by(|one, other| (&one.created, &one.key).cmp(&(&other.created, &other.key)));
        let (canaries, others): (Vec<_>, Vec<_>) =
            oldest_first.into_iter().partition(|ingress| ingress.draft.canary.is_canary);
        let mut table = Self::default();
        others.iter().for_each(|ingress| table.claim(ingress));
        others.iter().for_each(|ingress| table.add_paths(ingress));
        others.iter().for_each(|ingress| table.add_aliases(ingress));
        others.iter().for_each(|ingress| table.add_default(ingress));
        others.iter().for_each(|ingress| table.add_redirects(ingress));
        others.iter().for_each(|ingress| table.add_certificates(ingress));
        canaries.iter().for_each(|ingress| table.add_canary(ingress));
        table.hosts.values_mut().for_each(HostPlan::arrange);
        table
    }

    pub(super) fn note(&mut self, ingress: &CompiledIngress, refuses: bool, message: String) {
        self.problems.push((ingress.key.clone(), IngressProblem::new("", refuses, message)));
    }

    /// Whose each host is, and whether its paths are regular expressions.
    fn claim(&mut self, ingress: &'a Arc<CompiledIngress>) {
        let wants_regex = ingress.draft.wants_regex() && !ingress.is_refused;
        for host in ingress.hosts() {
            let plan = self.hosts.entry(host.into()).or_insert_with(|| HostPlan::of(&ingress.key.namespace));
            if !wants_regex {
                continue;
            }
            if plan.owner == &*ingress.key.namespace {
                plan.is_regex = true;
            } else if !plan.is_regex {
                let message = format!(
                    "host `{host}` belongs to the namespace `{}`, whose paths would become regular expressions",
                    plan.owner
                );
                self.refused.insert(&ingress.key);
                self.note(ingress, true, message);
            }
        }
    }

    fn add_paths(&mut self, ingress: &'a Arc<CompiledIngress>) {
        for path in &ingress.paths {
            let host = path.host.clone();
            self.add(&host, ingress, path);
        }
    }

    fn add(&mut self, host: &str, ingress: &'a Arc<CompiledIngress>, path: &'a CompiledPath) {
        let Some(plan) = self.hosts.get_mut(host) else { return };
        // One that would change what the paths of another namespace do has none there.
        if self.refused.contains(&ingress.key) && plan.owner != &*ingress.key.namespace {
            return;
        }
        let made = match plan.is_regex {
            true => path.regex(ingress.draft.paths.rewrite_target.as_deref()).map(drop),
            false => path.plain().map(drop),
        };
        if let Err(why) = made {
            let message = format!("path {host}{}: {why}", excerpt(&path.text));
            self.note(ingress, false, message);
            return;
        }
        let identity = path.identity(plan.is_regex);
        if let Some(place) = plan.places.get(&identity) {
            let other = &plan.entries[*place].ingress.key;
            if *other != ingress.key {
                let message = format!(
                    "path {host}{} belongs to the Ingress {other}, which is older",
                    excerpt(&path.text)
                );
                self.note(ingress, false, message);
            }
            return;
        }
        plan.places.insert(identity, plan.entries.len());
        plan.entries.push(HostEntry { ingress, path, canary: None });
    }

    fn add_aliases(&mut self, ingress: &'a Arc<CompiledIngress>) {
        for alias in &ingress.draft.paths.aliases {
            if self.hosts.contains_key(&**alias) {
                self.note(
                    ingress,
                    false,
                    format!("server-alias: `{alias}` is a host of another Ingress or alias"),
                );
                continue;
            }
            let mut plan = HostPlan::of(&ingress.key.namespace);
            plan.is_regex = ingress.hosts().iter().any(|host| self.hosts[*host].is_regex);
            self.hosts.insert((&**alias).into(), plan);
            ingress.paths.iter().for_each(|path| self.add(alias, ingress, path));
        }
    }

    /// Where the requests of hosts go that no path is for.
    fn add_default(&mut self, ingress: &'a Arc<CompiledIngress>) {
        let Some(path) = &ingress.default_backend else { return };
        let mut hosts: Vec<SharedText> = ingress.hosts().into_iter().map(SharedText::from).collect();
        if ingress.paths.is_empty() {
            self.hosts.entry(SharedText::default()).or_insert_with(|| HostPlan::of(&ingress.key.namespace));
            hosts.push(SharedText::default());
        }
        for host in hosts {
            let has_root = self.hosts.get(&host).is_some_and(|plan| plan.places.contains_key(&(false, "/")));
            if !has_root || ingress.paths.is_empty() {
                self.add(&host, ingress, path);
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
            let other: SharedText = match host.strip_prefix("www.") {
                Some(bare) => bare.into(),
                None => format!("www.{host}").into(),
            };
            if !self.hosts.contains_key(&other) {
                self.redirected.entry(other).or_insert_with(|| (host.into(), ingress));
            }
        }
    }

    fn add_certificates(&mut self, ingress: &'a Arc<CompiledIngress>) {
        let aliases = ingress.draft.paths.aliases.iter().map(|alias| &**alias);
        let hosts: BTreeSet<&str> = ingress.hosts().into_iter().chain(aliases).collect();
        for host in hosts {
            let Some(found) = ingress.certificate_for(host) else { continue };
            let Some(plan) = self.hosts.get_mut(host) else { continue };
            if plan.owner != &*ingress.key.namespace {
                let message = format!("tls: host `{host}` belongs to the namespace `{}`", plan.owner);
                self.note(ingress, false, message);
                continue;
            }
            let Ok(certificate) = &found.certificate else { continue };
            if plan.has_certificate || host.is_empty() {
                continue;
            }
            if !certificate.names.iter().any(|name| is_covered(name, host)) {
                let message =
                    format!("tls: the certificate of the Secret {} is not for `{host}`", found.secret);
                self.note(ingress, false, message);
                continue;
            }
            plan.has_certificate = true;
            match self.certificates.iter_mut().find(|(known, _)| known == certificate) {
                Some((_, names)) => drop(names.insert(host.into())),
                None => self.certificates.push((Arc::clone(certificate), [host.into()].into())),
            }
        }
    }

    fn add_canary(&mut self, ingress: &'a Arc<CompiledIngress>) {
        for path in &ingress.paths {
            let place = format!("path {}{}", path.host, excerpt(&path.text));
            let plan = self.hosts.get_mut(&path.host);
            let entry = plan.and_then(|plan| {
                let place = *plan.places.get(&path.identity(plan.is_regex))?;
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
            self.note(ingress, false, message);
        }
    }

    /// Where a path of a host leads.
    pub(super) fn find(&self, host: &str, path: &str) -> Option<&HostEntry<'a>> {
        let path = path.split('?').next().unwrap_or_default();
        let plan = self.hosts.get(host).or_else(|| {
            let (_, parent) = host.split_once('.')?;
            self.hosts.get(format!("*.{parent}").as_str())
        });
        let matches = |entry: &&HostEntry<'a>| {
            let of_entry = match plan.is_some_and(|plan| plan.is_regex) {
                true => {
                    entry.path.regex(entry.ingress.draft.paths.rewrite_target.as_deref()).map(|made| &made.0)
                }
                false => entry.path.plain(),
            };
            of_entry.is_ok_and(|of_entry| of_entry.matches(path.as_bytes()))
        };
        plan?.entries.iter().find(matches)
    }
}

impl<'a> HostPlan<'a> {
    fn of(owner: &'a str) -> Self {
        Self { owner, is_regex: false, has_certificate: false, entries: Vec::new(), places: HashMap::new() }
    }

    /// The order in which paths are tried: exact ones, then the longest, then those of the oldest Ingress.
    fn arrange(&mut self) {
        let is_regex = self.is_regex;
        self.places.clear();
        self.entries.sort_by_key(|entry| (!is_regex && !entry.path.is_exact, Reverse(entry.path.text.len())));
    }
}
