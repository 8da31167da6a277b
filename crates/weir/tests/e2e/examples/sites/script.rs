//! The file `requests` of a site: what its configs stand for in a test, and the requests that both programs get.
//!
//! Lines before `---` are settings. Behind it, blocks of lines: the first is method, target and options, those that follow are fields,
//! and marks (`! NAME`) of the difference that is allowed in this one. `#` begins a comment.

use std::path::Path;

/// The whole file.
#[derive(Debug, Clone, Default)]
pub(super) struct Script {
    /// Ports of the configs, and the names of their listeners in Weir's.
    pub(super) listeners: Vec<(String, String)>,
    /// Names of servers, and their addresses in the configs.
    pub(super) servers: Vec<(String, String)>,
    /// The same of servers that speak no HTTP.
    pub(super) tcp_servers: Vec<(String, String)>,
    /// Nodes and their hosts in the configs: each has all services, on the same ports.
    pub(super) nodes: Vec<(String, String)>,
    /// Ports of services in the configs, and whether they are `tcp` or `health`.
    pub(super) services: Vec<(String, String)>,
    /// Files: their paths and what is in them.
    pub(super) files: Vec<(String, String)>,
    /// Files whose compressed forms are beside them: their paths, and what is in those.
    pub(super) compressed: Vec<(String, String)>,
    /// Texts of the configs, and what they are in the test.
    pub(super) replacements: Vec<(String, String)>,
    /// The host that requests are for, if they name none.
    pub(super) host: String,
    pub(super) steps: Vec<Step>,
}

/// A request, or what happens between requests: `STOP` and `START` of a server, `STATUS` that a node says to probes, `AWAIT` until
/// connections come to these nodes alone, `WAIT` of so many seconds, so that what is stored gets stale. `TCP` is a connection that sends the target.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) listener: Option<String>,
    pub(super) is_http2: bool,
    pub(super) version: String,
    pub(super) times: usize,
    /// Whether the connections stay open until all of them were used.
    pub(super) is_held: bool,
    pub(super) from: Option<String>,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Option<Vec<u8>>,
    /// Whether it only counts that all connections come to one server, whichever that is.
    pub(super) is_same: bool,
    /// The status that a node answers to probes of the path `target`.
    pub(super) status: u16,
    /// The differences that this request may show, and has to.
    pub(super) marks: Vec<String>,
}

impl Step {
    /// How many requests or connections it is.
    pub(super) fn requests(&self) -> usize {
        if matches!(&*self.method, "STOP" | "START" | "STATUS" | "AWAIT" | "WAIT") { 0 } else { self.times }
    }

    /// The host that it names.
    pub(super) fn host<'a>(&'a self, default: &'a str) -> &'a str {
        let named = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        named.map_or(default, |(_, value)| value)
    }
}

impl Script {
    pub(super) fn read(path: &Path) -> Script {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut script = Script { host: "site.test".to_owned(), ..Script::default() };
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
        for (number, line) in lines.by_ref().take_while(|(_, line)| *line != "---") {
            script.read_setting(line).unwrap_or_else(|| panic!("{}:{}: {line}", path.display(), number + 1));
        }
        let mut block = Vec::new();
        for (number, line) in lines.chain([(0, "")]) {
            if !line.is_empty() {
                block.push((number + 1, line));
            } else if !block.is_empty() {
                script.steps.push(read_step(&block));
                block.clear();
            }
        }
        script
    }

    fn read_setting(&mut self, line: &str) -> Option<()> {
        let Some((key, rest)) = line.split_once(' ') else { return line.is_empty().then_some(()) };
        if key == "host" {
            rest.clone_into(&mut self.host);
            return Some(());
        }
        let (first, second) = rest.split_once(' ')?;
        let pair = (first.to_owned(), second.to_owned());
        match key {
            "listen" => self.listeners.push(pair),
            "server" => self.servers.push(pair),
            "tcp" => self.tcp_servers.push(pair),
            "node" => self.nodes.push(pair),
            "service" => self.services.push(pair),
            "file" => self.files.push(pair),
            "gzip" => self.compressed.push(pair),
            "replace" => self.replacements.push(pair),
            _ => return None,
        }
        Some(())
    }
}

fn read_step(block: &[(usize, &str)]) -> Step {
    let (line, first) = block[0];
    let mut words = first.split(' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("line {line}: {first}")).to_owned();
    let mut step = Step {
        line,
        method: word(),
        target: word(),
        listener: None,
        is_http2: false,
        version: "1.1".to_owned(),
        times: 1,
        is_held: false,
        is_same: false,
        status: 200,
        from: None,
        fields: Vec::new(),
        body: None,
        marks: Vec::new(),
    };
    for option in words {
        match option.split_once('=') {
            None if option == "h2" => step.is_http2 = true,
            None if option == "held" => step.is_held = true,
            None if option == "same" => step.is_same = true,
            Some(("status", value)) => step.status = value.parse().expect("a status"),
            None if option.starts_with('@') => step.listener = Some(option[1..].to_owned()),
            Some(("times", value)) => step.times = value.parse().expect("a number of times"),
            Some(("from", value)) => step.from = Some(value.to_owned()),
            Some(("version", value)) => value.clone_into(&mut step.version),
            Some(("body", value)) => step.body = Some(value.as_bytes().to_vec()),
            Some(("size", value)) => step.body = Some(vec![b'x'; value.parse().expect("a size")]),
            _ => panic!("line {line}: unknown option {option}"),
        }
    }
    for (line, text) in &block[1..] {
        match (text.strip_prefix("! "), text.split_once(':')) {
            (Some(mark), _) => step.marks.push(mark.to_owned()),
            (None, Some((name, value))) => step.fields.push((name.to_owned(), value.trim().to_owned())),
            (None, None) => panic!("line {line}: {text}"),
        }
    }
    step
}
