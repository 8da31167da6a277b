//! Caches: each one for itself, and the routes that use them.

use std::cell::Cell;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::check::conditions;
use crate::check::conditions::ConditionPlace;
use crate::check::files::Files;
use crate::check::names::check_name;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::check::upstream_lookup::UpstreamLookup;
use crate::config::{
    CacheDisk, CacheStore, CacheStoreParts, CacheTtl, Interner, Route, RouteAction, RouteCache, RouteFault,
    RouteSettings, cache_faults, own_partitions, partitions,
};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::{Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{CacheText, Document, RouteCacheText};

/// The caches by their names, and which of them are used.
pub(in crate::check) struct CacheLookup {
    caches: Vec<Arc<CacheStore>>,
    used: Vec<Cell<bool>>,
}

impl CacheLookup {
    pub(in crate::check) fn new(
        document: &Document,
        files: &Files<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut caches: Vec<Arc<CacheStore>> = Vec::new();
        let mut folders: Vec<(SourceSpan, Arc<CacheStore>)> = Vec::new();
        for (name, text) in &document.cache.0 {
            check_name(name, "cache", diagnostics);
            let cache = Arc::new(check(name, text, files, diagnostics));
            if let Some((disk, folder)) = cache.disk.as_ref().zip(folder_of(text)) {
                let own = without_detours(&disk.folder);
                let nested = |other: &CacheDisk| {
                    let other = without_detours(&other.folder);
                    own.starts_with(&other) || other.starts_with(&own)
                };
                let other = folders.iter().find(|(_, other)| other.disk.as_ref().is_some_and(nested));
                if let Some((at, other)) = other {
                    let message =
                        format!("the caches `{}` and `{}` would share a folder", other.name, name.value);
                    let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, folder.span, message);
                    diagnostics.push(diagnostic.label(*at, "the folder of the other"));
                }
                folders.push((folder.span, Arc::clone(&cache)));
            }
            caches.push(cache);
        }
        let used = vec![Cell::new(false); caches.len()];
        Self { caches, used }
    }

    /// How a route uses the cache that it names.
    pub(in crate::check) fn of_route(
        &self,
        text: &SpannedTable<RouteCacheText>,
        place: &TemplatePlace<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Box<RouteCache>> {
        let value = &text.value;
        for template in value.bypass.iter().chain([&value.key]) {
            templates::check(&template.value, template.span, place, diagnostics);
        }
        if let Some(share) = &value.share {
            check_name(share, "share", diagnostics);
        }
        for fault in cache_faults(&value.key.value, value.override_ttl && value.ttl.is_none()) {
            let message = fault.to_string();
            diagnostics.push(match fault {
                RouteFault::OverrideWithoutTtl => {
                    Diagnostic::new(DiagnosticKind::Conflict, text.key_at("override_ttl"), message)
                }
                _ => Diagnostic::new(DiagnosticKind::BadValue, value.key.span, message)
                    .help("write placeholders, such as `{host}{path}{query}`"),
            });
        }
        check_statuses(text, diagnostics);
        check_convert_head(text, diagnostics);
        let asked = ConditionPlace::new(place, Stage::BeforeServer, "when the cache is asked");
        let of_response = ConditionPlace::new(place, Stage::ResponseHead, "when a response is stored");
        let when = conditions::check(value.when.as_ref(), &asked, diagnostics);
        let refresh_when = conditions::check(value.refresh_when.as_ref(), &asked, diagnostics);
        let store_when = conditions::check(value.store_when.as_ref(), &of_response, diagnostics);
        let name = value.name.as_ref()?;
        let Some(found) = self.caches.iter().position(|cache| cache.name == name.value) else {
            let help = did_you_mean(&name.value, self.caches.iter().map(|cache| &*cache.name))
                .unwrap_or_else(|| format!("define it as `[cache.{}]`", name.value));
            let message = format!("there is no cache `{}`", name.value);
            diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, name.span, message).help(help));
            return None;
        };
        self.used[found].set(true);
        let ttl = value.ttl.iter().flat_map(|entries| &entries.0).map(|entry| CacheTtl {
            status: entry.value.status.iter().flat_map(|ranges| ranges.0.iter().copied()).collect(),
            time: entry.value.time.unwrap_or_default(),
        });
        Some(Box::new(RouteCache {
            store: Arc::clone(&self.caches[found]),
            key: value.key.value.clone(),
            share: value.share.as_ref().map(|share| share.value.clone()),
            partitions: Box::default(),
            ttl: ttl.collect(),
            override_ttl: value.override_ttl,
            stale_while_revalidate: value.stale_while_revalidate,
            stale_if_error: value.stale_if_error,
            stale_if_error_status: value.stale_if_error_status.0.clone(),
            wait: value.wait,
            bypass: value.bypass.iter().map(|template| template.value.clone()).collect(),
            when,
            refresh_when,
            store_when,
            ignore_set_cookie: value.ignore_set_cookie,
            ignore_vary: value.ignore_vary.iter().map(|field| field.value.clone()).collect(),
            convert_head: value.convert_head,
            obey_clients: value.obey_clients,
        }))
    }

    /// All caches, in the order of the text; warns of those that are not used, unless a name that could not be found may have been meant for
    /// one.
    pub(in crate::check) fn into_caches(
        self,
        document: &Document,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<CacheStore>> {
        let all_found = diagnostics.iter().all(|diagnostic| diagnostic.kind != DiagnosticKind::UnknownName);
        for ((name, _), used) in document.cache.0.iter().zip(&self.used) {
            if all_found && !used.get() {
                let message =
                    format!("the cache `{}` is not used: no `cache` of a route names it", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, name.span, message));
            }
        }
        self.caches
    }
}

