//! An upgrade while sources of servers and routes are silent, away or slow: the new process goes on with what the one before knew.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use data_encoding::BASE64;

use super::discovery::{at, name};
use super::dns_names::{same_port, serving};
use super::source_outage::ScriptedConsul;
use crate::harness::origin::ok;
use crate::harness::scripts::{FailureSwitch, probed};
use crate::harness::{BackgroundTraffic, Client, DnsAnswer, NameServer, Origin, Weir, eventually};

#[test]
fn servers_and_addresses_are_handed_over_and_no_request_fails() {
    let Some([one, two]) = same_port(["127.0.0.1", "127.0.0.2"]) else { return };
    let [before, after] = [serving(one, "before"), serving(two, "after")];
    let port = before.address().port();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    name(&file, &[at(&before)]);
    let names = NameServer::start(&["127.0.0.1"]);
    let consul = ScriptedConsul::start(before.address());
    let upstreams = [
        ("by-file", format!("discovery = {{ file = \"{}\" }}", file.display())),
        ("by-dns", format!("discovery = {{ dns = \"app.test:{port}\" }}")),
        ("by-consul", "discovery = { consul = \"app\" }".to_owned()),
        ("by-name", format!("servers = [\"app.test:{port}\"]")),
    ];
    let mut text = format!(
        "admin.socket = \"unix:{{dir}}/weir.sock\"\nadmin.socket_changes = true\ndiscovery.consul.url = \"http://{}\"\n{}",
        consul.address(),
        names.setting()
    );
    for (upstream, servers) in &upstreams {
        text.push_str(&format!(
            "listener.{upstream} = {{ address = \"127.0.0.1:0\", upstream = \"{upstream}\" }}\nupstream.{upstream}.{servers}\n"
        ));
    }
    let mut weir = Weir::start(&text);
    let answers = |weir: &Weir| {
        let answer = |(listener, _): &(&str, String)| Client::get(weir.address(listener), "/").text();
        upstreams.iter().map(answer).collect::<Vec<_>>()
    };
    assert_eq!(answers(&weir), ["before"; 4]);
    let clients: Vec<_> =
        upstreams.iter().map(|(it, _)| BackgroundTraffic::through_upgrades(weir.address(it))).collect();
    // Silent, then away; nothing is in a file.
    fs::remove_file(&file).expect("it is there");
    names.answer(DnsAnswer::Silence);
    consul.fall_silent();
    weir.upgrade();
    assert_eq!(answers(&weir), ["before"; 4]);
    names.answer(DnsAnswer::ServerFailure);
    consul.go_away();
    for _ in 0..2 {
        weir.upgrade();
        clients.iter().for_each(BackgroundTraffic::goes_on);
        assert_eq!(answers(&weir), ["before"; 4]);
    }
    name(&file, &[at(&after)]);
    names.move_to(&["127.0.0.2"]);
    consul.speak(after.address());
    eventually("the word of all of them counts", || answers(&weir) == ["after"; 4]);
    clients.into_iter().for_each(BackgroundTraffic::end);
}

