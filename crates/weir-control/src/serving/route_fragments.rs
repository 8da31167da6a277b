//! Routes from keys of a store: taken over as a reload would be, and kept in a file for the next start. A key with a mistake changes nothing,
//! and the log has each of its errors. The config file is not read again for it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_config::{ConfigFile, FragmentReport, FragmentTexts, RouteSource};
use weir_discovery::FragmentSet;
use weir_http::WallTime;
use weir_observe::overview::{RefusedFragment, RoutesFromOverview};

use crate::lifecycle::upgrade::handover::{HandedFragments, Handover};
use crate::proxy::{NewNames, Proxy};

/// A state file at most: as much as a source may hold, escaped.
const STATE_BYTES_MAX: u64 = 64 << 20;

const VERSION: u64 = 1;

/// What stores have said, for the log and for reports.
#[derive(Debug, Default)]
pub(super) struct RouteFragments {
    /// By source: what was said last.
    said: BTreeMap<Box<str>, SourceWord>,
    reports: BTreeMap<Box<str>, FragmentReport>,
    /// Whether stores have said something that was not tried yet.
    is_due: bool,
    /// The sources whose state file cannot be written; that is logged once.
    unwritten: BTreeMap<Box<str>, String>,
}

#[derive(Debug, Default)]
struct SourceWord {
    said_at: Option<WallTime>,
    lost_at: Option<WallTime>,
    problem: Option<Box<str>>,
}

impl RouteFragments {
    /// The sources of which no route is known: no store has answered, and no process has left any.
    pub(super) fn unknown(&self, proxy: &Proxy) -> Vec<Box<str>> {
        let is_known = |name: &str| {
            self.said.get(name).is_some_and(|word| word.said_at.is_some())
                || self.reports.get(name).is_some_and(|report| !report.in_use.is_empty())
        };
        let config = proxy.config_of_file();
        let names = config.route_sources.iter().map(|source| &source.name);
        names.filter(|name| !is_known(name)).cloned().collect()
    }

    /// Whether a store has neither answered nor failed.
    pub(super) fn has_unheard(&self, proxy: &Proxy) -> bool {
        let config = proxy.config_of_file();
        config.route_sources.iter().any(|source| !self.said.contains_key(&source.name))
    }

    /// Takes in what stores say, goes over to it as far as it fits, and has it shown.
    pub(super) fn take(&mut self, sets: Vec<FragmentSet>, proxy: &mut Proxy, file: &mut ConfigFile) {
        self.hear(sets, file);
        if std::mem::take(&mut self.is_due) {
            self.apply(proxy, file);
        }
        self.show(proxy);
    }

    /// Takes in what stores say, to go over to it later.
    pub(super) fn hear(&mut self, sets: Vec<FragmentSet>, file: &mut ConfigFile) {
        for FragmentSet { source, fragments, problem, at, lost_at } in sets {
            let word = self.said.entry(source.clone()).or_default();
            if let Some(problem) = problem.as_ref().filter(|problem| word.problem.as_ref() != Some(problem)) {
                tracing::warn!(source = &*source, %problem, "the store of routes has a problem; the routes in use stay");
            }
            (word.problem, word.lost_at) = (problem, lost_at);
            if let Some(fragments) = fragments {
                word.said_at = Some(at);
                self.is_due |= file.offer(&source, fragments);
            }
        }
    }

    fn apply(&mut self, proxy: &mut Proxy, file: &mut ConfigFile) {
        match file.read_fragments() {
            None => return,
            Some(Err(diagnostics)) => {
                let lines: Vec<String> = diagnostics.errors().map(|error| diagnostics.line(error)).collect();
                file.refuse_fragments(&lines);
            }
            Some(Ok(_)) if !file.has_other_fragments() => file.follow(proxy.config_of_file()),
            Some(Ok(config)) => match proxy.reload(&config, NewNames::MayComeLater) {
                Ok(report) => {
                    file.follow(proxy.config_of_file());
                    tracing::info!(generation = report.generation, "routes from a store are in use");
                }
                Err(error) => file.refuse_fragments(&[error.to_string()]),
            },
        }
        self.tell(proxy, file);
    }

    /// Logs what is different, stores it, and has it shown.
    pub(super) fn tell(&mut self, proxy: &Proxy, file: &ConfigFile) {
        let config = proxy.config_of_file();
        let mut reports = BTreeMap::new();
        for (name, report) in file.fragment_reports() {
            let before = self.reports.remove(name).unwrap_or_default();
            log_changes(name, &before, &report);
            let source = config.route_sources.iter().find(|source| *source.name == *name);
            if let Some((source, path)) =
                source.and_then(|source| Some((source, source.state_file.as_deref()?)))
                && (before.in_use != report.in_use || !path.exists())
            {
                self.store(source, path, &report.in_use);
            }
            reports.insert(name.into(), report);
        }
        self.reports = reports;
        self.said.retain(|name, _| self.reports.contains_key(name));
        self.show(proxy);
    }

    /// Has the state of all sources shown.
    pub(super) fn show(&self, proxy: &Proxy) {
        let config = proxy.config_of_file();
        let statements = config.route_sources.iter().map(|source| {
            let (word, report) = (self.said.get(&source.name), self.reports.get(&source.name));
            RoutesFromOverview {
                name: source.name.to_string(),
                store: source.store.to_string(),
                said_at_ms: word.and_then(|word| Some(word.said_at?.millis())),
                lost_at_ms: word.and_then(|word| Some(word.lost_at?.millis())),
                missing: Vec::new(),
                problem: word.and_then(|word| word.problem.as_deref().map(str::to_owned)),
                keys: report
                    .map(|report| report.in_use.keys().map(ToString::to_string).collect())
                    .unwrap_or_default(),
                refused: report
                    .map(|report| report.problems.iter().map(|(key, lines)| refused(key, lines)).collect())
                    .unwrap_or_default(),
            }
        });
        proxy.show_routes_from(statements.collect());
    }