/// Reports statuses that are no failures.
fn check_statuses(text: &SpannedTable<RouteCacheText>, diagnostics: &mut Vec<Diagnostic>) {
    let wrong = text.value.stale_if_error_status.0.iter().find(|range| range.bounds().0 < 400);
    if let Some(range) = wrong {
        let message = format!("`stale_if_error_status`: a response with {range} is no failure of a server");
        let help = "write statuses from 400 on, such as `[404, 429, \"5xx\"]`";
        let at = text.key_at("stale_if_error_status");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message).help(help));
    }
}

/// Reports what keeps a HEAD from filling the cache.
fn check_convert_head(text: &SpannedTable<RouteCacheText>, diagnostics: &mut Vec<Diagnostic>) {
    let value = &text.value;
    if !value.convert_head {
        return;
    }
    let at = text.key_at("convert_head");
    if value.wait.is_none() {
        let message =
            "`convert_head` does not go with `wait = \"off\"`: the HEAD waits for the response to GET";
        let help = "write a time, such as `wait = \"5s\"`";
        diagnostics.push(
            Diagnostic::new(DiagnosticKind::Conflict, at, message)
                .label(text.key_at("wait"), "no wait")
                .help(help),
        );
    }
    if let Some(condition) = text.written("store_when") {
        let message =
            "`convert_head` does not go with `store_when`: that is asked of responses to requests of clients";
        let help = "leave one of them out; `ttl` and `when` say what is stored, too";
        diagnostics.push(
            Diagnostic::new(DiagnosticKind::Conflict, at, message)
                .label(condition, "the condition")
                .help(help),
        );
    }
}

/// Says by what the routes of a listener keep their stored responses apart; behind all else of them.
pub(in crate::check) fn set_partitions(
    listener: &str,
    routes: &mut [Route],
    upstreams: &UpstreamLookup<'_>,
    interner: &mut Interner<RouteSettings>,
) {
    let upstream =
        |index: usize| upstreams.names.get(index).map_or_else(String::new, |name| (*name).to_owned());
    for route in routes {
        let Some(cache) = &route.cache else { continue };
        let partitions = partitions(cache, own_partitions(listener, route, cache, upstream));
        let mut set = |settings: &mut Arc<RouteSettings>| {
            let mut own = RouteSettings::clone(settings);
            if let Some(cache) = &mut own.cache {
                cache.partitions.clone_from(&partitions);
            }
            *settings = interner.intern(own);
        };
        let route = route.parts_mut();
        set(&mut route.settings);
        if let RouteAction::Split(targets) = &mut route.action {
            targets.iter_mut().filter_map(|target| target.settings.as_mut()).for_each(set);
        }
    }
}

/// The path without `.` and `..`, as it is read where no folder is a symbolic link.
fn without_detours(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

fn folder_of(text: &SpannedTable<CacheText>) -> Option<&Spanned<Box<str>>> {
    text.value.disk.as_ref()?.value.folder.as_ref()
}

fn check(
    name: &Spanned<Box<str>>,
    text: &SpannedTable<CacheText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> CacheStore {
    let value = &text.value;
    let (memory, response_max) = (value.memory.value, value.response_max.value);
    let disk = value.disk.as_ref().and_then(|disk| {
        let folder = disk.value.folder.as_ref()?;
        let path = files.path(folder);
        if files.may_read && path.exists() && !path.is_dir() {
            let message = format!("`{}` is not a folder", path.display());
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, folder.span, message));
        }
        Some(CacheDisk { folder: path, size: disk.value.size.bytes() })
    });
    let parts =
        CacheStoreParts { disk, ..CacheStoreParts::new(&name.value, memory.bytes(), response_max.bytes()) };
    let cache = CacheStore::assume(parts);
    for fault in cache.faults() {
        let at = text.written("response_max").unwrap_or(value.memory.span);
        let help = "a response is in memory while it is fetched";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, fault.fault.to_string());
        diagnostics.push(diagnostic.label(text.key_at("memory"), "the memory").help(help));
    }
    cache
}
