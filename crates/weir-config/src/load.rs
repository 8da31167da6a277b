//! From text to configuration: read, parse, join, check.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::check::{Files, ListFiles, NamedFiles, check};
use crate::config::{Admin, Config, ConfigFault};
use crate::diagnostic::{Diagnostic, DiagnosticKind, Diagnostics};
use crate::diagnostic::{FileIndex, SourceMap, SourceSpan};
use crate::key::{Bounds, ConfigValue, Map, NonEmpty, OneOrMany, Spanned, SpannedTable, TreeReader};
use crate::print::Variables;
use crate::restricted::check_restricted;
use crate::source::{
    BlockKeys, ConfigTranslator, Loading, Tree, TreeEntry, TreeNode, add_originals, join_fragment, load,
    use_blocks,
};
use crate::text::{Document, ListenerText, ServerText, UpstreamText};
use crate::text_file::{CONFIG_BYTES_MAX, read_text};
use crate::value::{ListenAddress, OwnNames, ServerAddress, ValueError};

/// The result of reading a configuration.
#[derive(Debug, Clone, Default)]
pub struct CheckedConfig {
    /// The configuration, if there are no errors.
    pub config: Option<Config>,
    /// All errors and warnings.
    pub diagnostics: Diagnostics,
    document: Document,
    /// The tree that the document was read from.
    tree: Option<TreeNode>,
    /// What of it came from variables.
    variables: Variables,
    /// What of it came from blocks.
    blocks: BlockKeys,
    /// Whether it was read from what a running Weir shows, which is without secrets.
    is_shown: bool,
    /// The files that it names, if they are all that the check has read.
    named: Option<NamedFiles>,
}

/// What a text is read with.
#[derive(Debug, Clone, Copy)]
struct ReadRules {
    /// Whether files may be read that the text names.
    reads_files: bool,
    /// Whether a config without a listener is a mistake.
    needs_listener: bool,
    /// Whether its author may set only some of the keys.
    is_restricted: bool,
    /// Whether everything that was to be included could be read.
    is_whole: bool,
    /// How many of the last sources are fragments.
    fragments: usize,
}

impl ReadRules {
    /// A file of an author who may do everything.
    const OF_FILE: Self =
        Self { reads_files: true, needs_listener: true, is_restricted: false, is_whole: true, fragments: 0 };
}

/// A text that is read as if the file included it.
#[derive(Debug, Clone)]
pub(crate) struct Fragment {
    /// As diagnostics name it.
    pub(crate) name: String,
    pub(crate) text: Arc<str>,
}

/// The names of maps, variables and tables that a document defines, before anything in it is read.
fn own_names(document: &TreeNode) -> OwnNames {
    fn names(table: Option<&TreeEntry>) -> impl Iterator<Item = &str> {
        let entries = table.map(|table| table.node.entries()).unwrap_or_default();
        entries.iter().map(|entry| entry.key.as_str())
    }
    let mut variables = Vec::new();
    let listeners = document.entry("listener").map(|table| table.node.entries()).unwrap_or_default();
    for listener in listeners.iter().map(|listener| &listener.node) {
        variables.extend(names(listener.entry("vars")));
        if let Some(Tree::List(routes)) = listener.entry("route").map(|routes| &routes.node.tree) {
            variables.extend(routes.iter().flat_map(|route| names(route.entry("vars"))));
        }
    }
    OwnNames::new(names(document.entry("map")), variables, names(document.entry("table")))
}

impl CheckedConfig {
    /// Reads a file and all that it includes, with the environment of the process.
    pub fn load(path: &Path) -> Self {
        Self::load_by(path, Self::parse)
    }

