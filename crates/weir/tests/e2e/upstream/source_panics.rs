//! Panics in the tasks of sources, which tests order: servers stay, the source counts as away until its task is begun anew, and then it is
//! followed as before.

use std::net::SocketAddr;

use super::discovery::{at, name};
use super::dns_names::{same_port, serving};
use super::source_outage::ScriptedConsul;
use crate::harness::{Client, DnsAnswer, NameServer, Origin, Weir, eventually};

/// Has a kept task panic in its next turn, which `wake` brings about.
pub(crate) fn strike(weir: &Weir, listener: SocketAddr, task: &str, wake: impl FnOnce()) {
    let order = format!("GET / HTTP/1.1\r\nHost: a.test\r\nWeir-Fault: panic-task {task}\r\n\r\n");
    Client::exchange(listener, &order);
    wake();
    weir.line(&["panic: a defect of Weir", &format!("a fault was ordered: {task}")]);
}

/// Waits until so many tasks were begun anew.
pub(crate) fn was_begun_anew(weir: &Weir, task: &str, count: u32) {
    weir.line(&["a task of the control plane has ended by a defect of Weir and is begun anew", task]);
    let restarts = || weir.metrics().sum("weir_process_task_restarts_total", &[]);
    eventually("the task is counted", || restarts() >= f64::from(count));
}

#[test]
fn sources_whose_tasks_panic_keep_their_servers_and_are_followed_again() {
    let Some([one, two]) = same_port(["127.0.0.1", "127.0.0.2"]) else { return };
    let [before, after] = [serving(one, "before"), serving(two, "after")];
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    name(&file, &[at(&before)]);
    let names = NameServer::start(&["127.0.0.1"]);
    let consul = ScriptedConsul::start(before.address());
    let mut text = format!(
        "admin.address = \"127.0.0.1:0\"\ndiscovery.state_file = \"{}\"\ndiscovery.consul.url = \"http://{}\"\n{}dns.ttl_min = \"1s\"\n",
        folder.path().join("state.json").display(),
        consul.address(),
        names.setting()
    );
    let sources = [
        ("by-file", format!("file = \"{}\"", file.display())),
        ("by-dns", format!("dns = \"app.test:{}\"", before.address().port())),
        ("by-consul", "consul = \"app\"".to_owned()),
    ];
    for (upstream, source) in &sources {
        text.push_str(&format!(
            "listener.{upstream} = {{ address = \"127.0.0.1:0\", upstream = \"{upstream}\" }}\n\
             upstream.{upstream}.discovery = {{ {source} }}\n"
        ));
    }
    let weir = Weir::start_faulty(&text);
    let answers = || {
        let answer = |(listener, _): &(&str, String)| Client::get(weir.address(listener), "/").text();
        sources.iter().map(answer).collect::<Vec<_>>()
    };
    let go_over_to = |origin: &Origin, text: &str| {
        name(&file, &[at(origin)]);
        names.move_to(&[&origin.address().ip().to_string()]);
        consul.name(origin.address());
        eventually("the word of all sources counts", || answers() == [text; 3]);
    };
    assert_eq!(answers(), ["before"; 3]);
    let listener = weir.address("by-file");
    let mut count = 0;
    let mut panic_of = |task: &str, wake: &dyn Fn()| {
        count += 1;
        strike(&weir, listener, task, wake);
        was_begun_anew(&weir, task, count);
    };
    let is_away = |upstream: &str| {
        weir.line(&[
            "the source of servers has a problem; the last known servers stay in use",
            upstream,
            "the task that asks it has ended by a defect of Weir and is begun anew after a pause",
        ]);
    };
    // The second round proves that each task went on after its first panic.
    for _ in 0..2 {
        panic_of("a file of servers", &|| {});
        is_away("by-file");
        panic_of("servers in DNS", &|| {});
        is_away("by-dns");
        panic_of("servers in Consul", &|| consul.name(before.address()));
        is_away("by-consul");
        panic_of("all sources", &|| {});
        assert_eq!(answers(), ["before"; 3], "the servers stay");
        panic_of("the hand-over of servers", &|| consul.name(after.address()));
        eventually("what was in hand counts", || answers() == ["before", "before", "after"]);
        go_over_to(&after, "after");
        go_over_to(&before, "before");
    }
    eventually("nothing is stale", || weir.metrics().sum("weir_upstream_source_stale", &[]) == 0.0);
}

/// It has answered before, so it is not the start since when it has not.
#[test]
fn a_source_that_is_asked_anew_says_since_when() {
    let origin = Origin::serving("app");
    let names = NameServer::start(&["127.0.0.1"]);
    let config = |more: &str| {
        format!(
            "admin.address = \"127.0.0.1:0\"\n{}dns.ttl_min = \"1s\"\n{more}\
             listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
             upstream.app.discovery.dns = \"app.test:{}\"\n",
            names.setting(),
            origin.address().port()
        )
    };
    let weir = Weir::start_faulty(&config(""));
    let problem = || weir.admin_json("/api/overview")["upstreams"][0]["source"]["problem"].clone();
    let is_said = |part: &str| {
        eventually(&format!("the page says: {part}"), || {
            problem().as_str().is_some_and(|text| text.contains(part))
        });
        assert_eq!(Client::get(weir.web(), "/").text(), "app", "its servers stay");
        names.answer(DnsAnswer::Addresses(vec![[127, 0, 0, 1].into()]));
        eventually("it has answered", || problem().is_null());
        names.answer(DnsAnswer::Silence);
    };
    assert!(problem().is_null());
    names.answer(DnsAnswer::Silence);
    strike(&weir, weir.web(), "all sources", || {
        names.answer(DnsAnswer::ServerFailure);
        eventually("it has a problem", || !problem().is_null());
        names.answer(DnsAnswer::Silence);
    });
    is_said("not answered yet since the task of all sources has ended by a defect of Weir");
    weir.reload(&config("discovery.empty_grace = \"31s\"\n"));
    is_said("not answered yet since a reload has changed how sources are asked");
}
