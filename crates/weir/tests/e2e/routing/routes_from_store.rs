//! Routes from keys of the real etcd: one appears, changes, is refused and disappears, without a reload; a restart does not need the store.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::harness::{Client, Origin, Weir, eventually};
use crate::upstream::source_panics::{strike, was_begun_anew};

/// One member with its own data.
struct Etcd {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port()
}

impl Etcd {
    fn start() -> Self {
        let (folder, port) = (tempfile::tempdir().expect("a folder"), free_port());
        let (url, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{}", free_port()));
        let mut command = Command::new("etcd");
        command.args(["--name", "one", "--log-level", "error", "--unsafe-no-fsync", "--data-dir"]);
        command.arg(folder.path().join("data"));
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("one={peer}")]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.expect("etcd is installed: `cargo xtask setup`");
        let etcd = Self { process, port, _folder: folder };
        eventually("etcd answers", || etcd.ask("/v3/kv/range", &json!({ "key": "eA==" })).is_some());
        etcd
    }

    fn ask(&self, target: &str, question: &Value) -> Option<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let body = question.to_string();
        let len = body.len();
        write!(stream, "POST {target} HTTP/1.0\r\nContent-Length: {len}\r\n\r\n{body}").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.lines().next()?.contains(" 200 ").then_some(())
    }

    fn put(&self, key: &str, value: &str) {
        let [key, value] = [key, value].map(|text| BASE64.encode(text.as_bytes()));
        self.ask("/v3/kv/put", &json!({ "key": key, "value": value })).expect("it takes the key");
    }

    fn delete(&self, key: &str) {
        let key = BASE64.encode(key.as_bytes());
        self.ask("/v3/kv/deleterange", &json!({ "key": key })).expect("it deletes the key");
    }
}

fn fragment(path: &str, upstream: &str, origin: &Origin) -> String {
    format!(
        "[[listener.web.route]]\npath = \"{path}\"\nupstream = \"{upstream}\"\n[upstream.{upstream}]\nservers = [\"{}\"]\n",
        origin.address()
    )
}