    /// Reads a file that may be in another format, which `translator` knows. Diagnostics of what it becomes are shown at the places in the original.
    pub fn load_translated(path: &Path, translator: &dyn ConfigTranslator) -> Self {
        let Some(mut translation) = translator.translate(path) else { return Self::load(path) };
        let environment = |name: &str| std::env::var(name).ok();
        let mut loading = Loading::new(&environment, true);
        // Relative paths begin where the original is.
        let name = if path.is_dir() { path.join("weir.toml") } else { path.to_owned() };
        let text = translation.text.take();
        let has_text = text.is_some();
        let node = load(&mut loading, &name.display().to_string(), text.unwrap_or_default());
        let Loading { mut sources, mut diagnostics, is_whole, .. } = loading;
        add_originals(&mut sources, translation, &mut diagnostics);
        if !has_text {
            return Self { diagnostics: Diagnostics::new(sources, diagnostics), ..Self::default() };
        }
        let is_refused = diagnostics.iter().any(|diagnostic| !diagnostic.kind.is_warning());
        let rules = ReadRules { is_whole, ..ReadRules::OF_FILE };
        let mut checked = Self::of_tree(node, sources, diagnostics, rules);
        checked.config = checked.config.filter(|_| !is_refused);
        checked
    }

    /// Reads a file as [`CheckedConfig::parse_base`] reads a text.
    pub fn load_base(path: &Path) -> Self {
        Self::load_by(path, Self::parse_base)
    }

    fn load_by(path: &Path, parse: fn(&str, &str) -> Self) -> Self {
        let name = path.display().to_string();
        match read_text(path, CONFIG_BYTES_MAX) {
            Ok(text) => parse(&text, &name),
            Err(error) => {
                let mut sources = SourceMap::default();
                let file = sources.add(name, "");
                let message = format!("the file cannot be read: {error}");
                let diagnostic =
                    Diagnostic::new(DiagnosticKind::Unreadable, SourceSpan::of_file(file), message);
                Self { diagnostics: Diagnostics::new(sources, vec![diagnostic]), ..Self::default() }
            }
        }
    }

    /// Reads a text as [`CheckedConfig::parse`] does, but of a config whose listeners, routes and upstreams come from elsewhere: it needs no listener.
    pub fn parse_base(text: &str, file_name: &str) -> Self {
        let environment = |name: &str| std::env::var(name).ok();
        let mut loading = Loading::new(&environment, true);
        loading.needs_listener = false;
        Self::run(loading, text, file_name)
    }

    /// Reads a text, with the environment of the process. Diagnostics name `file_name`, and `include` is relative to it.
    pub fn parse(text: &str, file_name: &str) -> Self {
        let environment = |name: &str| std::env::var(name).ok();
        Self::run(Loading::new(&environment, true), text, file_name)
    }

    /// Reads a text with an environment of its own and without `include`: nothing outside is read.
    pub fn parse_alone(text: &str, file_name: &str, environment: &dyn Fn(&str) -> Option<String>) -> Self {
        Self::run(Loading::new(environment, false), text, file_name)
    }

    /// Reads the config that a running Weir shows: without its secrets, and with variables, which are read from the environment of this process. Its
    /// use is [`ConfigDiff::between`](crate::ConfigDiff::between): what is left out may be an error.
    pub fn parse_shown(text: &str, name: &str) -> Self {
        let environment = |name: &str| std::env::var(name).ok().or_else(|| Some(format!("${{{name}}}")));
        Self { is_shown: true, ..Self::parse_alone(text, name, &environment) }
    }

    /// The errors of a text that a program has made: the line of each, from 1, and its sentence. Nothing outside is read, and variables of the
    /// environment that are not there stand for themselves.
    pub fn faults(text: &str) -> Vec<(usize, String)> {
        let checked = Self::parse_shown(text, "weir.toml");
        let diagnostics = &checked.diagnostics;
        diagnostics.errors().map(|one| (diagnostics.location(one).line, one.message.clone())).collect()
    }

    /// Reads a text as [`CheckedConfig::parse_base`] does, of an author who has fewer rights than the process that will read it: keys that can
    /// name a file, a socket file, a program or a user are errors, and so are variables of the environment. Nothing outside is read.
    pub fn parse_restricted(text: &str, file_name: &str) -> Self {
        Self::run_restricted(text, file_name, false)
    }

    /// Reads a file as [`CheckedConfig::parse_restricted`] reads a text, in the process that goes by it.
    pub fn load_restricted(path: &Path) -> Self {
        Self::load_by(path, |text, file_name| Self::run_restricted(text, file_name, true))
    }

