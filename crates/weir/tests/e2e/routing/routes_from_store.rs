//! Routes from keys of the real etcd: one appears, changes, is refused and disappears, without a reload; a restart does not need the store.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::harness::{Client, Origin, Weir, eventually};

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
    drop((weir, etcd));
    assert!(fs::read_to_string(&state).expect("the state is stored").contains("/weir/routes/shop"));
    let weir = Weir::start(&text);
    assert_eq!(answer(&weir, "/shop"), "other", "the store is away");
    assert_eq!(weir.metrics().sum("weir_config_route_stores_stale", &[]), 1.0);
}
