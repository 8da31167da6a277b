//! What is read of a changed file equals what reading the whole of it gives.

use super::last_read::SMALL;
use super::*;
use crate::diagnostic::DiagnosticKind;
use crate::source::{ConfigTranslation, OriginalPlace, TranslationFinding};

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
        |checked| checked.reject_key(&["process", "workers"], "there is no choice", "leave it out");
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
    let log =
        format!("access_log = {{ format = \"json\", output = \"file:{}/access.log\" }}", folder.display());
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

/// Of a format in which a line is an address and a server.
#[derive(Debug)]
struct Pairs;

impl ConfigTranslator for Pairs {
    fn translate(&self, path: &Path) -> Option<ConfigTranslation> {
        let file = path.display().to_string();
        let original = std::fs::read_to_string(path).ok()?;
        let (mut text, mut origins, mut findings) = (String::new(), Vec::new(), Vec::new());
        for (index, line) in original.lines().enumerate() {
            let at = Some(OriginalPlace { file: file.clone(), line: index + 1, column: 1 });
            let Some((address, server)) = line.split_once(' ') else {
                let message = "no server".to_owned();
                let kind = DiagnosticKind::NotSupported;
                findings.push(TranslationFinding { at, kind, message, help: None });
                continue;
            };
            text.push_str(&format!(
                "[listener.a{index}]\naddress = \"{address}\"\nupstream = \"u{index}\"\n[upstream.u{index}]\nservers = [\"{server}\"]\n"
            ));
            origins.extend(std::iter::repeat_n(at, 5));
        }
        Some(ConfigTranslation { text: Some(text), origins, files: vec![(file, original)], findings })
    }
}

#[test]
fn a_file_in_another_format_is_read_again_and_its_errors_are_shown_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs");
    let mut file = ConfigFile::new(&path).translated_by(Pairs);
    let shown = path.display();
    let mut read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let read = file.read();
        if let Ok((config, _)) = &read {
            file.follow(config.clone());
        }
        read.map(|(config, diagnostics)| {
            let files: Vec<String> = diagnostics.files().map(str::to_owned).collect();
            assert_eq!(files, [path.display().to_string()]);
            config
                .upstreams
                .iter()
                .map(|upstream| upstream.servers[0].address.to_string())
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(read(":80 10.0.0.1:80\n").unwrap(), ["10.0.0.1:80"]);
    assert_eq!(read(":80 10.0.0.2:80\n").unwrap(), ["10.0.0.2:80"]);
    let errors = read(":80 10.0.0.1:80\n\n:81 10.0.0.1:port\n").unwrap_err();
    assert_eq!(
        errors.iter().map(|error| errors.location(error).to_string()).collect::<Vec<_>>(),
        [format!("{shown}:3:1"), format!("{shown}:2:1")]
    );
    let rendered = errors.render(crate::Colour::Never);
    assert!(rendered.contains(":81 10.0.0.1:port") && rendered.contains("pairs as weir.toml"), "{rendered}");
    assert!(errors.foreign_format().is_none());
    let lost = read(":80 10.0.0.1:80\nalone\n").unwrap_err();
    assert_eq!(lost.to_string(), format!("{shown}:2:1: error: no server"));
    assert_eq!(read(":80 10.0.0.3:80\n").unwrap(), ["10.0.0.3:80"]);
}