    fn run_restricted(text: &str, file_name: &str, reads_files: bool) -> Self {
        // Only for whether a variable is named: no value of one is known here.
        let environment = |_: &str| Some(String::new());
        let mut loading = Loading::new(&environment, false);
        loading.needs_listener = false;
        let node = load(&mut loading, file_name, text.to_owned());
        let Loading { sources, diagnostics, needs_listener, is_whole, .. } = loading;
        let rules = ReadRules { reads_files, needs_listener, is_restricted: true, is_whole, fragments: 0 };
        Self::of_tree(node, sources, diagnostics, rules)
    }

    fn run(mut loading: Loading<'_>, text: &str, file_name: &str) -> Self {
        let node = load(&mut loading, file_name, text.to_owned());
        let Loading { sources, diagnostics, reads_files, needs_listener, is_whole, .. } = loading;
        let rules = ReadRules { reads_files, needs_listener, is_restricted: false, is_whole, fragments: 0 };
        Self::of_tree(node, sources, diagnostics, rules)
    }

    /// The same config with fragments, which are read as if the file included them, and may hold less. The shown config is that of the files.
    pub(crate) fn with_fragments(&self, fragments: &[Fragment]) -> Self {
        let (Some(tree), Some(base)) = (&self.tree, &self.config) else { return self.clone() };
        let (mut tree, mut sources) = (tree.clone(), self.diagnostics.sources().clone());
        let mut diagnostics = Vec::new();
        for Fragment { name, text } in fragments {
            join_fragment(&mut sources, name, text, &mut tree, &mut diagnostics);
        }
        let is_whole = diagnostics.iter().all(|diagnostic: &Diagnostic| diagnostic.kind.is_warning());
        let rules = ReadRules {
            reads_files: true,
            needs_listener: true,
            is_restricted: false,
            is_whole,
            fragments: fragments.len(),
        };
        let mut checked = Self::of_tree(tree, sources, diagnostics, rules);
        if let Some(config) = &mut checked.config {
            config.parts_mut().dump = base.dump.clone();
        }
        checked
    }