    fn store(&mut self, source: &RouteSource, path: &Path, texts: &FragmentTexts) {
        let Err(error) = write(source, path, texts) else {
            self.unwritten.remove(&source.name);
            return;
        };
        let why = error.to_string();
        if self.unwritten.insert(source.name.clone(), why.clone()).as_ref() != Some(&why) {
            tracing::warn!(source = &*source.name, file = %path.display(), %error, "the routes in use cannot be stored");
        }
    }
}

fn refused(key: &str, lines: &[String]) -> RefusedFragment {
    RefusedFragment { key: key.to_owned(), errors: lines.to_vec() }
}

fn log_changes(source: &str, before: &FragmentReport, now: &FragmentReport) {
    for (key, lines) in &now.problems {
        if before.problems.get(key) == Some(lines) {
            continue;
        }
        for line in lines {
            tracing::error!(source, key = &**key, "{line}");
        }
        let stays = if now.in_use.contains_key(key) {
            "the last one that was sound stays in use"
        } else {
            "it is left out"
        };
        tracing::error!(source, key = &**key, errors = lines.len(), "a fragment was refused: {stays}");
    }
    for (key, text) in &now.in_use {
        match before.in_use.get(key) {
            None => tracing::info!(source, key = &**key, "a fragment is new"),
            Some(known) if known != text => tracing::info!(source, key = &**key, "a fragment has changed"),
            Some(_) => {}
        }
    }
    for key in before.in_use.keys().filter(|key| !now.in_use.contains_key(*key)) {
        tracing::info!(source, key = &**key, "a fragment is gone");
    }
}

/// What is in use of the stores, for the process that replaces this one.
pub(super) fn to_hand_over(file: &ConfigFile, proxy: &Proxy) -> Vec<HandedFragments> {
    let config = proxy.config_of_file();
    let handed = |(name, report): (&str, FragmentReport)| {
        let source = config.route_sources.iter().find(|source| *source.name == *name)?;
        let texts = report.in_use.iter().map(|(key, text)| (key.clone(), Box::from(&**text)));
        Some(HandedFragments { source: name.into(), store: source.store.to_string(), texts: texts.collect() })
    };
    file.fragment_reports().filter_map(handed).collect()
}

/// `file` with the routes that are known of stores before they answer: what earlier processes have left, and what the process before has in use.
pub fn with_known_fragments(file: ConfigFile, handover: &Handover) -> ConfigFile {
    handover.fragments().iter().fold(
        file.restoring(restore),
        |file, HandedFragments { source, store, texts }| {
            let texts = texts.iter().map(|(key, text)| (key.clone(), Arc::from(&**text)));
            file.taking_over(source, store.clone(), texts.collect())
        },
    )
}

/// What an earlier process has left of a source.
fn restore(source: &RouteSource) -> FragmentTexts {
    let Some(path) = source.state_file.as_deref() else { return FragmentTexts::new() };
    read(source, path).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(source = &*source.name, file = %path.display(), %error, "the file with the last routes is ignored");
        }
        FragmentTexts::new()
    })
}

fn read(source: &RouteSource, path: &Path) -> io::Result<FragmentTexts> {
    let mut text = String::new();
    fs::File::open(path)?.take(STATE_BYTES_MAX).read_to_string(&mut text)?;
    let state: Value = serde_json::from_str(&text).map_err(io::Error::other)?;
    let is_ours = state["version"] == VERSION && state["store"] == source.store.to_string();
    let fragments = state["fragments"].as_object().filter(|_| is_ours);
    let fragments =
        fragments.ok_or_else(|| io::Error::other("it is of another store, or of another version"))?;
    let texts =
        fragments.iter().filter_map(|(key, text)| Some((key.as_str().into(), Arc::from(text.as_str()?))));
    Ok(texts.collect())
}

/// Replaces the file; a crash at any moment leaves the old one or the new one.
fn write(source: &RouteSource, path: &Path, texts: &FragmentTexts) -> io::Result<()> {
    let fragments: BTreeMap<&str, &str> = texts.iter().map(|(key, text)| (&**key, &**text)).collect();
    let state = json!({ "version": VERSION, "store": source.store.to_string(), "fragments": fragments });
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let replaced = || {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(&temporary)?;
        file.write_all(state.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    replaced().inspect_err(|_| {
        let _was_gone = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use weir_config::RouteStore;

    use super::*;

    #[test]
    fn what_is_stored_is_restored_for_the_same_store_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routes.json");
        let source =
            |prefix: &str| RouteSource::new("r", RouteStore::Etcd(prefix.into()), Some(path.clone()));
        assert!(restore(&source("/a/")).is_empty());
        let texts = FragmentTexts::from([("/a/x".into(), "[upstream.x]".into())]);
        write(&source("/a/"), &path, &texts).unwrap();
        assert_eq!(restore(&source("/a/")), texts);
        assert!(restore(&source("/b/")).is_empty());
        fs::write(&path, "{").unwrap();
        assert!(restore(&source("/a/")).is_empty());
    }
}
