//! Keys of tokens that a server has: fetched once for all, again when the issuer has a new one, and kept when it is down.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use data_encoding::BASE64URL_NOPAD;

use crate::harness::origin::{ok, status};
use crate::harness::watchdog;
use crate::harness::{
    CertificateAuthority, Client, Connection, Gate, Origin, Response, Weir, config_with, eventually,
    temporary_folder,
};

/// A key of an issuer, with its name.
struct IssuerKey {
    name: &'static str,
    pair: Ed25519KeyPair,
}

impl IssuerKey {
    fn new(name: &'static str) -> Self {
        Self { name, pair: Ed25519KeyPair::generate().expect("a key") }
    }

    /// The document with this key alone.
    fn document(&self) -> String {
        let public = BASE64URL_NOPAD.encode(self.pair.public_key().as_ref());
        let name = self.name;
        format!(r#"{{"keys": [{{"kty": "OKP", "crv": "Ed25519", "kid": "{name}", "x": "{public}"}}]}}"#)
    }

    fn token(&self) -> String {
        let header = format!(r#"{{"alg": "EdDSA", "kid": "{}"}}"#, self.name);
        let claims = r#"{"exp": 4102444800, "sub": "ann"}"#;
        let [header, claims] = [header.as_str(), claims].map(|part| BASE64URL_NOPAD.encode(part.as_bytes()));
        let signed = format!("{header}.{claims}");
        let signature = BASE64URL_NOPAD.encode(self.pair.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}

/// What the server of the issuer sends now.
#[derive(Clone)]
struct Published(Arc<Mutex<String>>);

impl Published {
    fn new(response: &str) -> Self {
        Self(Arc::new(Mutex::new(response.to_owned())))
    }

    fn set(&self, response: &str) {
        response.clone_into(&mut self.0.lock().expect("no thread panics while it holds it"));
    }

    fn get(&self) -> String {
        self.0.lock().expect("no thread panics while it holds it").clone()
    }

    fn origin(&self) -> Origin {
        let published = self.clone();
        Origin::start(move |conn| {
            loop {
                conn.request()?;
                conn.send(published.get())?;
            }
        })
    }
}

/// The route `/` for tokens whose keys `issuer` has, with these keys of `remote_keys`.
fn config(origin: &Origin, issuer: &Origin, keys: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "admin.socket = \"unix:{{dir}}/weir.sock\"
             process.workers = 2
             upstream.issuer.servers = [{}]
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             [listener.web.route.jwt.remote_keys]
             upstream = \"issuer\"
             {keys}",
            issuer.entry()
        ),
    )
}

fn fetch(weir: &Weir, token: &str) -> Response {
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer {token}\r\n\r\n");
    Client::exchange(weir.web(), &request)
}

/// The first set of keys as the admin listener shows it.
fn shown(weir: &Weir) -> serde_json::Value {
    weir.admin_json("/api/keys")[0].clone()
}

fn wait_for_keys(weir: &Weir) {
    eventually("there are keys", || shown(weir)["keys"] == 1);
}

/// Waits until the cooldown of 100 ms is over.
fn wait_for_cooldown() {
    let since = watchdog::now();
    eventually("the cooldown is over", || since.elapsed().as_millis() > 150);
}

#[test]
fn a_new_key_counts_from_its_first_token_on() {
    let (one, two) = (IssuerKey::new("one"), IssuerKey::new("two"));
    let published = Published::new(&ok(&one.document()));
    let (origin, issuer) = (Origin::serving("fine"), published.origin());
    let weir = Weir::start(&config(&origin, &issuer, "path = \"/keys?x=1\"\ncooldown = \"100ms\""));
    wait_for_keys(&weir);
    assert_eq!(fetch(&weir, &one.token()).status, 200);
    published.set(&ok(&two.document()));
    wait_for_cooldown();
    assert_eq!(fetch(&weir, &two.token()).status, 200, "it waits for the keys");
    let old = fetch(&weir, &one.token());
    assert_eq!((old.status, old.reason()), (401, Some("token-untrusted")));
    assert_eq!(origin.requests().len(), 2);
    let asked = &issuer.requests()[0];
    assert_eq!((asked.method(), asked.target()), ("GET", "/keys?x=1"));
    assert_eq!(asked.field("host"), Some(&*issuer.address().to_string()));
    assert_eq!(asked.field("accept"), Some("application/jwk-set+json, application/json"));
    for about_clients in ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "via", "x-request-id"] {
        assert_eq!(asked.field(about_clients), None, "{about_clients}");
    }
}

#[test]
fn tokens_with_unknown_keys_share_one_fetch_and_make_no_flood() {
    let (one, two) = (IssuerKey::new("one"), IssuerKey::new("two"));
    let published = Published::new(&ok(&one.document()));
    let gate = Gate::new();
    let (held, document, fetches) = (gate.clone(), published.clone(), AtomicUsize::new(0));
    let issuer = Origin::start(move |conn| {
        loop {
            conn.request()?;
            if fetches.fetch_add(1, Ordering::Relaxed) > 0 {
                held.wait("the test lets the second fetch go on");
            }
            conn.send(document.get())?;
        }
    });
    let origin = Origin::serving("fine");
    let weir = Weir::start(&config(&origin, &issuer, "cooldown = \"100ms\""));
    wait_for_keys(&weir);
    published.set(&ok(&two.document()));
    wait_for_cooldown();
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer {}\r\n\r\n", two.token());
    let mut waiting: Vec<Client> = (0..5).map(|_| Client::connect(weir.web())).collect();
    waiting.iter_mut().for_each(|client| client.send(&request));
    issuer.wait_for_requests(2);
    // Neither do others wait: their key is here.
    assert_eq!(fetch(&weir, &one.token()).status, 200);
    gate.open();
    for client in &mut waiting {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(issuer.requests().len(), 2);
    drop(weir);

    let (origin, issuer) = (Origin::serving("fine"), published.origin());
    let weir = Weir::start(&config(&origin, &issuer, ""));
    wait_for_keys(&weir);
    for number in 0..50 {
        let unknown = IssuerKey::new(if number % 2 == 0 { "three" } else { "four" });
        assert_eq!(fetch(&weir, &unknown.token()).reason(), Some("token-untrusted"));
    }
    assert_eq!(issuer.requests().len(), 1, "the cooldown is half a minute");
}

#[test]
fn without_keys_the_answer_is_503_until_there_are_some() {
    let key = IssuerKey::new("one");
    let published = Published::new(&status(500));
    let (origin, issuer) = (Origin::serving("fine"), published.origin());
    let weir = Weir::start(&config(&origin, &issuer, "refresh = \"100ms\""));
    let response = fetch(&weir, &key.token());
    assert_eq!((response.status, response.reason()), (503, Some("keys-unavailable")));
    assert_eq!(response.field("retry-after"), Some("2"));
    assert_eq!(response.field("www-authenticate"), None);
    let anonymous = Client::exchange(weir.web(), "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(anonymous.reason(), Some("token-missing"), "no keys are needed for that");
    eventually("a failure is shown", || shown(&weir)["last_failure"] == "the response has status 500");
    let told = weir.run_over_socket(&["ctl", "keys"]);
    assert!(
        told.stdout.contains("keys     none yet") && told.stdout.contains("status 500"),
        "{}",
        told.stdout
    );
    assert!(weir.stderr().contains("requests that need them are answered 503"));
    assert_eq!(
        weir.metrics().sum("weir_upstream_keys_fetched_timestamp_seconds", &["upstream=\"issuer\""]),
        0.0
    );
    published.set(&ok(&key.document()));
    eventually("the keys are fetched", || fetch(&weir, &key.token()).status == 200);
    assert_eq!(shown(&weir)["last_failure"], serde_json::Value::Null);
    let told = weir.run_over_socket(&["ctl", "keys"]);
    assert!(told.stdout.contains("keys     1\n"), "{}", told.stdout);
    assert!(origin.requests().iter().all(|request| request.field("authorization").is_some()));
}

#[test]
fn keys_stay_in_use_when_they_cannot_be_fetched_or_used_any_more() {
    let key = IssuerKey::new("one");
    let published = Published::new(&ok(&key.document()));
    let (origin, issuer) = (Origin::serving("fine"), published.origin());
    let settings = "refresh = \"100ms\"\ntimeout = \"300ms\"\nbody_size = \"1KiB\"";
    let weir = Weir::start(&config(&origin, &issuer, settings));
    wait_for_keys(&weir);
    let long = "x".repeat(1025);
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n{long}\r\n0\r\n\r\n");
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{";
    let secret = ok(r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}"#);
    for (response, expected) in [
        (&*status(404), "the response has status 404"),
        ("HTTP/1.1 302 X\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "the response has status 302"),
        (&*ok(&long), "the response is longer than `remote_keys.body_size`"),
        (&*chunked, "the response is longer than `remote_keys.body_size`"),
        (&*ok("<html>"), "this is not a set of keys (JWK Set, RFC 7517): expected value at line 1 column 1"),
        (
            &*ok("{\"keys\": []}"),
            "there is no key for signatures of RSA, P-256, P-384 or Ed25519, and no secret",
        ),
        (&*secret, "key 1: a secret has at least 32 bytes"),
        ("HELLO\r\n\r\n", "there is no whole response: response-bad-status-line"),
        (cut, "there is no whole response: "),
    ] {
        published.set(response);
        let mut last = serde_json::Value::Null;
        let before = shown(&weir)["failures"].as_u64();
        eventually(expected, || {
            last = shown(&weir);
            last["failures"].as_u64() > before
                && last["last_failure"].as_str().is_some_and(|why| why.starts_with(expected))
        });
        assert_eq!(fetch(&weir, &key.token()).status, 200, "{expected}");
        assert_eq!(last["keys"], 1);
    }
    let failures = weir.metrics().sum("weir_upstream_key_fetch_failures_total", &["upstream=\"issuer\""]);
    assert!(failures >= 9.0, "{failures}");
    weir.line(&["keys of tokens could not be fetched", "those of before stay in use"]);
    drop(issuer);
    let before = shown(&weir)["failures"].as_u64();
    eventually("nothing listens there", || shown(&weir)["failures"].as_u64() > before);
    assert_eq!(fetch(&weir, &key.token()).status, 200);
}

#[test]
fn routes_and_reloads_share_the_keys() {
    let key = IssuerKey::new("one");
    let published = Published::new(&ok(&key.document()));
    let (origin, issuer) = (Origin::serving("fine"), published.origin());
    let other = "
         [[listener.web.route]]
         path = \"/other\"
         upstream = \"app\"
         jwt = { remote_keys = { upstream = \"issuer\" }, scopes = [\"none\"] }";
    let weir = Weir::start(&config(&origin, &issuer, other));
    wait_for_keys(&weir);
    assert_eq!(fetch(&weir, &key.token()).status, 200);
    weir.reload(&config(&origin, &issuer, "[listener.web.route.request_headers]\nset = { x-a = \"1\" }"));
    assert_eq!(fetch(&weir, &key.token()).status, 200, "not for a moment there are none");
    assert_eq!(origin.last_request().field("x-a"), Some("1"));
    assert_eq!(issuer.requests().len(), 1);
    weir.reload(&config(&origin, &issuer, "path = \"/new.json\""));
    eventually("those of the new path are fetched", || fetch(&weir, &key.token()).status == 200);
    assert_eq!(issuer.targets(), ["/.well-known/jwks.json", "/new.json"]);
    assert_eq!(weir.admin_json("/api/keys").as_array().map(Vec::len), Some(1));
}

#[test]
fn tls_and_host_are_those_of_the_config() {
    let (key, authority) = (IssuerKey::new("one"), CertificateAuthority::new());
    let published = Published::new(&ok(&key.document()));
    let script = move |conn: &mut Connection| {
        loop {
            conn.request()?;
            conn.send(published.get())?;
        }
    };
    let issuer = Origin::start_tls(authority.server(&["id.test"]), script);
    let origin = Origin::serving("fine");
    let keys = "forward_host = \"id.test\"
         [upstream.issuer.tls]
         ca = \"ca.pem\"
         server_name = \"id.test\"";
    let folder = temporary_folder();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).expect("the folder takes a file");
    let weir = Weir::start_in(folder, &config(&origin, &issuer, keys));
    wait_for_keys(&weir);
    assert_eq!(fetch(&weir, &key.token()).status, 200);
    assert_eq!(issuer.last_request().field("host"), Some("id.test"));
    drop(weir);

    let folder = temporary_folder();
    let other = CertificateAuthority::new();
    std::fs::write(folder.path().join("ca.pem"), other.pem()).expect("the folder takes a file");
    let weir = Weir::start_in(folder, &config(&origin, &issuer, keys));
    eventually("its certificate is not trusted", || {
        shown(&weir)["last_failure"].as_str().is_some_and(|why| why.contains("tls"))
    });
    assert_eq!(fetch(&weir, &key.token()).reason(), Some("keys-unavailable"));
}

#[test]
fn keys_that_have_not_changed_are_not_sent_again() {
    let (one, two) = (IssuerKey::new("one"), IssuerKey::new("two"));
    let published = Published::new(&one.document());
    let document = published.clone();
    let issuer = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let document = document.get();
            // Of each document another one.
            let mut hasher = DefaultHasher::new();
            document.hash(&mut hasher);
            let etag = format!("\"{:x}\"", hasher.finish());
            if request.field("if-none-match") == Some(&*etag) {
                conn.send(format!("HTTP/1.1 304 Not Modified\r\nETag: {etag}\r\n\r\n"))?;
            } else {
                let len = document.len();
                conn.send(format!(
                    "HTTP/1.1 200 OK\r\nETag: {etag}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: {len}\r\n\r\n{document}"
                ))?;
            }
        }
    });
    let origin = Origin::serving("fine");
    let weir = Weir::start(&config(&origin, &issuer, "refresh = \"100ms\"\ncooldown = \"100ms\""));
    wait_for_keys(&weir);
    eventually("304 counts as a success", || shown(&weir)["unchanged"].as_u64() >= Some(2));
    let state = shown(&weir);
    assert_eq!((&state["keys"], &state["failures"]), (&1.into(), &0.into()));
    assert_eq!(fetch(&weir, &one.token()).status, 200);
    let asked = issuer.last_request();
    assert_eq!(asked.field("if-modified-since"), Some("Thu, 01 Jan 2026 00:00:00 GMT"));
    let told = weir.run_over_socket(&["ctl", "keys"]).stdout;
    assert!(told.contains(" unchanged, 0 failed"), "{told}");
    // One that is no good is asked for as a whole until it is: its validators do not count.
    published.set("<html>");
    eventually("it is a failure each time", || shown(&weir)["failures"].as_u64() >= Some(2));
    assert_eq!(fetch(&weir, &one.token()).status, 200);
    published.set(&two.document());
    eventually("the new key counts", || fetch(&weir, &two.token()).status == 200);
    assert_eq!(fetch(&weir, &one.token()).status, 401);
    // A server that answers 304 to a request without conditions has failed.
    let issuer = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")?;
        }
    });
    let weir = Weir::start(&config(&origin, &issuer, ""));
    eventually("there are none", || shown(&weir)["last_failure"] == "the response has status 304");
}
