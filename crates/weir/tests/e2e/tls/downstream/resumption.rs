//! Session resumption, and the limit on the rate of handshakes.

use std::sync::Arc;

use rustls::HandshakeKind;
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::version::{TLS12, TLS13};

use super::Site;
use crate::harness::tls::{WEB_TLS, connect, try_connect};
use crate::harness::{CertificateAuthority, Origin, Weir, config_with, eventually, temporary_folder};

/// How the handshakes go of a client that comes again and again, after the first.
fn kinds(site: &Site, version: &'static rustls::SupportedProtocolVersion) -> Vec<HandshakeKind> {
    let mut config = site.authority.client_with(default_provider(), &[version]);
    config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(64)));
    let kind = |_| {
        let mut client = connect(site.weir.web(), config.clone(), "a.test");
        client.assert_alive();
        client.tls().session().handshake_kind().expect("the handshake is over")
    };
    (0..6).map(kind).skip(1).collect()
}

#[test]
fn a_client_resumes_its_session_on_any_worker() {
    let origin = Origin::serving("x");
    for settings in ["process.workers = 3", "listener.web.tls.session_tickets = false\nprocess.workers = 3"] {
        let site = Site::start_with(&origin, settings);
        for version in [&TLS12, &TLS13] {
            let kinds = kinds(&site, version);
            assert!(kinds.iter().all(|kind| *kind == HandshakeKind::Resumed), "{settings}: {kinds:?}");
        }
        let resumed = site.weir.metrics().sum("weir_listener_tls_handshakes_total", &["resumed=\"yes\""]);
        assert!((resumed - 10.0).abs() < 0.5, "{resumed}");
    }
}

/// The handshake of a client that comes to `other` with the session of `one`.
fn kind_elsewhere(
    authority: &CertificateAuthority,
    (one, other): (&Weir, &Weir),
    version: &'static rustls::SupportedProtocolVersion,
) -> HandshakeKind {
    let mut config = authority.client_with(default_provider(), &[version]);
    config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(64)));
    connect(one.web(), config.clone(), "a.test").assert_alive();
    let mut client = connect(other.web(), config, "a.test");
    client.assert_alive();
    client.tls().session().handshake_kind().expect("the handshake is over")
}

#[test]
fn nodes_with_the_same_keys_resume_the_sessions_of_each_other() {
    let origin = Origin::serving("x");
    let folder = temporary_folder();
    let key = |name: &str, seed: u8| {
        let file = folder.path().join(name);
        let bytes: Vec<u8> = (0..80).map(|byte| byte ^ seed).collect();
        std::fs::write(&file, bytes).expect("the folder is the test's");
        file.display().to_string()
    };
    let (old, new) = (key("old", 1), key("new", 2));
    let authority = CertificateAuthority::new();
    let node = |keys: &[&String]| {
        let settings =
            format!("listener.web.tls.ticket_keys = {keys:?}\nlistener.web.tls.reload = \"100ms\"");
        let text = config_with(&[origin.entry()], &format!("{WEB_TLS}{settings}"));
        Weir::start_in(authority.folder_for_web(), &text)
    };
    let kind = |nodes, version| kind_elsewhere(&authority, nodes, version);
    let (one, both, other) = (node(&[&old]), node(&[&new, &old]), node(&[&new]));
    for version in [&TLS12, &TLS13] {
        assert_eq!(kind((&one, &both), version), HandshakeKind::Resumed);
        assert_ne!(kind((&both, &one), version), HandshakeKind::Resumed, "it has not the new key");
        assert_eq!(kind((&both, &other), version), HandshakeKind::Resumed);
        assert_ne!(kind((&one, &other), version), HandshakeKind::Resumed);
    }
    // A changed file is read by itself; one that is no key changes nothing.
    key("old", 2);
    one.line(&["the keys of session tickets have changed"]);
    assert_eq!(kind((&both, &one), &TLS13), HandshakeKind::Resumed);
    std::fs::write(folder.path().join("old"), "short").expect("the folder is the test's");
    one.line(&["a key of session tickets has changed and cannot be used", "80 or 48 bytes"]);
    assert_eq!(kind((&both, &one), &TLS13), HandshakeKind::Resumed);
}

#[test]
fn resumption_can_be_off() {
    let origin = Origin::serving("x");
    let site = Site::start_with(
        &origin,
        "listener.web.tls.session_tickets = false\nlistener.web.tls.session_cache = \"off\"",
    );
    for version in [&TLS12, &TLS13] {
        let kinds = kinds(&site, version);
        assert!(kinds.iter().all(|kind| *kind != HandshakeKind::Resumed), "{kinds:?}");
    }
}

#[test]
fn handshakes_wait_for_their_turn() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, "listener.web.tls.handshake_rate = 20");
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| site.connect().assert_alive());
        }
    });
    let none = site.weir.metrics().all("weir_listener_failures_total", &["tls-"]);
    assert!(none.iter().all(|count| *count < 0.5), "{none:?}");
}

#[test]
fn a_handshake_that_would_wait_too_long_is_refused() {
    let origin = Origin::serving("x");
    let settings = "listener.web.tls.handshake_rate = 1\nlistener.web.timeouts.tls = \"100ms\"";
    let site = Site::start_with(&origin, settings);
    eventually("one of many is refused", || {
        let _too_late = try_connect(site.weir.web(), site.authority.client(), "a.test");
        let refused = site.weir.metrics().all("weir_listener_failures_total", &["tls-handshake-rate"]);
        refused.iter().sum::<f64>() > 0.5
    });
}
