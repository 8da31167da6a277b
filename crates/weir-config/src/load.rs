//! The way from text to configuration, start to end: read, parse, join, walk, check.

use std::collections::HashSet;
use std::path::Path;

use crate::check::{Files, NamedFiles, check};
use crate::config::{Admin, Config};
use crate::key::{Bounds, Located, Many, Map, OneOrMany, Reader, Spanned, Value};
use crate::mistake::{Finding, MistakeKind, Mistakes};
use crate::source::{Loading, Node, load};
use crate::source_map::{FileIndex, Sources, Span};
use crate::text::{Document, ListenerText, ServerText, UpstreamText};
use crate::value::{ListenAddress, ServerAddress, ValueError};

/// What reading a configuration led to.
#[derive(Debug, Clone, Default)]
pub struct Checked {
    /// The configuration, when there is no mistake that keeps it from working.
    pub config: Option<Config>,
    /// Everything that is wrong, warnings included.
    pub mistakes: Mistakes,
    document: Document,
    /// What the document was read from.
    tree: Option<Node>,
    /// The files that it names, if they are all that the check has read.
    named: Option<NamedFiles>,
}

impl Checked {
    /// Reads a file and all that it includes, with the environment of the process.
    pub fn load(path: &Path) -> Self {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, &name),
            Err(error) => {
                let mut sources = Sources::default();
                let file = sources.add(name, "");
                let what = format!("the file cannot be read: {error}");
                let finding = Finding::new(MistakeKind::Unreadable, Span::of_file(file), what);
                Self { mistakes: Mistakes::new(sources, vec![finding]), ..Self::default() }
            }
        }
    }

    /// Reads a text, with the environment of the process. `file_name` stands in mistakes, and `include` is relative to it.
    pub fn parse(text: &str, file_name: &str) -> Self {
        let environment = |name: &str| std::env::var(name).ok();
        Self::run(Loading::new(&environment, true), text, file_name)
    }

    /// Reads a text with an environment of its own and without `include`: nothing outside is read.
    pub fn parse_alone(text: &str, file_name: &str, environment: &dyn Fn(&str) -> Option<String>) -> Self {
        Self::run(Loading::new(environment, false), text, file_name)
    }

    fn run(mut loading: Loading<'_>, text: &str, file_name: &str) -> Self {
        let node = load(&mut loading, file_name, text.to_owned());
        let Loading { sources, mut findings, reads_files, is_whole, .. } = loading;
        let document =
            Located::read(&node, Bounds::NONE, &mut Reader::new(&mut findings, Document::vocabulary))
                .unwrap_or_else(|| Located::unwritten(Document::default(), node.at));
        let line = |span: Span| (span.file, sources.line(span));
        let broken: HashSet<(FileIndex, usize)> = findings
            .iter()
            .filter(|finding| finding.kind == MistakeKind::Syntax)
            .map(|finding| line(finding.at))
            .collect();
        if broken.is_empty() && is_whole {
            let checked = Self::finish(document, sources, reads_files, findings);
            return Self { tree: Some(node), ..checked };
        }
        // What could be read of a broken document, or of one without all of its files, is not the whole: only what is wrong in itself is
        // worth saying.
        findings.retain(|finding| {
            finding.kind == MistakeKind::Syntax
                || finding.kind != MistakeKind::MissingKey && !broken.contains(&line(finding.at))
        });
        Self {
            config: None,
            mistakes: Mistakes::new(sources, findings),
            document: document.value,
            ..Self::default()
        }
    }

    fn finish(
        document: Located<Document>,
        sources: Sources,
        may_read: bool,
        mut findings: Vec<Finding>,
    ) -> Self {
        let files = Files::new(&sources, may_read);
        let config = check(&document, &files, &mut findings);
        let named = files.into_named();
        let mistakes = Mistakes::new(sources, findings);
        let works = mistakes.errors().next().is_none();
        Self { config: works.then_some(config), mistakes, document: document.value, named, tree: None }
    }

    /// The configuration or the mistakes; warnings are lost in the first case.
    pub fn into_result(self) -> Result<Config, Mistakes> {
        self.config.ok_or(self.mistakes)
    }

    /// What the text says about the admin listener, also when there are mistakes elsewhere.
    pub fn admin(&self) -> &Admin {
        &self.document.admin.value
    }

    pub(crate) fn document(&self) -> &Document {
        &self.document
    }

    pub(crate) fn tree(&self) -> Option<&Node> {
        self.tree.as_ref()
    }

    pub(crate) fn named_files(&self) -> Option<&NamedFiles> {
        self.named.as_ref()
    }

    /// The whole configuration as one TOML document: files joined, variables replaced, every default written out.
    pub fn print(&self) -> String {
        crate::print::print(&self.document)
    }
}

