//! Reads a config again. If only servers of some upstreams have changed, only their tables are parsed and checked, since the rest of the
//! text has been checked before: the cost of a reload is proportional to the change.
//!
//! The result must equal that of reading the whole file, so in every case of doubt the whole file is read: another key changed, a name, a
//! file that the config names; there was a warning, an `include`, or TLS with the servers of the upstream. What depends on time only, such
//! as the expiry of a certificate, is not checked again.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::check::{Files, NamedFiles, check_upstream};
use crate::config::{Config, Interner, RouteSource, Upstream};
use crate::diagnostic::Diagnostics;
use crate::fragments::{FragmentReport, FragmentTexts, Fragments, OfferedFragments};
use crate::key::{Bounds, ConfigValue as _, Spanned, SpannedTable, TreeReader};
use crate::load::CheckedConfig;
use crate::print::dump;
use crate::source::{Loading, Tree, load};
use crate::source_map::SourceMap;
use crate::text::{AffinityText, Document, UpstreamText};

/// A config file that is read again and again.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    /// What a config that was read as a whole must pass besides.
    check: fn(CheckedConfig) -> CheckedConfig,
    /// The config in use and its text, where parts of it can be taken over.
    in_use: Option<LastRead>,
    /// The text that was read since and is not in use yet.
    read: Option<LastRead>,
    /// What `[routes_from.NAME]` adds.
    fragments: Fragments,
    /// The same with the sources of the file that was read since.
    read_fragments: Option<Fragments>,
    restore: fn(&RouteSource) -> FragmentTexts,
    /// The files in use without their fragments, and those that were read since; only where there are sources of fragments.
    base: Option<CheckedConfig>,
    read_base: Option<CheckedConfig>,
}

impl ConfigFile {
    /// A file that was not read yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_check(path, |checked| checked)
    }

    /// A file that was not read yet, with a further check, which adds errors to a config. It must not depend on servers: a change of servers
    /// alone is read without it.
    pub fn with_check(path: impl Into<PathBuf>, check: fn(CheckedConfig) -> CheckedConfig) -> Self {
        Self {
            path: path.into(),
            check,
            in_use: None,
            read: None,
            fragments: Fragments::default(),
            read_fragments: None,
            restore: |_| FragmentTexts::new(),
            base: None,
            read_base: None,
        }
    }

    /// The same with the fragments that an earlier process has left of a source.
    #[must_use]
    pub fn restoring(self, restore: fn(&RouteSource) -> FragmentTexts) -> Self {
        Self { restore, ..self }
    }

    /// Takes in all fragments that a store has now; whether they are others than before, so that [`Self::read_fragments`] is due.
    pub fn offer(&mut self, source: &str, fragments: OfferedFragments) -> bool {
        self.fragments.offer(source, fragments)
    }

    /// The config of the files as they were read last and are in use, with what stores offer now, as far as it fits.
    ///
    /// # Errors
    /// When nothing of it fits the files.
    pub fn read_fragments(&mut self) -> Option<Result<Config, Diagnostics>> {
        let base = self.base.as_ref()?;
        let config = self.fragments.join(base);
        self.read_base = Some(base.clone());
        (self.read, self.read_fragments) = (None, None);
        Some(config)
    }

    /// Whether what was read by [`Self::read_fragments`] is anything else than what is in use.
    pub fn has_other_fragments(&self) -> bool {
        self.fragments.has_other()
    }

    /// The fragments that were read last cannot be used, for a reason that is not in them.
    pub fn refuse_fragments(&mut self, why: &[String]) {
        self.fragments.refuse(why);
    }

    /// What became of the fragments of each source.
    pub fn fragment_reports(&self) -> impl Iterator<Item = (&str, FragmentReport)> {
        self.fragments.reports()
    }

    /// Its path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file and all that it includes, with the environment of the process; gives the warnings with the config.
    ///
    /// # Errors
    /// All diagnostics, if there is an error among them.
    pub fn read(&mut self) -> Result<(Config, Diagnostics), Diagnostics> {
        (self.read, self.read_base, self.read_fragments) = (None, None, None);
        if let Some(read) = self.in_use.as_ref().and_then(|in_use| in_use.again(&self.path)) {
            let diagnostics = Diagnostics::new(read.sources(&self.path), Vec::new());
            let config = read.config.clone();
            self.read = Some(read);
            return Ok((config, diagnostics));
        }
        let checked = (self.check)(CheckedConfig::load(&self.path));
        self.read = LastRead::of(&checked);
        let Some(config) = &checked.config else { return Err(checked.diagnostics) };
        let mut fragments = self.fragments.clone();
        fragments.follow(&config.route_sources, &self.restore);
        if config.route_sources.is_empty() {
            self.read_fragments = Some(fragments);
            return Ok((config.clone(), checked.diagnostics));
        }
        // Where there are fragments, the text of the file is not all that there is.
        self.read = None;
        let config = fragments.join(&checked)?;
        self.read_fragments = Some(fragments);
        let diagnostics = checked.diagnostics.clone();
        self.read_base = Some(checked);
        Ok((config, diagnostics))
    }

    /// The text that was read last is in use, as `config`, which may share its parts with the one before.
    pub fn follow(&mut self, config: Config) {
        self.in_use = self.read.take().map(|read| LastRead { config, ..read });
        self.base = self.read_base.take();
        self.fragments = self.read_fragments.take().unwrap_or_else(|| std::mem::take(&mut self.fragments));
        self.fragments.commit();
    }
}

