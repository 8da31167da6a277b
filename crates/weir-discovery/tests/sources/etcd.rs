//! The real etcd: keys that come, change and expire, a compaction, a login, and a member that is away.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use data_encoding::BASE64;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use weir_config::{ServerSource, SourceSecret, SourceUrl};

use super::{FollowedSource, PATIENCE, addresses};

/// One member with its own data.
pub(crate) struct Etcd {
    pub(crate) process: Child,
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    folder: tempfile::TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Etcd {
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// With a second port for TLS with the files of this folder, where clients need a certificate.
    pub(crate) async fn start_tls(certificates: &Path) -> Self {
        Self::start_with(Some(certificates)).await
    }

    async fn start_with(certificates: Option<&Path>) -> Self {
        for _ in 0..5 {
            let folder = tempfile::tempdir().unwrap();
            let (port, tls_port) = (free_port(), free_port());
            let process = Self::spawn(&folder, port, certificates.map(|files| (tls_port, files)));
            let mut etcd = Self { process, port, tls_port, folder };
            if etcd.is_ready().await {
                return etcd;
            }
        }
        panic!("etcd does not start: another program takes its ports");
    }

    fn spawn(folder: &tempfile::TempDir, port: u16, tls: Option<(u16, &Path)>) -> Child {
        let mut url = format!("http://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut command = Command::new("etcd");
        command.args(["--name", "one", "--log-level", "error", "--unsafe-no-fsync", "--data-dir"]);
        command.arg(folder.path().join("data"));
        if let Some((tls_port, files)) = tls {
            url.push_str(&format!(",https://127.0.0.1:{tls_port}"));
            command.arg("--client-cert-auth").arg("--cert-file").arg(files.join("server.pem"));
            command.arg("--key-file").arg(files.join("server.key"));
            command.arg("--trusted-ca-file").arg(files.join("ca.pem"));
        }
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("one={peer}")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("etcd is installed: `cargo xtask setup`")
    }

    /// Waits until it answers; `false` when it has ended.
    async fn is_ready(&mut self) -> bool {
        let ready = async {
            loop {
                if self.process.try_wait().unwrap().is_some() {
                    return false;
                }
                if self.ask("/v3/kv/range", &json!({ "key": BASE64.encode(b"x") })).await.is_some() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.unwrap_or(false)
    }

    pub(crate) async fn ask(&self, target: &str, question: &Value) -> Option<Value> {
        let body = question.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
        let len = body.len();
        let head = format!("POST {target} HTTP/1.0\r\nContent-Length: {len}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| serde_json::from_str(body).unwrap())
    }

    pub(crate) async fn put(&self, key: &str, value: &str, lease: Option<&str>) -> i64 {
        let mut question =
            json!({ "key": BASE64.encode(key.as_bytes()), "value": BASE64.encode(value.as_bytes()) });
        if let Some(lease) = lease {
            question["lease"] = lease.into();
        }
        let answer = self.ask("/v3/kv/put", &question).await.expect("it takes the key");
        answer["header"]["revision"].as_str().unwrap().parse().unwrap()
    }
}

fn source(etcd: &Etcd) -> (ServerSource, Vec<SourceUrl>) {
    let url = |port: u16| SourceUrl::new(false, format!("127.0.0.1:{port}"));
    // The first member is down: its port is closed.
    (ServerSource::Etcd("/services/app/".into()), vec![url(1), url(etcd.port)])
}

#[tokio::test]
async fn keys_are_servers_as_long_as_they_are_there() {
    let etcd = Etcd::start().await;
    etcd.put("/services/app/a", r#"{"Op":0,"Addr":"10.0.0.1:80","Metadata":{"weight":7}}"#, None).await;
    etcd.put("/services/apple/x", r#"{"Addr":"10.9.9.9:80"}"#, None).await;
    let (source, urls) = source(&etcd);
    let mut followed = FollowedSource::start(source, |config| config.settings.etcd.urls = urls);
    let set = followed.until_servers(&["10.0.0.1:80"]).await;
    assert_eq!(set.servers[0].weight, 7);

    let lease = etcd.ask("/v3/lease/grant", &json!({ "TTL": 1 })).await.expect("it grants a lease");
    let lease = lease["ID"].as_str().unwrap().to_owned();
    etcd.put("/services/app/b", r#"{"Addr":"10.0.0.2:80"}"#, Some(&lease)).await;
    followed.until_servers(&["10.0.0.1:80", "10.0.0.2:80"]).await;
    // The lease is not renewed.
    followed.until_servers(&["10.0.0.1:80"]).await;
    followed.stop().await;
}

#[tokio::test]
async fn a_compaction_and_an_outage_lose_no_change() {
    let mut etcd = Etcd::start().await;
    etcd.put("/services/app/a", r#"{"Addr":"10.0.0.1:80"}"#, None).await;
    let (source, urls) = source(&etcd);
    let mut followed = FollowedSource::start(source, |config| config.settings.etcd.urls = urls);
    followed.until_servers(&["10.0.0.1:80"]).await;

    etcd.process.kill().unwrap();
    etcd.process.wait().unwrap();
    let set = followed.until("that is stale", |set| set.origin.is_stale).await;
    assert_eq!(addresses(&set), ["10.0.0.1:80"]);

    etcd.process = Etcd::spawn(&etcd.folder, etcd.port, None);
    assert!(etcd.is_ready().await);
    let revision = etcd.put("/services/app/a", r#"{"Addr":"10.0.0.3:80"}"#, None).await;
    etcd.ask("/v3/kv/compaction", &json!({ "revision": revision.to_string() })).await.expect("it compacts");
    followed.until_servers(&["10.0.0.3:80"]).await;
    followed.stop().await;
}

#[tokio::test]
async fn a_login_is_needed_where_etcd_wants_one() {
    let etcd = Etcd::start().await;
    etcd.put("/services/app/a", r#"{"Addr":"10.0.0.1:80"}"#, None).await;
    for (target, question) in [
        ("/v3/auth/user/add", json!({ "name": "root", "password": "hush" })),
        ("/v3/auth/role/add", json!({ "name": "root" })),
        ("/v3/auth/user/grant", json!({ "user": "root", "role": "root" })),
        ("/v3/auth/enable", json!({})),
    ] {
        etcd.ask(target, &question).await.unwrap_or_else(|| panic!("{target}"));
    }
    let (source, urls) = source(&etcd);
    let mut followed = FollowedSource::start(source, |config| config.settings.etcd.urls = urls);
    followed.until_problem("user name is empty").await;
    followed.config.settings.etcd.login = Some(("root".into(), SourceSecret("hush".into())));
    followed.configs.as_ref().unwrap().send(followed.config.clone()).unwrap();
    followed.until_servers(&["10.0.0.1:80"]).await;
    followed.stop().await;
}