    fn of_tree(
        mut node: TreeNode,
        sources: SourceMap,
        mut diagnostics: Vec<Diagnostic>,
        rules: ReadRules,
    ) -> Self {
        let is_permitted = !rules.is_restricted || check_restricted(&node, &mut diagnostics);
        let of_files = sources.len() - rules.fragments;
        let may_use = |at: SourceSpan| (at.file.0 as usize) < of_files;
        let blocks = use_blocks(&mut node, &may_use, &mut diagnostics);
        let is_whole = rules.is_whole && blocks.is_some();
        let names = own_names(&node);
        let mut reader = TreeReader::new(&mut diagnostics, Document::vocabulary);
        let document = names
            .while_reading(|| SpannedTable::read(&node, Bounds::NONE, &mut reader))
            .unwrap_or_else(|| SpannedTable::unwritten(Document::default(), node.span));
        let variables = Variables::new(&node);
        let line = |span: SourceSpan| (span.file, sources.line(span));
        let broken: HashSet<(FileIndex, usize)> = diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.kind == DiagnosticKind::Syntax)
            .map(|diagnostic| line(diagnostic.span))
            .collect();
        if broken.is_empty() && is_whole && is_permitted {
            let finish = || Self::finish(document, sources, rules, diagnostics, (&names, &variables));
            let checked = names.while_reading(finish);
            return Self { tree: Some(node), variables, blocks: blocks.unwrap_or_default(), ..checked };
        }
        // What could be read of a broken document, or of one without all of its files, is not the whole: only what is wrong in itself is
        // worth saying. What may not be set is not looked at further.
        variables.hide_in(&mut diagnostics);
        drop_repeated(&mut diagnostics);
        diagnostics.retain(|diagnostic| {
            diagnostic.kind == DiagnosticKind::Syntax
                || diagnostic.kind != DiagnosticKind::MissingKey && !broken.contains(&line(diagnostic.span))
        });
        Self {
            config: None,
            diagnostics: Diagnostics::new(sources, diagnostics),
            document: document.value,
            ..Self::default()
        }
    }

    fn finish(
        document: SpannedTable<Document>,
        mut sources: SourceMap,
        rules: ReadRules,
        mut diagnostics: Vec<Diagnostic>,
        (names, variables): (&OwnNames, &Variables),
    ) -> Self {
        let may_read = rules.reads_files;
        let fragments = sources.len() - rules.fragments..sources.len();
        let lists = ListFiles::read(&document.value, &mut sources, may_read, &mut diagnostics);
        let files = Files::new(&sources, may_read).with_lists(lists).without_files_in(fragments);
        let config = check(&document, &files, rules.needs_listener, (names, variables), &mut diagnostics);
        files.report_refused(&mut diagnostics);
        if diagnostics.iter().all(|diagnostic| diagnostic.kind.is_warning()) {
            let faults = config.all_faults();
            let fault = |fault: ConfigFault| {
                Diagnostic::new(DiagnosticKind::BadValue, document.span, fault.to_string())
            };
            diagnostics.extend(faults.into_iter().map(fault));
        }
        let named = files.into_named();
        drop_repeated(&mut diagnostics);
        variables.hide_in(&mut diagnostics);
        let diagnostics = Diagnostics::new(sources, diagnostics);
        let works = diagnostics.errors().next().is_none();
        let config = works.then_some(config);
        Self { config, diagnostics, document: document.value, named, ..Self::default() }
    }

    /// The configuration or the diagnostics; warnings are dropped in the first case.
    pub fn into_result(self) -> Result<Config, Diagnostics> {
        self.config.ok_or(self.diagnostics)
    }

    /// Adds an error for a key, by the tables that it is in (`NAME` is every name), wherever the text sets it: the configuration may be valid, but the
    /// program that reads it does not have what the key controls. Does nothing for a text that could not be read as a whole.
    #[must_use]
    pub fn reject_key(mut self, path: &[&str], message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), help.into());
        let mut places = Vec::new();
        self.tree.iter().for_each(|root| find_keys(root, path, &mut places));
        for at in places {
            let diagnostic = Diagnostic::new(DiagnosticKind::NotSupported, at, &*message).help(&*help);
            self.diagnostics.push(diagnostic);
            self.config = None;
        }
        self
    }

    /// Adds an error for a table at the top of the file, as [`CheckedConfig::reject_key`] does for a key in one.
    #[must_use]
    pub fn reject_table(mut self, table: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        if let Some(entry) = self.tree.as_ref().and_then(|root| root.entry(table)) {
            let diagnostic = Diagnostic::new(DiagnosticKind::NotSupported, entry.key_at, message).help(help);
            self.diagnostics.push(diagnostic);
            self.config = None;
        }
        self
    }

    /// The admin listener of the text, even if there are errors elsewhere.
    pub fn admin(&self) -> &Admin {
        &self.document.admin.value
    }

    pub(crate) fn document(&self) -> &Document {
        &self.document
    }

    pub(crate) fn tree(&self) -> Option<&TreeNode> {
        self.tree.as_ref()
    }

    /// Whether it was read from what a running Weir shows.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown
    }

    pub(crate) fn variables(&self) -> &Variables {
        &self.variables
    }

    pub(crate) fn named_files(&self) -> Option<&NamedFiles> {
        self.named.as_ref()
    }

    /// The whole configuration as one TOML document: files joined, variables replaced, blocks in their places and named in comments, every
    /// default written out. It has every secret of the
    /// text: see [`ConfigParts::dump`](crate::ConfigParts::dump) for one to be shown.
    pub fn print(&self) -> String {
        crate::print::print(&self.document, self.tree.as_ref(), &self.blocks)
    }
}