/// A config without errors or warnings, and the one file that it was read from.
#[derive(Debug)]
struct LastRead {
    text: String,
    config: Config,
    /// Where the line `[upstream.NAME]` of an upstream begins, in the order of the text.
    headers: Vec<usize>,
    named: NamedFiles,
    /// How long the lines of the shown config may get, which keeps every one that it had since the whole was read.
    dump_bytes_max: usize,
    /// How often parts were read since the whole was.
    parts: u32,
}

/// After this many parts the whole is read again.
const PARTS_MAX: u32 = 1000;

/// A text that is read fast anyway; from here on parts of more than a half are not worth reading twice, as they were and as they are.
const SMALL: usize = 64 * 1024;

/// How the header of an upstream begins.
const HEADER: &str = "[upstream.";

impl LastRead {
    /// Nothing where no part could be taken over later.
    fn of(checked: &CheckedConfig) -> Option<Self> {
        let sources = checked.diagnostics.sources();
        if !checked.diagnostics.is_empty() || checked.document().include.is_some() {
            return None;
        }
        let text = sources.files().next()?.text.clone();
        let headers = headers(checked.document(), &text);
        let (named, config) = (checked.named_files()?.clone(), checked.config.clone()?);
        let dump_bytes_max = 2 * config.dump.bytes().max(SMALL);
        Some(Self { text, config, headers, named, dump_bytes_max, parts: 0 })
    }

    fn sources(&self, path: &Path) -> SourceMap {
        let mut sources = SourceMap::default();
        sources.add(path.display().to_string(), self.text.clone());
        sources
    }

    /// Reads the file again, if nothing changed but servers.
    fn again(&self, path: &Path) -> Option<Self> {
        if self.parts >= PARTS_MAX || !self.named.are_the_same() {
            return None;
        }
        let text = std::fs::read_to_string(path).ok()?;
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
            config.upstreams[place] = Arc::new(upstream);
        }
        config.dump = config.dump.with_upstreams(&dump(&after.document), self.dump_bytes_max)?;
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
    diagnostics.is_empty().then_some(Tables { document, upstreams })
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
        changed.push((place, Upstream { settings, ..after.clone() }));
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"process.workers = 2
[listener.web]
address = "127.0.0.1:8080"
[[listener.web.route]]
host = "a.test"
upstream = "a"
[[listener.web.route]]
upstream = "b"
[upstream.a]
servers = ["127.0.0.1:1001", "127.0.0.1:1002"]
[upstream.b]
# the big ones
balance = "round-robin"
servers = [
  { address = "127.0.0.1:1003", weight = 2 },
  "127.0.0.1:1004",
]
[listener.tcp]
address = "127.0.0.1:9090"
protocol = "tcp"
upstream = "c"
[upstream.c]
servers = ["127.0.0.1:1005"]
[upstream.c.health]
interval = "5s"
[[upstream.d.servers]]
address = "127.0.0.1:1006"
[[listener.web.route]]
host = "d.test"
upstream = "d"
"#;

    /// A file that is read again after each change, compared with reading the whole of it.
    struct ReloadComparison {
        folder: tempfile::TempDir,
        file: ConfigFile,
    }

    impl ReloadComparison {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = ConfigFile::new(folder.path().join("weir.toml"));
            let mut pair = Self { folder, file };
            assert!(!pair.read(CONFIG), "the first time it is read as a whole");
            pair
        }

