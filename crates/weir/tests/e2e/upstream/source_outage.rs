//! All sources of servers go away at once and come back with other servers: no request fails, and their word counts at once.

use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};

use super::discovery::{at, name};
use super::dns_names::{same_port, serving};
use crate::harness::origin::ok;
use crate::harness::{BackgroundTraffic, Client, DnsAnswer, NameServer, Origin, Weir, eventually};

struct Registry {
    is_away: bool,
    /// Whether it takes questions and answers none.
    is_silent: bool,
    index: u64,
    server: SocketAddr,
}

/// Blocking queries as Consul answers them, of one service with one instance.
pub(super) struct ScriptedConsul {
    registry: Arc<(Mutex<Registry>, Condvar)>,
    origin: Origin,
}

impl ScriptedConsul {
    pub(super) fn start(server: SocketAddr) -> Self {
        Self::start_with(server, "")
    }

    /// With further instances: JSON behind a comma.
    pub(super) fn start_with(server: SocketAddr, further: &'static str) -> Self {
        let registry = Arc::new((
            Mutex::new(Registry { is_away: false, is_silent: false, index: 1, server }),
            Condvar::new(),
        ));
        let shared = Arc::clone(&registry);
        let origin = Origin::start(move |conn| {
            loop {
                let request = conn.request()?;
                let index = request.target().split_once("index=").map_or("0", |(_, rest)| rest);
                let seen: u64 = index.split('&').next()?.parse().ok()?;
                let registry = shared.0.lock().expect("no script panics");
                let waits = |registry: &mut Registry| {
                    !registry.is_away && (registry.is_silent || registry.index == seen)
                };
                let registry = shared.1.wait_while(registry, waits).expect("no script panics");
                if registry.is_away {
                    return None;
                }
                let (ip, port, index) = (registry.server.ip(), registry.server.port(), registry.index);
                drop(registry);
                let instance = format!(
                    "[{{\"Node\":{{\"Node\":\"n\",\"Address\":\"{ip}\"}},\"Checks\":[],\
                     \"Service\":{{\"ID\":\"one\",\"Address\":\"{ip}\",\"Port\":{port}}}}}{further}]"
                );
                let index = format!("HTTP/1.1 200 OK\r\nX-Consul-Index: {index}\r\n");
                conn.send(ok(&instance).replacen("HTTP/1.1 200 OK\r\n", &index, 1))?;
            }
        });
        Self { registry, origin }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.origin.address()
    }

    /// Names another server.
    pub(super) fn name(&self, server: SocketAddr) {
        self.change(|registry| (registry.index, registry.server) = (registry.index + 1, server));
    }

    /// Answers nothing from now on.
    pub(super) fn fall_silent(&self) {
        self.change(|registry| registry.is_silent = true);
    }

    /// Answers again, and names this server.
    pub(super) fn speak(&self, server: SocketAddr) {
        self.change(|registry| {
            (registry.is_silent, registry.is_away) = (false, false);
            (registry.index, registry.server) = (registry.index + 1, server);
        });
    }

    /// Ends every connection, and those that come.
    pub(super) fn go_away(&self) {
        self.change(|registry| registry.is_away = true);
    }

    /// Waits until it was asked so often.
    pub(super) fn wait_for_questions(&self, count: usize) {
        eventually("the registry is asked", || self.origin.requests().len() >= count);
    }

    fn change(&self, change: impl FnOnce(&mut Registry)) {
        change(&mut self.registry.0.lock().expect("no script panics"));
        self.registry.1.notify_all();
    }
}

impl Drop for ScriptedConsul {
    fn drop(&mut self) {
        self.change(|registry| registry.is_away = true);
    }
}

