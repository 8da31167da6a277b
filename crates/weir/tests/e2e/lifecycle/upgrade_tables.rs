//! What a process has learned goes to the process that replaces it: limits by key, ejected servers, cookies, keys of session tickets; and
//! nothing else of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustix::process::Pid;
use rustls::HandshakeKind;
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::version::{TLS12, TLS13};

use crate::harness::metrics::of_server;
use crate::harness::origin::ok;
use crate::harness::scripts::{FailureSwitch, numbered};
use crate::harness::tls::{WEB_TLS, connect};
use crate::harness::{CertificateAuthority, Client, Gate, Origin, Weir, config_with, entries, eventually};

fn get(weir: &Weir, fields: &str) -> crate::harness::Response {
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// Has another process replace it, and waits for the end of the one before, which accepts connections until it is told.
fn upgrade(weir: &mut Weir) {
    weir.upgrade();
    let status = weir.wait_for_exit_of_the_first();
    assert!(status.success(), "{status}: {}", weir.stderr());
}

#[test]
fn a_key_that_has_used_its_limit_gets_no_more_of_the_next_process() {
    let origin = Origin::serving("app");
    let mut weir = Weir::start(&config_with(
        &[origin.named("a")],
        "limit.one = { rate = \"2/h\", key = \"{header.x-user}\" }\nlistener.web.limited_by = \"one\"",
    ));
    while get(&weir, "X-User: ann\r\n").status == 200 {}
    assert_eq!(get(&weir, "X-User: bob\r\n").status, 200);
    upgrade(&mut weir);
    assert_eq!(get(&weir, "X-User: ann\r\n").status, 429);
    assert_eq!(get(&weir, "X-User: eve\r\n").status, 200);
    assert_eq!(weir.admin_json("/api/limits")[0]["keys"], 3, "none of them is forgotten");
}

/// The process before has both slots of the server: a request to the new process waits until one of them is free.
#[test]
fn requests_of_the_process_before_count_against_max_requests() {
    count_against("upstream.app.max_requests = 2", "");
}

/// The same where the agent of the server says the limit.
#[test]
fn requests_of_the_process_before_count_against_the_limit_of_an_agent() {
    let agent = Origin::start(|conn| {
        conn.exempt("an agent speaks no HTTP");
        conn.send("maxconn:2\n")?;
        conn.wait_for_end();
        Some(())
    });
    let port = agent.address().port();
    count_against(
        &format!("upstream.app.health = {{ interval = \"20ms\", agent.port = {port} }}"),
        "maxconn:2",
    );
}

fn count_against(limit: &str, logged: &str) {
    let (first, second) = (Gate::new(), Gate::new());
    let gates = [first.clone(), second.clone()];
    let origin = Origin::start(move |conn| {
        loop {
            match conn.request()?.target() {
                "/first" => gates[0].wait("the test lets the first request go on"),
                "/second" => gates[1].wait("the test lets the second request go on"),
                _ => {}
            }
            conn.send(ok("app"))?;
        }
    });
    let mut weir = Weir::start(&config_with(&[origin.named("a")], limit));
    if !logged.is_empty() {
        weir.line(&["the agent of the server changes its share", logged]);
    }
    let mut clients = ["/first", "/second"].map(|target| {
        let mut client = Client::connect(weir.web());
        client.send_get(target);
        client
    });
    origin.wait_for_requests(2);
    weir.upgrade();
    let in_flight = |weir: &Weir| weir.metrics().sum("weir_server_attempts_open", &[&of_server("a")]);
    eventually("both take a slot of the new process", || in_flight(&weir) == 2.0);
    let mut third = Client::connect(weir.web());
    third.send_get("/third");
    eventually("it waits", || weir.queue_length() == 1);
    assert_eq!(origin.requests().len(), 2);
    first.open();
    assert_eq!(clients[0].response().status, 200);
    assert_eq!(third.response().status, 200, "the slot is free");
    second.open();
    assert_eq!(clients[1].response().status, 200);
    eventually("none is taken any more", || in_flight(&weir) == 0.0);
    assert_eq!(Client::get(weir.web(), "/").status, 200);
}

#[test]
fn a_client_that_has_opened_its_connections_opens_no_more() {
    let origin = Origin::serving("app");
    let text = config_with(&[origin.named("a")], "listener.web.connections_per_client_rate = \"3/h\"");
    let mut weir = Weir::start(&text);
    let served = |weir: &Weir| {
        let mut client = Client::connect(weir.web());
        client.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        client.try_response_to("GET").is_ok()
    };
    while served(&weir) {}
    upgrade(&mut weir);
    assert!(!served(&weir));
}

#[test]
fn an_ejected_server_stays_ejected() {
    let is_ill = FailureSwitch::new(true);
    let a = is_ill.origin("a", |conn| conn.send("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"));
    let b = Origin::serving("b");
    let mut weir = Weir::start(&config_with(
        &[a.named("a"), b.named("b")],
        "upstream.app.ejection = { consecutive_failures = 2, base_time = \"1h\", max_time = \"1h\" }",
    ));
    let is_ejected = |weir: &Weir| weir.metrics().sum("weir_server_ejected", &[&of_server("a")]) == 1.0;
    eventually("it is ejected", || {
        get(&weir, "");
        is_ejected(&weir)
    });
    let requests = a.requests().len();
    upgrade(&mut weir);
    assert!(is_ejected(&weir));
    for _ in 0..20 {
        assert_eq!(get(&weir, "").text(), "b");
    }
    assert_eq!(a.requests().len(), requests);
}

#[test]
fn learned_cookies_lead_to_the_same_servers() {
    let origins = numbered(3, &Gate::new());
    let affinity = "upstream.app.affinity = { mode = \"learn\", cookie = \"SID\" }\nupstream.app.balance = \"round-robin\"";
    let mut weir = Weir::start(&config_with(&entries(&origins), affinity));
    let of = |weir: &Weir, session: usize| get(weir, &format!("Cookie: SID=s{session}\r\n")).text();
    let before: Vec<String> = (0..6).map(|session| of(&weir, session)).collect();
    assert!(before.iter().collect::<BTreeSet<_>>().len() > 1, "{before:?}");
    upgrade(&mut weir);
    // In another order than that of the turns.
    for session in (0..6).rev() {
        assert_eq!(of(&weir, session), before[session], "session {session}");
    }
}

#[test]
fn tls_sessions_are_resumed() {
    let origin = Origin::serving("app");
    let authority = CertificateAuthority::new();
    let text = config_with(&[origin.named("a")], WEB_TLS);
    let mut weir = Weir::start_in(authority.folder_for_web(), &text);
    let clients = [&TLS12, &TLS13].map(|version| {
        let mut config = authority.client_with(default_provider(), &[version]);
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(64)));
        config
    });
    let kind = |weir: &Weir, config: &rustls::ClientConfig| {
        let mut client = connect(weir.web(), config.clone(), "a.test");
        assert_eq!(client.fetch("/").text(), "app");
        client.tls().session().handshake_kind().expect("the handshake is over")
    };
    for config in &clients {
        assert_ne!(kind(&weir, config), HandshakeKind::Resumed, "the first");
    }
    upgrade(&mut weir);
    for config in &clients {
        assert_eq!(kind(&weir, config), HandshakeKind::Resumed);
    }
}

