//! Changes at the runtime socket under traffic: they take effect at once, and no request fails.

use super::{config, ctl, post, stat};
use crate::harness::scripts::named;
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel};
use crate::harness::{BackgroundTraffic, Client, Gate, Origin, Weir, eventually};

fn start(origins: &[&Origin], settings: &str) -> Weir {
    Weir::start(&config(origins, &format!("upstream.app.balance = \"round-robin\"\n{settings}")))
}

/// Which servers answer eight requests.
fn answering(weir: &Weir) -> String {
    let mut names: Vec<String> = (0..8).map(|_| Client::get(weir.web(), "/").text()).collect();
    names.sort();
    names.dedup();
    names.concat()
}

/// Panics unless these servers answer, and no other. Several take turns with the load besides: eight requests in a row may go to
/// one of them.
fn assert_serving(weir: &Weir, names: &str) {
    match names.len() {
        1 => assert_eq!(answering(weir), names),
        _ => eventually(&format!("{names} serve"), || answering(weir) == names),
    }
}

#[test]
fn states_and_weights_change_under_load() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = start(&[&a, &b], "");
    let mut tunnels = [open_tunnel(weir.web()), open_tunnel(weir.web())];
    let traffic = BackgroundTraffic::start(weir.web());
    for (line, status, serving) in [
        ("set server app/a state drain", "DRAIN", "b"),
        ("set server app/a state ready", "no check", "ab"),
        ("set server app/a state maint", "MAINT", "b"),
        ("enable server app/a", "no check", "ab"),
        ("disable server app/a", "MAINT", "b"),
        ("set server app/a state ready", "no check", "ab"),
        ("set weight app/a 0", "no check", "b"),
        ("set weight app/a 50%", "no check", "ab"),
        ("set server app/b weight 0", "no check", "a"),
        ("set weight app/b 100%", "no check", "ab"),
    ] {
        assert_eq!(weir.ask_socket(line), "\n", "{line}");
        assert_eq!(stat(&weir, "app", "a", "status"), status, "{line}");
        assert_serving(&weir, serving);
        traffic.goes_on();
    }
    assert_eq!(weir.ask_socket("get weight app/a"), "5 (initial 10)\n\n");
    assert_eq!(stat(&weir, "app", "a", "weight"), "5");
    traffic.end();
    tunnels.iter_mut().for_each(assert_byte_comes_back);
    weir.line(&[
        "the server was changed, until the next reload",
        "upstream=\"app\"",
        "server=\"a\"",
        "weight=5",
        "who=\"unix\"",
    ]);
}

#[test]
fn a_server_moves_under_load_and_takes_its_tunnels_to_the_end() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = start(&[&a], "");
    let mut tunnel = open_tunnel(weir.web());
    let traffic = BackgroundTraffic::start(weir.web());
    traffic.goes_on();
    let (old, new) = (a.address().port(), b.address().port());
    let reply = weir.ask_socket(&format!("set server app/a addr 127.0.0.1 port {new}"));
    assert_eq!(
        reply,
        format!(
            "no need to change the addr, port changed from '{old}' to '{new}' by 'stats socket command'\n\n"
        )
    );
    assert_serving(&weir, "b");
    traffic.goes_on();
    assert_byte_comes_back(&mut tunnel);
    assert!(
        weir.ask_socket(&format!("set server app/a addr 127.0.0.1 port {new}"))
            .contains("no need to change the port")
    );
    // The file wins.
    weir.reload(&config(&[&a], "upstream.app.balance = \"round-robin\""));
    assert_serving(&weir, "a");
    traffic.goes_on();
    traffic.end();
}