impl Config {
    /// Reads a file and all that it includes, with the environment of the process.
    ///
    /// # Errors
    /// All diagnostics, if there is an error among them.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        CheckedConfig::load(path).into_result()
    }

    /// Reads a text, with the environment of the process. Diagnostics name `file_name`, and `include` is relative to it.
    ///
    /// # Errors
    /// All diagnostics, if there is an error among them.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, Diagnostics> {
        CheckedConfig::parse(text, file_name).into_result()
    }

    /// A configuration from addresses alone: one listener and one upstream, both called `default`, with the defaults of the product.
    ///
    /// # Errors
    /// Every invalid or duplicate address, with its location in the file `command line`.
    pub fn from_arguments<L: AsRef<str>, T: AsRef<str>>(listen: &[L], to: &[T]) -> Result<Self, Diagnostics> {
        let mut arguments = Arguments::default();
        let listen: Vec<(SourceSpan, &str)> =
            listen.iter().map(|text| arguments.push("--listen", text.as_ref())).collect();
        let to: Vec<(SourceSpan, &str)> =
            to.iter().map(|text| arguments.push("--to", text.as_ref())).collect();
        let whole = SourceSpan::of_file(arguments.file);
        let mut diagnostics = Vec::new();
        for (list, flag) in [(&listen, "--listen"), (&to, "--to")] {
            if list.is_empty() {
                diagnostics.push(Diagnostic::new(
                    DiagnosticKind::MissingKey,
                    whole,
                    format!("there is no `{flag}`"),
                ));
            }
        }
        let addresses = parse_all::<ListenAddress>(&listen, &mut diagnostics);
        let servers = parse_all::<ServerAddress>(&to, &mut diagnostics)
            .into_iter()
            .map(|server| Spanned { value: ServerText::Address(server.value), span: server.span });
        let name = Spanned { value: "default".into(), span: whole };
        let listener = ListenerText {
            address: Some(OneOrMany(addresses)),
            upstream: Some(name.clone()),
            ..ListenerText::default()
        };
        let upstream = UpstreamText { servers: Some(NonEmpty(servers.collect())), ..UpstreamText::default() };
        let document = Document {
            listener: Map(vec![(name.clone(), SpannedTable::unwritten(listener, whole))]),
            upstream: Map(vec![(name, SpannedTable::unwritten(upstream, whole))]),
            ..Document::default()
        };
        let mut sources = SourceMap::default();
        sources.add("command line", arguments.text);
        let rules = ReadRules {
            reads_files: false,
            needs_listener: true,
            is_restricted: false,
            is_whole: true,
            fragments: 0,
        };
        let document = SpannedTable::unwritten(document, whole);
        let names = OwnNames::default();
        CheckedConfig::finish(document, sources, rules, diagnostics, (&names, &Variables::default()))
            .into_result()
    }
}

/// What is wrong with a block is so wherever it is used, and said once.
fn drop_repeated(diagnostics: &mut Vec<Diagnostic>) {
    let mut said = HashSet::new();
    diagnostics.retain(|diagnostic| said.insert((diagnostic.span, diagnostic.message.clone())));
}

/// The arguments of a command as one line of text, so that diagnostics have a span.
struct Arguments {
    text: String,
    file: FileIndex,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { text: String::new(), file: FileIndex(0) }
    }
}

impl Arguments {
    fn push<'a>(&mut self, flag: &str, value: &'a str) -> (SourceSpan, &'a str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(flag);
        self.text.push(' ');
        let start = self.text.len();
        self.text.push_str(value);
        (SourceSpan::new(self.file, start..self.text.len()), value)
    }
}

fn parse_all<T: std::str::FromStr<Err = ValueError>>(
    list: &[(SourceSpan, &str)],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Spanned<T>> {
    let mut values = Vec::new();
    for (at, text) in list {
        match text.parse::<T>() {
            Ok(value) => values.push(Spanned { value, span: *at }),
            Err(error) => {
                let range =
                    error.range.map_or(at.range(), |range| at.start + range.start..at.start + range.end);
                let at = SourceSpan::new(at.file, range);
                diagnostics
                    .push(Diagnostic::new(DiagnosticKind::BadValue, at, error.message).help_if(error.help));
            }
        }
    }
    values
}

/// The places of a key in a tree, by the tables that it is in; `NAME` is every name.
fn find_keys(node: &TreeNode, path: &[&str], places: &mut Vec<SourceSpan>) {
    let [first, below @ ..] = path else { return };
    let named = node.entries().iter().filter(|entry| *first == "NAME" || *entry.key == **first);
    for entry in named {
        match below {
            [] => places.push(entry.key_at),
            _ => find_keys(&entry.node, below, places),
        }
    }
}
