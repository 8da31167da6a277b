//! `[routes_from.NAME]` and what its keys may hold.

use std::sync::Arc;

use tempfile::TempDir;
use weir_config::{CheckedConfig, Config, ConfigFile, FragmentReport, OfferedFragments, RouteStore};

const FILE: &str = "routes_from.r.etcd = \"/r\"\n[listener.web]\naddress = \":0\"\nupstream = \"app\"\n\
    [upstream.app]\nservers = [\"127.0.0.1:1\"]\n";

const SHOP: &str = "[[listener.web.route]]\npath = \"/shop\"\nupstream = \"shop\"\n[upstream.shop]\nservers = [\"127.0.0.1:2\"]\n";

/// A file that is in use, with what a store offers.
struct Setting {
    folder: TempDir,
    file: ConfigFile,
}

impl Setting {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("weir.toml"), FILE).expect("it is writable");
        let mut file = ConfigFile::new(folder.path().join("weir.toml"));
        let (config, _) = file.read().expect("the file is sound");
        file.follow(config);
        Self { folder, file }
    }

    /// The upstreams in use after the store has these keys, and the errors of keys.
    fn offer(&mut self, keys: &[(&str, &str)]) -> (Vec<String>, FragmentReport) {
        let offered: OfferedFragments =
            keys.iter().map(|(key, text)| ((*key).into(), Ok(Arc::from(*text)))).collect();
        self.file.offer("r", offered);
        let config = self.file.read_fragments().expect("the file is there").expect("the file is sound");
        self.file.follow(config.clone());
        let report = self.file.fragment_reports().next().expect("there is a source").1;
        (upstreams(&config), report)
    }
}

fn upstreams(config: &Config) -> Vec<String> {
    config.upstreams.iter().map(|upstream| upstream.name.to_string()).collect()
}

#[test]
fn a_store_is_named_once_and_with_a_prefix() {
    let config = Config::parse(FILE, "weir.toml").unwrap();
    assert_eq!(config.route_sources[0].store, RouteStore::Etcd("/r/".into()));
    for (written, error) in [
        ("", "it names no store"),
        ("etcd = \"/\"", "every key of the store would be a fragment"),
        ("consul = \"/r\"", "keys of Consul do not begin with `/`"),
        ("etcd = \"/r\"\nconsul = \"r\"", "routes come from one of them"),
        ("etcd = \"/r\"\ndatacenter = \"d\"", "`datacenter` belongs to `consul`"),
    ] {
        let text =
            FILE.replace("routes_from.r.etcd = \"/r\"\n", "") + &format!("[routes_from.r]\n{written}\n");
        let text = CheckedConfig::parse(&text, "weir.toml").diagnostics.to_string();
        assert!(text.contains(error), "{written}: {text}");
    }
}

#[test]
fn a_sound_fragment_counts_beside_a_bad_one() {
    let mut setting = Setting::new();
    let (upstreams, report) = setting.offer(&[("/r/a", "x ="), ("/r/shop", SHOP)]);
    assert_eq!(upstreams, ["app", "shop"]);
    assert!(report.problems["/r/a"][0].starts_with("etcd:/r/a:1:"), "{report:?}");
    // The last sound text of a key stays.
    let (upstreams, report) = setting.offer(&[("/r/shop", &SHOP.replace("127.0.0.1:2", "nowhere"))]);
    assert_eq!(upstreams, ["app", "shop"]);
    assert_eq!(&*report.in_use["/r/shop"], SHOP);
    assert_eq!(setting.offer(&[]).0, ["app"]);
}

