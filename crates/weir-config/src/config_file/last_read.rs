//! Reads a config again. If only servers of some upstreams have changed, only their tables are parsed and checked, since the rest of the
//! text has been checked before: the cost of a reload is proportional to the change.
//!
//! The result must equal that of reading the whole file, so in every case of doubt the whole file is read: another key changed, a name, a
//! file that the config names; there was a warning, an `include`, or TLS with the servers of the upstream. What depends on time only, such
//! as the expiry of a certificate, is not checked again.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::check::{Files, NamedFiles, check_upstream};
use crate::config::{Config, Interner, Upstream};
use crate::diagnostic::SourceMap;
use crate::key::{Bounds, ConfigValue as _, Spanned, SpannedTable, TreeReader};
use crate::load::CheckedConfig;
use crate::print::{Variables, dump};
use crate::source::{Loading, Tree, load};
use crate::text::{AffinityText, Document, UpstreamText};
use crate::text_file::{CONFIG_BYTES_MAX, read_text};

/// A config without errors or warnings, and the one file that it was read from.
#[derive(Debug)]
pub(super) struct LastRead {
    text: String,
    pub(super) config: Config,
    /// Where the line `[upstream.NAME]` of an upstream begins, in the order of the text.
    headers: Vec<usize>,
    named: NamedFiles,
    /// How long the lines of the shown config may get, which keeps every one that it had since the whole was read.
    dump_bytes_max: usize,
    /// How often parts were read since the whole was.
    pub(super) parts: u32,
}

/// After this many parts the whole is read again.
const PARTS_MAX: u32 = 1000;

/// A text that is read fast anyway; from here on parts of more than a half are not worth reading twice, as they were and as they are.
pub(super) const SMALL: usize = 64 * 1024;

/// How the header of an upstream begins.
const HEADER: &str = "[upstream.";

impl LastRead {
    /// Nothing where no part could be taken over later.
    pub(super) fn new(checked: &CheckedConfig) -> Option<Self> {
        let sources = checked.diagnostics.sources();
        if !checked.diagnostics.is_empty() || checked.document().include.is_some() || sources.is_translated()
        {
            return None;
        }
        let text = sources.files().next()?.text.clone();
        let headers = headers(checked.document(), &text);
        let (named, config) = (checked.named_files()?.clone(), checked.config.clone()?);
        let dump_bytes_max = 2 * config.dump.bytes().max(SMALL);
        Some(Self { text, config, headers, named, dump_bytes_max, parts: 0 })
    }

    /// The same text, whose config in use may share its parts with the one before.
    pub(super) fn used_as(self, config: Config) -> Self {
        Self { config, ..self }
    }

    pub(super) fn sources(&self, path: &Path) -> SourceMap {
        let mut sources = SourceMap::default();
        sources.add(path.display().to_string(), self.text.clone());
        sources
    }

    /// Reads the file again, if nothing changed but servers.
    pub(super) fn again(&self, path: &Path) -> Option<Self> {
        if self.parts >= PARTS_MAX || !self.named.are_the_same() {
            return None;
        }
        let text = read_text(path, CONFIG_BYTES_MAX).ok()?;
        self.with_text(text, path)
    }

    fn with_text(&self, text: String, path: &Path) -> Option<Self> {
        let (mut config, named, parts) = (self.config.clone(), self.named.clone(), self.parts + 1);
        let dump_bytes_max = self.dump_bytes_max;
        if text == self.text {
            return Some(Self { text, config, headers: self.headers.clone(), named, dump_bytes_max, parts });
        }
        let (old, new) = self.change(&text)?;
        let (before, after) = (tables(&self.text[old.clone()], path)?, tables(&text[new.clone()], path)?);
        for (place, upstream) in changed_servers(&before, &after, &config)? {
            config.parts_mut().upstreams[place] = Arc::new(upstream);
        }
        config.parts_mut().dump =
            config.dump.with_upstreams(&dump(&after.document, &after.variables), self.dump_bytes_max)?;
        let headers = self.headers_with(&after.document, &text, &old, &new);
        Some(Self { text, config, headers, named, dump_bytes_max, parts })
    }

    /// Where the headers are after `new` of `text`, which is read as `document`, has taken the place of `old`.
    fn headers_with(
        &self,
        document: &Document,
        text: &str,
        old: &Range<usize>,
        new: &Range<usize>,
    ) -> Vec<usize> {
        let before = self.headers.iter().copied().filter(|header| *header < old.start);
        let inside = headers(document, &text[new.clone()]).into_iter().map(|header| header + new.start);
        let behind = self.headers.iter().filter(|header| **header >= old.end);
        before.chain(inside).chain(behind.map(|header| header - old.end + new.end)).collect()
    }

