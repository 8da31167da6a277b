//! Panics in tasks of the control plane, which tests order: each goes on with what it has known, or asks for it anew.

use crate::harness::origin::status;
use crate::harness::scripts::{echo, numbered, probed};
use crate::harness::{
    Client, FailureSwitch, Gate, NameServer, Origin, Weir, config_with, eventually, of_upstream,
};
use crate::upstream::source_panics::{strike, was_begun_anew};

const CHECKED: &str =
    "upstream.app.health = { path = \"/healthz\", interval = \"30ms\", timeout = \"15s\" }\n";

/// Two servers, of which `a` answers its probes, and `b` as the switch says.
fn checked(is_ill: &FailureSwitch, more: &str) -> (Weir, [Origin; 2]) {
    let a = Origin::start(|conn| {
        loop {
            let is_probe = conn.request()?.target() == "/healthz";
            conn.send(if is_probe { status(200) } else { crate::harness::origin::ok("a") })?;
        }
    });
    let b = probed("b", is_ill);
    let weir = Weir::start_faulty(&config_with(&[a.named("a"), b.named("b")], &format!("{CHECKED}{more}")));
    (weir, [a, b])
}

fn wait_until_up(weir: &Weir, server: &str, is_up: bool) {
    eventually(&format!("{server} is up: {is_up}"), || weir.is_up(server) == is_up);
}

/// Half of the requests are its share in the end.
#[test]
fn a_server_in_slow_start_gets_its_share() {
    let is_ill = FailureSwitch::new(true);
    let (weir, _origins) = checked(&is_ill, "upstream.app.slow_start = \"2s\"\n");
    wait_until_up(&weir, "b", false);
    is_ill.set(false);
    wait_until_up(&weir, "b", true);
    strike(&weir, weir.web(), "the slow start of a server", || {});
    was_begun_anew(&weir, "the slow start of a server", 1);
    let mut client = Client::connect(weir.web());
    eventually("b has its share", || (0..100).filter(|_| client.fetch("/").text() == "b").count() >= 45);
}

#[test]
fn health_checks_go_on() {
    let is_ill = FailureSwitch::new(false);
    let (weir, origins) = checked(&is_ill, "");
    let [a, b] = &origins;
    wait_until_up(&weir, "b", true);
    let reload = |more: &str| {
        weir.reload(&config_with(&[a.named("a"), b.named("b")], &format!("{CHECKED}{more}")));
    };
    for (count, more) in [(1, "upstream.app.max_requests = 70\n"), (2, "upstream.app.max_requests = 80\n")] {
        strike(&weir, weir.web(), "health checks", || reload(more));
        was_begun_anew(&weir, "health checks", count);
        for is_up in [false, true] {
            is_ill.set(!is_up);
            wait_until_up(&weir, "b", is_up);
        }
    }
}

#[test]
fn ejected_servers_come_back() {
    let is_ill = FailureSwitch::new(true);
    let a = is_ill.origin("a", |conn| conn.send(status(503)));
    let b = Origin::serving("b");
    let more = "balance = \"round-robin\"\nejection = { consecutive_failures = 1, base_time = \"50ms\" }";
    let weir = Weir::start_faulty(&config_with(&[a.named("a"), b.named("b")], &of_upstream(more)));
    let is_ejected = || weir.metrics().sum("weir_server_ejected", &["server=\"a\""]) == 1.0;
    for count in 1..=2 {
        is_ill.set(true);
        let eject = || {
            eventually("it is ejected", || {
                Client::get(weir.web(), "/");
                is_ejected()
            });
        };
        strike(&weir, weir.web(), "the review of ejected servers", eject);
        was_begun_anew(&weir, "the review of ejected servers", count);
        is_ill.set(false);
        eventually("the trial succeeds", || Client::get(weir.web(), "/").text() == "a");
    }
}

/// The line of a server in the table, as words.
fn row(weir: &Weir, server: &str) -> Vec<String> {
    let table = Client::get_by_address(weir.address("admin"), "/servers").text();
    let rows = table.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    rows.into_iter().find(|row| row[1] == server).unwrap_or_else(|| panic!("no {server} in {table}"))
}