#[test]
fn a_server_that_moves_stays_out_of_service() {
    let gate = Gate::new();
    let (a, b, c) = (named("a", &gate), named("b", &gate), named("c", &gate));
    let weir = start(&[&a, &b], "");
    for (mode, status) in [("maint", "MAINT"), ("drain", "DRAIN")] {
        assert_eq!(weir.ask_socket(&format!("set server app/a state {mode}")), "\n");
        for to in [&c, &a] {
            let port = to.address().port();
            let reply = weir.ask_socket(&format!("set server app/a addr 127.0.0.1 port {port}"));
            assert!(reply.contains(&format!("to '{port}'")), "{reply}");
            assert_eq!(stat(&weir, "app", "a", "status"), status);
            assert_eq!(answering(&weir), "b");
        }
    }
    let moved = c.address().port();
    assert!(
        weir.ask_socket(&format!("set server app/a addr 127.0.0.1 port {moved}")).contains("port changed")
    );
    assert_eq!(weir.ask_socket("set server app/a state ready"), "\n");
    assert_serving(&weir, "bc");
}

#[test]
fn a_raised_limit_serves_waiting_requests() {
    let gate = Gate::new();
    let a = named("a", &gate);
    let weir = start(&[&a], "upstream.app.timeouts.queue = \"60s\"");
    assert_eq!(weir.ask_socket("set maxconn server app/a 1"), "\n");
    assert_eq!(stat(&weir, "app", "a", "slim"), "1");
    let mut held: Vec<Client> = (0..3).map(|_| Client::connect(weir.web())).collect();
    held.iter_mut().for_each(|client| client.send_get("/held"));
    eventually("one is served, two wait", || stat(&weir, "app", "BACKEND", "qcur") == "2");
    a.wait_for_requests(1);
    assert_eq!(weir.ask_socket("set maxconn server app/a 2"), "\n");
    a.wait_for_requests(2);
    assert_eq!(weir.ask_socket("set maxconn server app/a 0"), "\n");
    a.wait_for_requests(3);
    gate.open();
    for client in &mut held {
        assert_eq!(client.response().status, 200);
    }
}

#[test]
fn the_json_api_changes_several_things_at_once() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = start(&[&a], "");
    let traffic = BackgroundTraffic::start(weir.web());
    let body = format!("{{\"weight\": 3, \"max_requests\": 50, \"address\": \"{}\"}}", b.address());
    let changed = post(&weir, "/api/servers/app/a", &body);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert!(
        changed.text().contains("\"weight\":3") && changed.text().contains("\"max_requests\":50"),
        "{}",
        changed.text()
    );
    assert_serving(&weir, "b");
    traffic.goes_on();
    traffic.end();
    let drained = post(&weir, "/api/servers/app/a", "{\"mode\": \"draining\", \"deadline\": \"1m\"}");
    assert!(drained.text().contains("\"status\":\"draining\""), "{}", drained.text());
    assert_eq!(post(&weir, "/api/servers/app/a", "{\"mode\": \"serving\"}").status, 200);
    for (target, body, status) in [
        ("/api/servers/app/unknown", "{\"weight\": 3}", 404),
        ("/api/servers/unknown/a", "{\"mode\": \"serving\"}", 404),
        ("/api/servers/app/a", "{\"weight\": 300}", 400),
        ("/api/servers/app/a", "{\"wait\": 3}", 400),
        ("/api/servers/app/a", "weight=3", 400),
        ("/api/servers/app", "{\"weight\": 3}", 400),
    ] {
        let response = post(&weir, target, body);
        assert_eq!(response.status, status, "{target} {body}: {}", response.text());
        assert!(response.text().contains("\"errors\":["), "{}", response.text());
    }
}