/// The variables of a process.
fn environment(process: Pid) -> BTreeSet<String> {
    let text = std::fs::read(format!("/proc/{process}/environ")).expect("the process runs");
    text.split(|byte| *byte == 0).map(|variable| String::from_utf8_lossy(variable).into_owned()).collect()
}

#[test]
fn the_next_process_has_the_environment_of_the_start() {
    let origin = Origin::serving("app");
    let text = config_with(&[origin.named("a")], "");
    let folder = crate::harness::temporary_folder();
    let variables = [("SOME_SECRET", "1"), ("WATCHDOG_PID", "1"), ("LISTEN_FDNAMES", "x")];
    let mut weir = Weir::start_in_environment(folder, &text, &variables);
    let before = environment(weir.serving_pid());
    upgrade(&mut weir);
    let after = environment(weir.serving_pid());
    let added: Vec<&String> = after.difference(&before).collect();
    assert_eq!(added, ["WEIR_UPGRADE=1"]);
    let removed: Vec<&String> = before.difference(&after).collect();
    assert_eq!(removed, ["LISTEN_FDNAMES=x", "WATCHDOG_PID=1"], "they are for one process alone");
}

#[test]
fn the_launcher_has_one_socket() {
    let origin = Origin::serving("app");
    let weir = Weir::start(&config_with(&[origin.named("a")], ""));
    let children = format!("/proc/{0}/task/{0}/children", weir.id());
    let children = std::fs::read_to_string(children).expect("the process runs");
    let launcher = children.trim();
    let name = std::fs::read_to_string(format!("/proc/{launcher}/comm")).expect("it has one child");
    assert_eq!(name.trim(), "weir-launcher");
    let open = std::fs::read_dir(format!("/proc/{launcher}/fd")).expect("it runs");
    let beyond = open.flatten().filter_map(|fd| {
        let number: u32 = fd.file_name().to_str()?.parse().ok()?;
        (number > 2).then(|| std::fs::read_link(fd.path()).map(|link| link.display().to_string()))?.ok()
    });
    let beyond: Vec<String> = beyond.collect();
    assert!(
        beyond.len() <= 2 && beyond.iter().all(|link| link.starts_with("socket:") || link == "/dev/null"),
        "{beyond:?}"
    );
}