/// What was set, changed and found out of servers that a source has named.
#[test]
fn modes_weights_and_health_of_discovered_servers_are_handed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    let fails = FailureSwitch::new(true);
    let [a, b] = ["a", "b"].map(|text| probed(text, &FailureSwitch::new(false)));
    let c = probed("c", &fails);
    let server = |name: &str, origin: &Origin| {
        format!("{{\"address\":\"{}\",\"name\":\"{name}\",\"weight\":3}}", origin.address())
    };
    name(&file, &[server("a", &a), server("b", &b), server("c", &c)]);
    let mut weir = Weir::start(&format!(
        "admin.socket = \"unix:{{dir}}/weir.sock\"\nadmin.socket_changes = true\n\
         listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
         [upstream.app]\ndiscovery = {{ file = \"{}\" }}\nhealth = {{ path = \"/healthz\", interval = \"100ms\" }}\n",
        file.display()
    ));
    let table = |weir: &Weir| weir.run_over_socket(&["ctl", "servers"]).stdout;
    let column = |table: &str, server: &str, at: usize| {
        let line = table.lines().find(|line| line.split('\t').nth(1) == Some(server));
        let column = line.and_then(|line| line.split('\t').nth(at)).map(str::to_owned);
        column.unwrap_or_else(|| panic!("{server} in {table}"))
    };
    for command in
        [&["ctl", "weight", "app", "a", "7"][..], &["ctl", "drain", "app", "b", "--deadline", "1h"]]
    {
        let done = weir.run_over_socket(command);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let down = |table: &str| table.matches("\tdown\t").count();
    eventually("the server is down", || down(&table(&weir)) == 1);
    // The source is away, so nothing of it comes from there.
    fs::remove_file(&file).expect("it is there");
    for _ in 0..2 {
        weir.upgrade();
        let shown = table(&weir);
        assert_eq!((column(&shown, "a", 4), column(&shown, "b", 2)), ("7".to_owned(), "draining".to_owned()));
        assert_eq!(down(&shown), 1, "{shown}");
    }
    // The source says the same as before: what an operator has changed stays.
    name(&file, &[server("a", &a), server("b", &b), server("c", &c)]);
    weir.upgrade();
    fails.set(false);
    eventually("it comes back", || down(&table(&weir)) == 0);
    let shown = table(&weir);
    assert_eq!((column(&shown, "a", 4), column(&shown, "b", 2)), ("7".to_owned(), "draining".to_owned()));
    name(&file, &[server("a", &a), server("b", &b)]);
    eventually("the source names others", || !table(&weir).contains("\tc\t"));
    assert_eq!(column(&table(&weir), "a", 4), "3");
}

/// While the new process waits for a source that it does not know, the one before answers, on every socket.
#[test]
fn a_process_that_waits_for_a_source_accepts_nothing() {
    let [origin, new] = ["app", "new"].map(Origin::serving);
    let consul = ScriptedConsul::start(new.address());
    consul.fall_silent();
    let text = |more: &str| {
        format!(
            "admin.socket = \"unix:{{dir}}/weir.sock\"\nadmin.socket_changes = true\ndiscovery.consul.url = \"http://{}\"\n\
             [listener.web]\naddress = \"127.0.0.1:0\"\nupstream = \"app\"\n{more}[upstream.app]\nservers = [\"{}\"]\n",
            consul.address(),
            origin.address()
        )
    };
    let mut weir = Weir::start(&text(""));
    let first = weir.serving_pid();
    weir.write_config(&text(
        "[[listener.web.route]]\npath = \"/new\"\nupstream = \"new\"\n[upstream.new]\ndiscovery = { consul = \"app\" }\n",
    ));
    weir.signal(rustix::process::Signal::USR2);
    consul.wait_for_questions(1);
    let process = |weir: &Weir| {
        let shown = weir.ask_socket("show info");
        let line = shown.lines().find_map(|line| line.strip_prefix("Pid: ").map(str::to_owned));
        line.unwrap_or_else(|| panic!("{shown:?}"))
    };
    for _ in 0..20 {
        assert_eq!(Client::get(weir.web(), "/").text(), "app");
        // It has no such route yet: the config before is in use.
        assert_eq!(Client::get(weir.web(), "/new").text(), "app");
        assert_eq!(process(&weir), first.to_string());
    }
    consul.speak(new.address());
    let line = weir.line(&["another process serves now"]);
    weir.note_successor(&line);
    // The process before says so first and then leaves the sockets: for a moment, both accept.
    weir.wait_for_exit_of_the_first();
    assert_eq!(Client::get(weir.web(), "/new").text(), "new");
    assert_eq!(process(&weir), weir.serving_pid().to_string());
}

/// Routes of a store that is away: those of the process before stay in use.
#[test]
fn routes_of_a_store_are_handed_over() {
    let [app, shop] = ["app", "shop"].map(Origin::serving);
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let fragment = format!(
        "[[listener.web.route]]\npath = \"/shop\"\nupstream = \"shop\"\n[upstream.shop]\nservers = [\"{}\"]\n",
        shop.address()
    );
    let keys =
        format!("[{{\"Key\":\"weir/routes/shop\",\"Value\":\"{}\"}}]", BASE64.encode(fragment.as_bytes()));
    let store = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if away.load(Ordering::SeqCst) || request.target().contains("index=7") {
                // As a query that waits for a change, until the connection ends.
                conn.request()?;
                return None;
            }
            let response = ok(&keys);
            conn.send(response.replacen(
                "HTTP/1.1 200 OK\r\n",
                "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\n",
                1,
            ))?;
        }
    });
    let mut weir = Weir::start(&format!(
        "admin.socket = \"unix:{{dir}}/weir.sock\"\nadmin.socket_changes = true\n\
         discovery.consul.url = \"http://{}\"\nroutes_from.team = {{ consul = \"weir/routes/\" }}\n\
         listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n",
        store.address(),
        app.address()
    ));
    assert_eq!(Client::get(weir.web(), "/shop").text(), "shop");
    let clients = BackgroundTraffic::through_upgrades(weir.web());
    is_away.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        weir.upgrade();
        assert_eq!(Client::get(weir.web(), "/shop").text(), "shop");
    }
    clients.end();
}