#[test]
fn a_drained_server_stays_so_and_its_deadline_holds() {
    const TASK: &str = "the watch of a server that leaves service";
    let origins = numbered(2, &Gate::new());
    let servers: Vec<String> =
        origins.iter().enumerate().map(|(number, origin)| origin.named(&format!("s{number}"))).collect();
    let weir = Weir::start_faulty(&config_with(&servers, "admin.changes = true\n"));
    weir.set_mode("s0", "draining&deadline=2s");
    strike(&weir, weir.web(), TASK, || {});
    assert_eq!(row(&weir, "s0")[2], "draining");
    was_begun_anew(&weir, TASK, 1);
    eventually("the deadline is over", || row(&weir, "s0")[2] == "maintenance");
    weir.line(&["nothing is left on the server"]);
    for _ in 0..4 {
        assert_eq!(Client::get(weir.web(), "/").text(), "1");
    }
}

/// With a socket and a track file of keepalived, too.
#[test]
fn a_hand_over_and_the_ways_to_weir_go_on() {
    let origin = echo();
    let weir = Weir::start_faulty(&format!(
        "admin = {{ address = \"127.0.0.1:0\", socket = \"unix:{{dir}}/weir.sock\" }}\n\
         process.keepalived.track_file = \"{{dir}}/track\"\n\
         listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    let track = weir.folder().join("track");
    let is_told = |number: &str| std::fs::read_to_string(&track).is_ok_and(|text| text.trim() == number);
    eventually("the node serves", || is_told("0"));
    strike(&weir, weir.web(), "the signs of life", || {});
    weir.line(&["a sign of life", "was left out by a defect of Weir"]);
    strike(&weir, weir.web(), "the admin listener", || drop(weir.metrics()));
    was_begun_anew(&weir, "the admin listener", 2);
    strike(&weir, weir.web(), "the runtime socket", || assert!(weir.ask_socket("help").contains("help")));
    was_begun_anew(&weir, "the runtime socket", 3);
    // Until a connection has ended.
    let mut kept = Client::connect(weir.web());
    assert_eq!(kept.fetch("/").text(), "/");
    let begun = weir.run_over_socket(&["ctl", "hand-over", "--delay", "1s", "--no-wait"]);
    assert!(begun.code == Some(0) && begun.stdout.starts_with("closing: "), "{begun:?}");
    strike(&weir, weir.web(), "the hand-over of this node", || {});
    was_begun_anew(&weir, "the hand-over of this node", 4);
    eventually("it is handed over", || weir.admin_json("/api/hand-over")["state"] == "handed-over");
    eventually("the watcher is told", || is_told("-60"));
}

#[test]
fn the_files_of_the_config_are_watched_and_upgrades_possible() {
    const TASK: &str = "the watch of the files of the config";
    let [one, two] = ["one", "two"].map(Origin::serving);
    let config = |origin: &Origin| {
        let more = "process.reload = \"on-change\"\nadmin.socket = \"unix:{dir}/weir.sock\"\n";
        config_with(&[origin.named("a")], more)
    };
    let mut weir = Weir::start_faulty(&config(&one));
    strike(&weir, weir.web(), TASK, || {});
    was_begun_anew(&weir, TASK, 1);
    weir.write_config(&config(&two));
    eventually("the change takes effect", || Client::get(weir.web(), "/").text() == "two");
    let mut refused = None;
    strike(&weir, weir.web(), "the upgrade", || refused = Some(weir.run_over_socket(&["upgrade"])));
    let refused = refused.expect("it has ended");
    assert!(refused.code != Some(0) && refused.stderr.contains("by a defect of Weir"), "{refused:?}");
    weir.reload(&config(&one));
    assert_eq!(Client::get(weir.web(), "/").text(), "one");
    weir.upgrade();
    assert_eq!(Client::get(weir.web(), "/").text(), "one");
}

#[test]
fn configs_are_followed_and_rates_sampled() {
    let (before, after) = (Origin::serving("before"), Origin::serving("after"));
    let names = NameServer::start(&["127.0.0.1"]);
    let setting = names.setting();
    let weir = Weir::start_faulty(&config_with(&[before.named("a")], &setting));
    let by_name = format!("{{ name = \"b\", address = \"app.test:{}\" }}", after.address().port());
    let reload = || weir.reload(&config_with(std::slice::from_ref(&by_name), &setting));
    strike(&weir, weir.web(), "following the config", reload);
    was_begun_anew(&weir, "following the config", 1);
    eventually("the name is resolved", || Client::get(weir.web(), "/").text() == "after");
    strike(&weir, weir.web(), "the samples of live rates", || {});
    was_begun_anew(&weir, "the samples of live rates", 2);
    eventually("requests have a rate", || {
        Client::get(weir.web(), "/");
        weir.admin_json("/api/overview")["listeners"][0]["rates"]["requests"]["now"].as_f64() > Some(0.0)
    });
}