#[test]
fn a_reload_is_asked_for_and_answered_with_its_outcome() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = start(&[&a], "");
    let traffic = BackgroundTraffic::start(weir.web());
    weir.write_config(&config(&[&a, &b], "upstream.app.balance = \"round-robin\""));
    let done = ctl(&weir, &["reload"]);
    assert!(done.code == Some(0), "{}", done.stderr);
    assert_eq!(done.stdout, "the config was reloaded, generation 2\n");
    assert_serving(&weir, "ab");
    weir.write_config("listener.web = { adress = \":1\" }\nupstream.app.servers = [\"nowhere\"]\n");
    let refused = ctl(&weir, &["reload"]);
    assert_eq!(refused.code, Some(1));
    let reply = refused.stderr;
    assert!(reply.contains("adress") && reply.contains("nowhere") && reply.contains("(409)"), "{reply}");
    assert!(
        weir.ask_socket("reload").starts_with("the config was not reloaded: that of before stays in use\n")
    );
    assert_serving(&weir, "ab");
    traffic.end();
    assert_eq!(weir.metrics().sum("weir_config_reloads_total", &["outcome=\"failed\""]), 2.0);
}

#[test]
fn every_verb_of_ctl_does_what_it_says() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = start(&[&a, &b], "");
    let moved = b.address().to_string();
    for (arguments, reply) in [
        (vec!["weight", "app", "a", "7"], "app/a: up, ".to_owned()),
        (vec!["limit", "app", "a", "5"], "weight 7, max_requests 5, ".to_owned()),
        (vec!["limit", "app", "a", "off"], "max_requests off, ".to_owned()),
        (vec!["address", "app", "a", &moved], format!("address {moved}, ")),
        (vec!["drain", "app", "a", "--deadline", "1m"], "app/a: draining, ".to_owned()),
        (vec!["maintain", "app", "a"], "app/a: maintenance, ".to_owned()),
        (vec!["serve", "app", "a"], "app/a: up, ".to_owned()),
        (vec!["servers"], "upstream\tserver\tmode\t".to_owned()),
        (vec!["show"], "\"upstreams\": [".to_owned()),
        (vec!["config"], "[upstream.app]\n".to_owned()),
        (vec!["raw", "show backend"], "# name\napp\n".to_owned()),
        (vec!["raw", "set weight app/a 9"], String::new()),
        (vec!["raw", "get weight app/a"], "9 (initial 10)".to_owned()),
    ] {
        let done = ctl(&weir, &arguments);
        assert!(done.code == Some(0), "{arguments:?}: {}", done.stderr);
        assert!(done.stdout.contains(&reply), "{arguments:?}: {}", done.stdout);
    }
    for (arguments, reply) in [
        (vec!["weight", "app", "unknown", "7"], "the upstream `app` has no server `unknown` (404)"),
        (vec!["limit", "app", "a", "none"], "`max_requests` is 1 to 10000000, or \"off\" (400)"),
        (vec!["raw", "nonsense"], "Unknown command."),
    ] {
        let refused = ctl(&weir, &arguments);
        assert_eq!(refused.code, Some(1), "{arguments:?}");
        assert!(refused.stderr.contains(reply), "{arguments:?}: {}", refused.stderr);
    }
}

#[test]
fn a_plan_is_made_against_the_config_in_use() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = start(&[&a], "");
    let plan = |text: &str| {
        let file = weir.folder().join("new.toml");
        std::fs::write(&file, text.replace("{dir}", &weir.folder().display().to_string())).unwrap();
        weir.run_over_socket(&["plan", file.to_str().unwrap()])
    };
    let same = plan(&config(&[&a], "upstream.app.balance = \"round-robin\""));
    assert_eq!((same.code, same.stdout), (Some(0), "nothing would change\n".to_owned()), "{}", same.stderr);
    let other = plan(&config(&[&a, &b], "upstream.app.balance = \"random\""));
    assert_eq!(other.code, Some(1));
    let reply = other.stdout;
    assert!(
        reply.contains("balance: \"round-robin\" -> \"random\"")
            && reply.contains("+ upstream `app`, server `b`"),
        "{reply}"
    );
    let bad = plan("listener = 1");
    assert_eq!(bad.code, Some(2));
    assert!(bad.stderr.contains("new.toml"), "{}", bad.stderr);
}