    /// The bytes that differ from those of `text`, there and there, extended to whole tables: from the header of an upstream to that of
    /// the next part.
    fn change(&self, text: &str) -> Option<(Range<usize>, Range<usize>)> {
        let (old, new) = (self.text.as_bytes(), text.as_bytes());
        let same_start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let rest = old.len().min(new.len()) - same_start;
        let same_end =
            old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
        let headers_before = self.headers.partition_point(|header| *header <= same_start);
        let start = self.headers[headers_before.checked_sub(1)?];
        let kept = old.len() - same_end;
        let end = self.table_end(kept);
        let new_end = new.len() - (old.len() - end);
        // Where the line before the next header ends is part of the change, or the same.
        let has_few = (end - start) + (new_end - start) < new.len() / 2 || new.len() < SMALL;
        let is_whole = new_end == new.len() || new[..new_end].ends_with(b"\n");
        (is_whole && has_few).then_some((start..end, start..new_end))
    }

    /// Where the first line at or behind `from` is that begins with a bracket and goes on with another part, an upstream or something else:
    /// tables such as `[upstream.NAME.health]` belong to the one before.
    fn table_end(&self, from: usize) -> usize {
        let mut lines =
            (from.max(1)..self.text.len()).filter(|at| self.text.as_bytes()[at - 1..].starts_with(b"\n["));
        let is_inner = |at: usize| {
            let line = &self.text.as_bytes()[at..];
            line.starts_with(HEADER.as_bytes()) || line.starts_with(b"[[upstream.")
        };
        lines.find(|at| self.headers.binary_search(at).is_ok() || !is_inner(*at)).unwrap_or(self.text.len())
    }
}

/// Where the headers of upstreams begin in the text that a document was read from. Upstreams that are written in another way have none.
fn headers(document: &Document, text: &str) -> Vec<usize> {
    let start = |at: usize| {
        let before = text.get(..at)?;
        let start = before.strip_suffix(HEADER)?.len();
        (start == 0 || text.as_bytes()[start - 1] == b'\n').then_some(start)
    };
    let mut headers: Vec<usize> =
        document.upstream.0.iter().filter_map(|(name, _)| start(name.span.start)).collect();
    headers.sort_unstable();
    headers
}

/// Tables of upstreams that were cut out of a text.
struct Tables {
    document: Document,
    variables: Variables,
    /// The meaning of each, without anything in another file.
    upstreams: Vec<Upstream>,
}

/// Reads text that holds whole tables of upstreams, and nothing else, without errors.
fn tables(text: &str, path: &Path) -> Option<Tables> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut loading = Loading::new(&environment, false);
    let node = load(&mut loading, &path.display().to_string(), text.to_owned());
    let Tree::Table(root) = &node.tree else { return None };
    // It may be written once, wherever that is.
    if text.lines().any(|line| line.trim_start().starts_with("[upstream]")) {
        return None;
    }
    if root.entries.iter().any(|entry| entry.key != "upstream") {
        return None;
    }
    let mut diagnostics = loading.diagnostics;
    let document: Document =
        SpannedTable::read(&node, Bounds::NONE, &mut TreeReader::new(&mut diagnostics, Document::vocabulary))
            .map(|document| document.value)?;
    let files = Files::new(&loading.sources, false);
    let mut interner = Interner::default();
    let mut check = |(name, text): &(Spanned<Box<str>>, SpannedTable<UpstreamText>)| {
        check_upstream(name, text, &files, &mut interner, &mut diagnostics)
    };
    let upstreams = document.upstream.0.iter().map(&mut check).collect();
    let variables = Variables::new(&node);
    diagnostics.is_empty().then_some(Tables { document, variables, upstreams })
}

/// The upstreams of the tables with their places in the config, if the old tables are all that it has of them and the new ones change
/// nothing but their servers.
fn changed_servers(before: &Tables, after: &Tables, config: &Config) -> Option<Vec<(usize, Upstream)>> {
    let (old, new) = (&before.document.upstream.0, &after.document.upstream.0);
    let have_the_same_keys =
        |(old, new): (&(_, SpannedTable<UpstreamText>), &(_, SpannedTable<UpstreamText>))| {
            let affinity = |text: &SpannedTable<UpstreamText>| {
                let keys =
                    |text: &SpannedTable<AffinityText>| text.keys().map(str::to_owned).collect::<Vec<_>>();
                text.value.affinity.as_ref().map(keys)
            };
            old.1.keys().eq(new.1.keys()) && affinity(&old.1) == affinity(&new.1) && new.1.value.tls.is_none()
        };
    if old.len() != new.len() || !old.iter().zip(new).all(have_the_same_keys) {
        return None;
    }
    let first = before.upstreams.first()?;
    // In the config they are one behind the other, as in the text.
    let first = config.upstreams.iter().position(|upstream| upstream.name == first.name)?;
    let mut changed = Vec::new();
    for (place, (before, after)) in (first..).zip(before.upstreams.iter().zip(&after.upstreams)) {
        let known = config.upstreams.get(place)?;
        if **known != *before || after.name != before.name || after.settings != before.settings {
            return None;
        }
        let settings = Arc::clone(&known.settings);
        changed.push((place, after.with_settings(settings)));
    }
    Some(changed)
}