        /// Reads this text, compares, and returns whether only a part was read.
        fn read(&mut self, text: &str) -> bool {
            let path = self.folder.path().join("weir.toml");
            std::fs::write(&path, text).unwrap();
            let whole = match CheckedConfig::load(&path) {
                CheckedConfig { config: Some(config), diagnostics, .. } => Ok((config, diagnostics)),
                checked => Err(checked.diagnostics),
            };
            let read = self.file.read();
            let outcome = |result: &Result<(Config, Diagnostics), Diagnostics>| match result {
                Ok((config, warnings)) => format!("{config:#?}\n{warnings:#?}"),
                Err(diagnostics) => format!("{diagnostics:#?}"),
            };
            assert_eq!(outcome(&read), outcome(&whole), "{text}");
            let is_part = self.file.read.as_ref().is_some_and(|read| read.parts > 0);
            if let Ok((config, _)) = read {
                self.file.follow(config);
            }
            is_part
        }
    }

    #[test]
    fn a_further_check_rejects_what_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        let check: fn(CheckedConfig) -> CheckedConfig =
            |checked| checked.reject_key(["process", "workers"], "there is no choice", "leave it out");
        let mut file = ConfigFile::with_check(&path, check);
        let without = CONFIG.split_once('\n').unwrap().1;
        std::fs::write(&path, without).unwrap();
        let (config, _) = file.read().unwrap();
        file.follow(config);
        std::fs::write(&path, CONFIG).unwrap();
        let rejected = file.read().unwrap_err();
        assert_eq!(
            rejected.to_string(),
            format!("{}:1:9: error: there is no choice (leave it out)", path.display())
        );
        // The config before stays the one that others are compared with.
        std::fs::write(&path, without.replace("127.0.0.1:1001", "127.0.0.1:2001")).unwrap();
        assert!(file.read().is_ok() && file.read.as_ref().unwrap().parts > 0);
    }

    #[test]
    fn changes_of_servers_are_read_alone() {
        let mut pair = ReloadComparison::new();
        let mut text = CONFIG.to_owned();
        let changes = [
            ("127.0.0.1:1001", "127.0.0.1:2001"),
            ("weight = 2", "weight = 30"),
            ("\"127.0.0.1:1004\",\n", "\"127.0.0.1:1004\", \"127.0.0.1:3001\",\n  \"127.0.0.1:3002\",\n"),
            (", \"127.0.0.1:1002\"", ""),
            ("[\"127.0.0.1:1005\"]", "[\"127.0.0.1:1005\", { address = \"10.0.0.1:1\", backup = true }]"),
            ("# the big ones\n", ""),
            ("127.0.0.1:2001", "127.0.0.1:1001"),
            ("127.0.0.1:1006", "127.0.0.1:1007"),
        ];
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
            assert!(pair.read(&text), "{from} -> {to}");
            assert!(pair.read(&text), "nothing has changed");
        }
    }

    #[test]
    fn everything_else_is_read_as_a_whole() {
        let changes = [
            ("[upstream.b]", "[upstream.e]"),
            ("balance = \"round-robin\"", "balance = \"random\""),
            ("balance = \"round-robin\"\n", ""),
            ("[upstream.a]\n", "[upstream.a]\nslow_start = \"9s\"\n"),
            ("\"127.0.0.1:1001\"", "\"127.0.0.1:1001"),
            ("\"127.0.0.1:1001\"", "\"127.0.0.1:1002\""),
            ("interval = \"5s\"", "interval = \"6s\""),
            ("workers = 2", "workers = 3"),
            ("host = \"a.test\"", "host = \"b.test\""),
            ("[upstream.b]\n", "x = 1\n[upstream.b]\n"),
            ("[upstream.a]\n", "[upstream.new]\nservers = [\"127.0.0.1:4\"]\n[upstream.a]\n"),
            ("servers = [\"127.0.0.1:1001\", \"127.0.0.1:1002\"]\n", ""),
            ("[upstream.c.health]\n", "[upstream.a.health]\n"),
            ("\"127.0.0.1:1002\"]\n", "\"127.0.0.1:1002\"]"),
            (
                "servers = [\"127.0.0.1:1001\", \"127.0.0.1:1002\"]",
                "servers = [\"127.0.0.1:1001\"]\n[listener.web.limits]\nhead_size = \"8KiB\"",
            ),
        ];
        for (from, to) in changes {
            assert!(CONFIG.contains(from), "{from}");
            assert!(!ReloadComparison::new().read(&CONFIG.replace(from, to)), "{from} -> {to}");
        }
    }

    /// A file that the config names is read again when it has changed.
    #[test]
    fn files_that_are_named_count() {
        let mut pair = ReloadComparison::new();
        let text = format!("admin = {{ address = \"127.0.0.1:1\", token_file = \"token\" }}\n{CONFIG}");
        let token = pair.folder.path().join("token");
        let write = |secret: &str| {
            std::fs::write(&token, secret).unwrap();
            rustix::fs::chmod(&token, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        };
        write("0123456789012345678901234567890123456789\n");
        assert!(!pair.read(&text));
        assert!(pair.read(&text.replace(":1001", ":2001")));
        write("9876543210987654321098765432109876543210-\n");
        assert!(!pair.read(&text.replace(":1001", ":3001")));
        assert!(pair.read(&text.replace(":1001", ":4001")));
        let readable_by_all = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR | rustix::fs::Mode::ROTH;
        rustix::fs::chmod(&token, readable_by_all).unwrap();
        assert!(!pair.read(&text.replace(":1001", ":5001")), "the secret is readable for all");
    }

    /// A removed folder of an access log is an error; a file that is included from now on is read.
    #[test]
    fn files_that_come_and_go_beside_the_file_count() {
        let mut pair = ReloadComparison::new();
        let folder = pair.folder.path().join("logs");
        std::fs::create_dir(&folder).unwrap();
        let log = format!(
            "access_log = {{ format = \"json\", output = \"file:{}/access.log\" }}",
            folder.display()
        );
        let text = format!("{log}\n{CONFIG}");
        assert!(!pair.read(&text));
        assert!(pair.read(&text.replace(":1001", ":2001")));
        std::fs::remove_dir(&folder).unwrap();
        assert!(!pair.read(&text.replace(":1001", ":3001")));

        let mut pair = ReloadComparison::new();
        let text = format!("include = \"d/*.toml\"\n{CONFIG}");
        assert!(!pair.read(&text));
        std::fs::create_dir(pair.folder.path().join("d")).unwrap();
        std::fs::write(pair.folder.path().join("d/a.toml"), "process.name = \"other\"\n").unwrap();
        assert!(!pair.read(&text));
    }

    /// The shown config does not grow for ever, and tables far behind each other are found in one walk.
    #[test]
    fn many_changes_of_long_lists() {
        let mut pair = ReloadComparison::new();
        let servers = |seed: usize| {
            let servers: Vec<String> =
                (0..900).map(|at| format!("\"10.{seed}.{}.{}:80\"", at / 250, at % 250)).collect();
            CONFIG.replace("\"127.0.0.1:1001\"", &servers.join(", "))
        };
        let parts = (0..20).filter(|seed| pair.read(&servers(*seed))).count();
        assert!((5..19).contains(&parts), "{parts} of 20");
        let bytes = pair.file.in_use.as_ref().map(|read| read.config.dump.bytes());
        assert!(bytes.is_some_and(|bytes| bytes <= 2 * SMALL.max(20_000)), "{bytes:?}");
    }

    /// Bytes cut, doubled and moved anywhere: the result equals that of reading the whole, again and again from the config in use.
    #[test]
    fn any_change_reads_as_the_whole_does() {
        let mut pair = ReloadComparison::new();
        let mut random = fastrand::Rng::with_seed(7);
        let lines: Vec<&str> = CONFIG.split_inclusive('\n').collect();
        let mut parts = 0;
        for _ in 0..600 {
            let mut text: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            for _ in 0..random.usize(1..3) {
                let (from, to) = (random.usize(..text.len()), random.usize(..text.len()));
                match random.u8(..5) {
                    0 => drop(text.remove(from)),
                    1 => text.insert(to, text[from].clone()),
                    2 => text.swap(from, to),
                    _ => {
                        let port = format!("127.0.0.1:{}", random.u8(1..60));
                        text[from] = text[from].replace("127.0.0.1:1", &port);
                    }
                }
            }
            parts += u32::from(pair.read(&text.concat()));
            if random.u8(..4) == 0 {
                pair.read(CONFIG);
            }
        }
        assert!(parts > 50, "{parts} of 600");
    }
}