#[test]
fn a_fragment_holds_routes_and_upstreams_only() {
    for (text, at, error) in [
        ("process.workers = 1", "1:1", "`process` cannot be set by a fragment"),
        ("include = \"/etc/*\"", "1:1", "`include` cannot be set by a fragment"),
        ("listener.web.address = \":1\"", "1:14", "`listener.web.address` cannot be set by a fragment"),
        ("[[listener.wbe.route]]\nupstream = \"app\"", "1:12", "the file has no listener `wbe`"),
        ("upstream.a.servers = [\"unix:/run/a\"]", "1:23", "a fragment cannot name a socket of this machine"),
        ("upstream.a.discovery.file = \"/etc/a.toml\"", "1:29", "a fragment cannot name a file"),
        ("upstream.a.servers = [\"${HOME}:1\"]", "1:24", "a fragment cannot read environment variables"),
        ("upstream.app.servers = [\"127.0.0.1:1\"]", "1:10", "`upstream.app` is set twice"),
    ] {
        let (upstreams, report) = Setting::new().offer(&[("/r/k", text)]);
        assert_eq!(upstreams, ["app"], "{text}");
        let lines = &report.problems["/r/k"];
        let is_said =
            |line: &String| line.starts_with(&format!("etcd:/r/k:{at}: error: ")) && line.contains(error);
        assert!(lines.iter().any(is_said), "{text}: {lines:?}");
    }
}

#[test]
fn of_two_that_clash_the_newcomer_is_refused() {
    let mut setting = Setting::new();
    setting.offer(&[("/r/z", SHOP)]);
    let (_, report) = setting.offer(&[("/r/z", SHOP), ("/r/a", SHOP)]);
    assert_eq!(report.in_use.keys().map(|key| &**key).collect::<Vec<_>>(), ["/r/z"]);
    assert!(report.problems["/r/a"].iter().any(|line| line.contains("etcd:/r/z:")), "{report:?}");
}

#[test]
fn a_key_that_is_gone_stays_while_another_needs_it() {
    let mut setting = Setting::new();
    let route = "[[listener.web.route]]\npath = \"/b\"\nupstream = \"shop\"\n";
    setting.offer(&[("/r/shop", SHOP), ("/r/b", route)]);
    let (upstreams, report) = setting.offer(&[("/r/b", route)]);
    assert_eq!(upstreams, ["app", "shop"]);
    assert!(report.problems["/r/shop"][0].contains("the key is gone"), "{report:?}");
    assert_eq!(setting.offer(&[]).0, ["app"]);
}

#[test]
fn a_file_that_does_not_fit_the_fragments_in_use_is_refused() {
    let mut setting = Setting::new();
    setting.offer(&[("/r/shop", SHOP)]);
    let path = setting.folder.path().join("weir.toml");
    std::fs::write(&path, format!("{FILE}[upstream.shop]\nservers = [\"127.0.0.1:3\"]\n")).unwrap();
    let error = setting.file.read().unwrap_err().to_string();
    assert!(error.contains("etcd:/r/shop:4:") && error.contains("set twice"), "{error}");
    // What was in use goes on.
    assert_eq!(setting.offer(&[("/r/shop", SHOP)]).0, ["app", "shop"]);
    std::fs::write(&path, FILE).unwrap();
    assert_eq!(upstreams(&setting.file.read().expect("the file is sound").0), ["app", "shop"]);
}

#[test]
fn a_fragment_uses_no_block_of_the_file() {
    let mut setting = Setting::new();
    std::fs::write(
        setting.folder.path().join("weir.toml"),
        format!("{FILE}[block.quiet]\naccess_log = false\n[[listener.web.route]]\npath = \"/q\"\nupstream = \"app\"\nuse = \"quiet\"\n"),
    )
    .expect("it is writable");
    let (config, _) = setting.file.read().expect("the file is sound");
    setting.file.follow(config);
    let using = SHOP.replace("path = ", "use = \"quiet\"\npath = ");
    let (upstreams, report) = setting.offer(&[("a", &using)]);
    assert_eq!(upstreams, ["app"]);
    assert!(report.problems["a"][0].contains("a fragment cannot use a block of the file"), "{report:?}");
    let (upstreams, report) = setting.offer(&[("a", SHOP)]);
    assert_eq!((upstreams.len(), report.problems.len()), (2, 0), "{report:?}");
}