/// What a source says reaches the log as text of one line, in both formats.
#[test]
fn a_source_writes_no_lines_of_its_own_into_the_log() {
    let origin = Origin::serving("app");
    let further = ",{\"Node\":{\"Node\":\"n\\u001b[2J\"},\"Checks\":[],\"Service\":{\"ID\":\"x\\u009b31m\\u202e\",\
                   \"Address\":\"10.0.0.9\\u001b[2J\\r\\nforged ready\\n\",\"Port\":80}}";
    for format in ["text", "json"] {
        let consul = ScriptedConsul::start_with(origin.address(), further);
        let weir = Weir::start(&format!(
            "log.format = \"{format}\"\ndiscovery.consul.url = \"http://{}\"\n\
             listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
             upstream.app.discovery = {{ consul = \"app\" }}\n",
            consul.address()
        ));
        assert_eq!(Client::get(weir.web(), "/").text(), "app");
        let line = weir.line(&["an instance in Consul is left out", "forged ready"]);
        let misleads = |char: char| char.is_control() || char == '\u{202e}';
        assert!(!line.contains(misleads), "{line:?}");
        let all = weir.stderr();
        assert!(all.lines().all(|line| !line.starts_with("forged")), "{all:?}");
        assert!(!all.contains(|char| char != '\n' && misleads(char)), "{all:?}");
    }
}

#[test]
fn sources_that_were_away_fail_no_request_and_are_heard_when_they_are_back() {
    let Some([one, two]) = same_port(["127.0.0.1", "127.0.0.2"]) else { return };
    let [before, after] = [serving(one, "before"), serving(two, "after")];
    let folder = tempfile::tempdir().expect("a folder");
    let (file, state) = (folder.path().join("servers.json"), folder.path().join("state.json"));
    name(&file, &[at(&before)]);
    let names = NameServer::start(&["127.0.0.1"]);
    let consul = ScriptedConsul::start(before.address());
    let sources = [
        ("by-file", format!("file = \"{}\"", file.display())),
        ("by-dns", format!("dns = \"app.test:{}\"", before.address().port())),
        ("by-consul", "consul = \"app\"".to_owned()),
    ];
    let mut text = format!(
        "admin.address = \"127.0.0.1:0\"\ndiscovery.state_file = \"{}\"\ndiscovery.consul.url = \"http://{}\"\n{}dns.timeout = \"60s\"\n",
        state.display(),
        consul.address(),
        names.setting()
    );
    for (upstream, source) in &sources {
        text.push_str(&format!(
            "listener.{upstream} = {{ address = \"127.0.0.1:0\", upstream = \"{upstream}\" }}\n\
             upstream.{upstream}.discovery = {{ {source} }}\n"
        ));
    }
    let weir = Weir::start(&text);
    let answers = || {
        let answer = |(listener, _): &(&str, String)| Client::get(weir.address(listener), "/").text();
        sources.iter().map(answer).collect::<Vec<_>>()
    };
    assert_eq!(answers(), ["before"; 3]);
    let clients: Vec<_> =
        sources.iter().map(|(listener, _)| BackgroundTraffic::start(weir.address(listener))).collect();

    fs::remove_file(&file).expect("it is there");
    names.answer(DnsAnswer::ServerFailure);
    consul.change(|registry| registry.is_away = true);
    eventually("every source is known to be away", || {
        weir.metrics().sum("weir_upstream_source_stale", &[]) == 3.0
    });
    // More than the packets of one question: others are asked beside the one that is lost.
    names.answer(DnsAnswer::Silence);
    names.wait_for_questions(10);
    clients.iter().for_each(BackgroundTraffic::goes_on);
    assert_eq!(answers(), ["before"; 3], "the last known servers stay");
    let stored = |origin: &Origin| {
        let text = fs::read_to_string(&state).unwrap_or_default();
        text.matches(&origin.address().to_string()).count()
    };
    eventually("they are in the state file", || stored(&before) >= 3);

    name(&file, &[at(&after)]);
    names.move_to(&["127.0.0.2"]);
    consul.change(|registry| {
        (registry.is_away, registry.index, registry.server) = (false, 7, after.address());
    });
    eventually("the word of all of them counts", || answers() == ["after"; 3]);
    eventually("nothing is stale", || weir.metrics().sum("weir_upstream_source_stale", &[]) == 0.0);
    eventually("the state file has the new servers", || stored(&before) == 0 && stored(&after) >= 3);
    clients.into_iter().for_each(BackgroundTraffic::end);
}