impl Config {
    /// Reads a file and all that it includes, with the environment of the process.
    ///
    /// # Errors
    /// Every mistake, if there is one that is more than a warning.
    pub fn load(path: &Path) -> Result<Self, Mistakes> {
        Checked::load(path).into_result()
    }

    /// Reads a text, with the environment of the process. `file_name` stands in mistakes, and `include` is relative to it.
    ///
    /// # Errors
    /// Every mistake, if there is one that is more than a warning.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, Mistakes> {
        Checked::parse(text, file_name).into_result()
    }

    /// A configuration from addresses alone: one listener and one upstream, both called `default`, with the defaults of the product.
    ///
    /// # Errors
    /// Every address that is not one, or stands there twice, with its place in the file `command line`.
    pub fn from_arguments<L: AsRef<str>, T: AsRef<str>>(listen: &[L], to: &[T]) -> Result<Self, Mistakes> {
        let mut arguments = Arguments::default();
        let listen: Vec<(Span, &str)> =
            listen.iter().map(|text| arguments.push("--listen", text.as_ref())).collect();
        let to: Vec<(Span, &str)> = to.iter().map(|text| arguments.push("--to", text.as_ref())).collect();
        let whole = Span::of_file(arguments.file);
        let mut findings = Vec::new();
        for (list, flag) in [(&listen, "--listen"), (&to, "--to")] {
            if list.is_empty() {
                findings.push(Finding::new(MistakeKind::MissingKey, whole, format!("there is no `{flag}`")));
            }
        }
        let addresses = parse_all::<ListenAddress>(&listen, &mut findings);
        let servers = parse_all::<ServerAddress>(&to, &mut findings)
            .into_iter()
            .map(|server| Spanned { value: ServerText::Address(server.value), at: server.at });
        let name = Spanned { value: "default".into(), at: whole };
        let listener = ListenerText {
            address: Some(OneOrMany(addresses)),
            upstream: Some(name.clone()),
            ..ListenerText::default()
        };
        let upstream = UpstreamText { servers: Some(Many(servers.collect())), ..UpstreamText::default() };
        let document = Document {
            listener: Map(vec![(name.clone(), Located::unwritten(listener, whole))]),
            upstream: Map(vec![(name, Located::unwritten(upstream, whole))]),
            ..Document::default()
        };
        let mut sources = Sources::default();
        sources.add("command line", arguments.text);
        Checked::finish(Located::unwritten(document, whole), sources, false, findings).into_result()
    }
}

/// The arguments of a command as one line of text, so that mistakes in them can be pointed at.
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
    fn push<'a>(&mut self, flag: &str, value: &'a str) -> (Span, &'a str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(flag);
        self.text.push(' ');
        let start = self.text.len();
        self.text.push_str(value);
        (Span::new(self.file, start..self.text.len()), value)
    }
}

fn parse_all<T: std::str::FromStr<Err = ValueError>>(
    list: &[(Span, &str)],
    findings: &mut Vec<Finding>,
) -> Vec<Spanned<T>> {
    let mut values = Vec::new();
    for (at, text) in list {
        match text.parse::<T>() {
            Ok(value) => values.push(Spanned { value, at: *at }),
            Err(error) => {
                let range =
                    error.range.map_or(at.range(), |range| at.start + range.start..at.start + range.end);
                let at = Span::new(at.file, range);
                findings.push(Finding::new(MistakeKind::BadValue, at, error.what).hint_if(error.hint));
            }
        }
    }
    values
}