fn config(etcd_port: u16, origin: &Origin, state: &std::path::Path) -> String {
    format!(
        "admin.address = \"127.0.0.1:0\"\ndiscovery.etcd.url = \"http://127.0.0.1:{etcd_port}\"\n\
         routes_from.team = {{ etcd = \"/weir/routes/\", state_file = \"{}\" }}\n\
         listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
         upstream.app.servers = [\"{}\"]\n",
        state.display(),
        origin.address()
    )
}

fn answer(weir: &Weir, target: &str) -> String {
    Client::connect(weir.web()).fetch(target).text()
}

/// Since when the store does not answer.
fn lost_at(weir: &Weir) -> Value {
    weir.admin_json("/api/overview")["routes_from"][0]["lost_at_ms"].clone()
}

#[test]
fn a_route_appears_changes_is_refused_and_disappears() {
    let etcd = Etcd::start();
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("routes.json");
    let [app, shop, other] = ["app", "shop", "other"].map(Origin::serving);
    etcd.put("/weir/routes/shop", &fragment("/shop", "shop", &shop));
    let text = config(etcd.port, &app, &state);
    let weir = Weir::start(&text);
    assert_eq!((answer(&weir, "/shop"), answer(&weir, "/")), ("shop".to_owned(), "app".to_owned()));
    etcd.put("/weir/routes/shop", &fragment("/shop", "shop", &other));
    eventually("the other server answers", || answer(&weir, "/shop") == "other");
    // Mistakes change nothing, and say where they are; what is sound beside them counts.
    etcd.put("/weir/routes/shop", "[[listener.web.route]]\npath = \"/shop\"\nupstream = \"shpo\"\n");
    etcd.put("/weir/routes/process", "process.workers = 1\n");
    etcd.put("/weir/routes/clash", &fragment("/clash", "app", &shop));
    etcd.put("/weir/routes/file", "[[listener.web.route]]\npath = \"/f\"\nfiles.root = \"/etc\"\n");
    etcd.put("/weir/routes/sound", &fragment("/sound", "sound", &shop));
    eventually("the sound one counts", || answer(&weir, "/sound") == "shop");
    weir.line(&["etcd:/weir/routes/shop:3:", "error", "shpo"]);
    weir.line(&["etcd:/weir/routes/process:1:1", "`process` cannot be set by a fragment"]);
    weir.line(&["etcd:/weir/routes/clash:4:", "`upstream.app` is set twice", "weir.toml"]);
    weir.line(&["etcd:/weir/routes/file:3:", "a fragment cannot name a file of this machine"]);
    assert_eq!(answer(&weir, "/shop"), "other");
    eventually("the counts are right", || weir.metrics().sum("weir_config_fragments_refused", &[]) == 4.0);
    // A reload of the file keeps them.
    weir.reload(&format!("{text}upstream.app.retry.attempts_max = 5\n"));
    assert_eq!((answer(&weir, "/shop"), answer(&weir, "/sound")), ("other".to_owned(), "shop".to_owned()));
    etcd.delete("/weir/routes/sound");
    eventually("the route is gone", || answer(&weir, "/sound") == "app");
    assert!(lost_at(&weir).is_null(), "the store answers");
    drop(etcd);
    eventually("the store is known to be lost", || lost_at(&weir).is_u64());
    assert!(weir.metrics().sum("weir_config_route_stores_lost_timestamp_seconds", &[]) > 0.0);
    assert!(
        Client::get_by_address(weir.address("admin"), "/").text().contains("what it said last is in use")
    );
    drop(weir);
    assert!(fs::read_to_string(&state).expect("the state is stored").contains("/weir/routes/shop"));
    let weir = Weir::start(&text);
    assert_eq!(answer(&weir, "/shop"), "other", "the store is away");
    assert_eq!(weir.metrics().sum("weir_config_route_stores_stale", &[]), 1.0);
    assert!(lost_at(&weir).is_u64(), "it was not there at the start");
}

/// The same holds for servers and for routes.
#[test]
fn a_store_is_stale_when_it_does_not_answer_and_not_by_an_empty_answer() {
    let etcd = Etcd::start();
    let folder = tempfile::tempdir().expect("a folder");
    let [app, shop] = ["app", "shop"].map(Origin::serving);
    etcd.put("/weir/routes/shop", &fragment("/shop", "shop", &shop));
    etcd.put("/weir/servers/one", &format!("{{\"Op\":0,\"Addr\":\"{}\"}}", shop.address()));
    let weir = Weir::start(&format!(
        "{}discovery.empty_grace = \"1h\"\nlistener.named = {{ address = \"127.0.0.1:0\", upstream = \"named\" }}\n\
         upstream.named.discovery = {{ etcd = \"/weir/servers/\" }}\n",
        config(etcd.port, &app, &folder.path().join("routes.json"))
    ));
    let serves = || (answer(&weir, "/shop"), Client::get(weir.address("named"), "/").text());
    let both = ("shop".to_owned(), "shop".to_owned());
    assert_eq!(serves(), both);
    let problems = || {
        let overview = weir.admin_json("/api/overview");
        let upstreams = overview["upstreams"].as_array().cloned().unwrap_or_default();
        let named = upstreams.into_iter().find(|upstream| upstream["name"] == "named").unwrap_or_default();
        [overview["routes_from"][0]["problem"].clone(), named["source"]["problem"].clone()]
    };
    let stale = || {
        ["weir_config_route_stores_stale", "weir_upstream_source_stale"]
            .map(|name| weir.metrics().sum(name, &[]))
    };
    etcd.delete("/weir/routes/shop");
    etcd.delete("/weir/servers/one");
    eventually("both are empty", || {
        problems().iter().all(|problem| problem.as_str().is_some_and(|text| text.contains("believed after")))
    });
    assert_eq!((stale(), lost_at(&weir)), ([0.0; 2], Value::Null));
    drop(etcd);
    eventually("both are lost", || stale() == [1.0; 2]);
    assert!(lost_at(&weir).is_u64());
    assert_eq!(serves(), both);
}

/// Panics of the tasks that follow the store and hand over what it says; the second round proves that they went on after the first.
#[test]
fn routes_and_servers_stay_when_their_tasks_panic() {
    let etcd = Etcd::start();
    let folder = tempfile::tempdir().expect("a folder");
    let [app, shop, other] = ["app", "shop", "other"].map(Origin::serving);
    let named = |origin: &Origin| format!("{{\"Op\":0,\"Addr\":\"{}\"}}", origin.address());
    etcd.put("/weir/routes/shop", &fragment("/shop", "shop", &shop));
    etcd.put("/weir/servers/one", &named(&shop));
    let text = format!(
        "{}listener.named = {{ address = \"127.0.0.1:0\", upstream = \"named\" }}\n\
         upstream.named.discovery = {{ etcd = \"/weir/servers/\" }}\n",
        config(etcd.port, &app, &folder.path().join("routes.json"))
    );
    let weir = Weir::start_faulty(&text);
    let answer_of_named = || Client::get(weir.address("named"), "/").text();
    let mut count = 0;
    let mut panic_of = |task: &str, wake: &dyn Fn()| {
        count += 1;
        strike(&weir, weir.web(), task, wake);
        was_begun_anew(&weir, task, count);
    };
    for (round, next, before) in [(1, &other, "shop"), (2, &shop, "other")] {
        panic_of("routes in etcd", &|| etcd.put("/weir/routes/more", &fragment("/more", "more", next)));
        assert_eq!(answer(&weir, "/shop"), "shop", "in round {round}");
        let text = if round == 1 { "other" } else { "shop" };
        eventually("the key of the moment counts", || answer(&weir, "/more") == text);
        panic_of("the hand-over of routes", &|| {
            etcd.put("/weir/routes/last", &fragment("/last", "last", next));
        });
        assert_eq!(answer(&weir, "/shop"), "shop");
        eventually("what was in hand counts", || answer(&weir, "/last") == text);
        assert_eq!(answer_of_named(), before);
        panic_of("servers in etcd", &|| etcd.put("/weir/servers/one", &named(next)));
        eventually("the other server is named", || answer_of_named() == text);
    }
    weir.line(&[
        "team",
        "the task that asks it has ended by a defect of Weir and is begun anew after a pause",
    ]);
}
