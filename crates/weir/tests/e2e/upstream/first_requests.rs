//! The first requests after a start: what is known of servers is in use before a connection is accepted, and what is not is waited for.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::{self, JoinHandle};

use super::discovery::{at, name};
use super::dns_names::serving;
use super::source_outage::ScriptedConsul;
use crate::harness::{Client, DnsAnswer, NameServer, Origin, ReservedAddress, Weir, eventually};

fn config(web: SocketAddr, more: &str) -> String {
    format!(
        "listener.web = {{ address = \"{web}\", upstream = \"app\" }}\nadmin.address = \"127.0.0.1:0\"\n{more}"
    )
}

/// Asks as soon as something listens there; gives the status.
fn first_status(web: SocketAddr) -> JoinHandle<u16> {
    thread::spawn(move || {
        eventually("it listens", || std::net::TcpStream::connect(web).is_ok());
        Client::connect(web).fetch("/").status
    })
}

/// Runs a process until it has written its state file.
fn start_until_stored(text: &str, state: &Path) {
    let _weir = Weir::start(text);
    eventually("the state is written", || state.exists());
}

#[test]
fn the_first_request_waits_for_a_source_that_answers_late() {
    let origin = Origin::serving("app");
    let consul = ScriptedConsul::start(origin.address());
    consul.fall_silent();
    let place = ReservedAddress::new();
    let sources = format!(
        "discovery.consul.url = \"http://{}\"\nupstream.app.discovery = {{ consul = \"app\" }}\n",
        consul.address()
    );
    let asking = first_status(place.address());
    let weir = thread::scope(|scope| {
        scope.spawn(|| {
            consul.wait_for_questions(1);
            // A connection that is made now is not answered before the source has spoken.
            let mut early = Client::connect(place.address());
            early.send_get("/");
            consul.speak(origin.address());
            assert_eq!(early.response().status, 200);
        });
        Weir::start(&config(place.address(), &sources))
    });
    assert_eq!(asking.join().expect("the client is answered"), 200);
    assert!(!weir.stderr().contains("no server of the upstream is known"), "{}", weir.stderr());
}

#[test]
fn what_is_never_answered_is_named_and_the_rest_is_served() {
    let origin = Origin::serving("app");
    let names = NameServer::start(&[]);
    names.answer(DnsAnswer::Silence);
    let weir = Weir::start(&format!(
        "{}listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n\
         listener.other = {{ address = \"127.0.0.1:0\", upstream = \"other\" }}\n\
         upstream.other.discovery = {{ dns = \"other.test:80\" }}\n\
         listener.third = {{ address = \"127.0.0.1:0\", upstream = \"third\" }}\n\
         upstream.third.servers = [\"third.test:80\"]\n",
        names.setting(),
        origin.address()
    ));
    weir.line(&["no server of the upstream is known", "upstream=\"other\"", "dns other.test:80"]);
    weir.line(&["no address of these servers is known", "upstream=\"third\"", "third.test:80"]);
    assert!(!weir.stderr().contains("last known addresses"), "{}", weir.stderr());
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
    assert_eq!(Client::get(weir.address("other"), "/").status, 503);
    assert!([502, 503].contains(&Client::get(weir.address("third"), "/").status));
}

/// The servers of the file are in use for the very first request, whatever else is asked for in vain.
#[test]
fn the_first_request_gets_a_server_of_the_state_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, state) = (folder.path().join("servers.json"), folder.path().join("state.json"));
    let origin = Origin::serving("app");
    name(&file, &[at(&origin)]);
    let names = NameServer::start(&["127.0.0.1"]);
    let sources = format!(
        "{}discovery.state_file = \"{}\"\nupstream.app.discovery = {{ file = \"{}\" }}\n",
        names.setting(),
        state.display(),
        file.display()
    );
    let place = ReservedAddress::new();
    start_until_stored(&config(place.address(), &sources), &state);
    fs::remove_file(&file).expect("it is there");
    names.answer(DnsAnswer::Silence);
    let lost = format!("{sources}upstream.lost.servers = [\"lost.test:80\"]\n");
    let asking = first_status(place.address());
    let weir = Weir::start(&config(place.address(), &lost));
    assert_eq!(asking.join().expect("the client is answered"), 200);
    weir.line(&["no address of these servers is known", "lost.test:80"]);
}

/// A source that answers well is heard before the first request, also where a file has older servers.
#[test]
fn an_answer_counts_more_than_the_state_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, state) = (folder.path().join("servers.json"), folder.path().join("state.json"));
    let [old, new] = ["old", "new"].map(Origin::serving);
    name(&file, &[at(&old)]);
    let text = format!(
        "discovery.state_file = \"{}\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
         upstream.app.discovery = {{ file = \"{}\" }}\n",
        state.display(),
        file.display()
    );
    start_until_stored(&text, &state);
    name(&file, &[at(&new)]);
    drop(old);
    let weir = Weir::start(&text);
    assert_eq!(Client::get(weir.web(), "/").text(), "new");
}

/// A source that names its servers by names: these are resolved before the first request, too.
#[test]
fn names_of_a_source_are_resolved_before_the_first_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    let Some([listener]) = super::dns_names::same_port(["127.0.0.1"]) else { return };
    let origin = serving(listener, "app");
    name(&file, &[format!("{{\"address\":\"app.test:{}\"}}", origin.address().port())]);
    let names = NameServer::start(&["127.0.0.1"]);
    let weir = Weir::start(&format!(
        "{}listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.discovery = {{ file = \"{}\" }}\n",
        names.setting(),
        file.display()
    ));
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
}

/// A cold start does not need DNS either: the addresses that names of servers had are in the state file, of names in the config and of those that a
/// source has named.
#[test]
fn the_first_request_gets_an_address_of_the_state_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, state) = (folder.path().join("servers.json"), folder.path().join("state.json"));
    let Some([old, new]) = super::dns_names::same_port(["127.0.0.1", "127.0.0.2"]) else { return };
    let (old, _new) = (serving(old, "old"), serving(new, "new"));
    let port = old.address().port();
    name(&file, &[format!("{{\"address\":\"named.test:{port}\"}}")]);
    let names = NameServer::start(&["127.0.0.1"]);
    let place = ReservedAddress::new();
    let text = format!(
        "{}{}discovery.state_file = \"{}\"\nupstream.app.servers = [\"app.test:{port}\"]\n\
         listener.sourced = {{ address = \"127.0.0.1:0\", upstream = \"sourced\" }}\n\
         upstream.sourced.discovery = {{ file = \"{}\" }}\n",
        config(place.address(), ""),
        names.setting(),
        state.display(),
        file.display()
    );
    {
        let _weir = Weir::start(&text);
        let stored = |name: &str| {
            fs::read_to_string(&state).is_ok_and(|text| text.contains(&format!("\"{name}\":[\"127.0.0.1\"]")))
        };
        eventually("the addresses are stored", || stored("app.test") && stored("named.test"));
    }
    names.answer(DnsAnswer::Silence);
    let asking = first_status(place.address());
    let weir = Weir::start(&text);
    assert_eq!(asking.join().expect("the client is answered"), 200);
    assert_eq!(Client::get(weir.web(), "/").text(), "old");
    assert_eq!(Client::get(weir.address("sourced"), "/").text(), "old");
    weir.line(&[
        "are not resolved: requests go to their last known addresses",
        "upstream=\"app\"",
        "app.test",
    ]);
    weir.line(&[
        "are not resolved: requests go to their last known addresses",
        "upstream=\"sourced\"",
        "named.test",
    ]);
    let overview = weir.admin_json("/api/overview").to_string();
    let said = "its addresses are those of `discovery.state_file`: its name is not resolved yet";
    assert_eq!(overview.matches(said).count(), 2, "{overview}");
    // What DNS says counts as soon as it is back.
    names.move_to(&["127.0.0.2"]);
    eventually("traffic moves", || Client::get(weir.web(), "/").text() == "new");
    eventually("the other name, too", || Client::get(weir.address("sourced"), "/").text() == "new");
    let overview = weir.admin_json("/api/overview").to_string();
    assert!(!overview.contains(said), "{overview}");
    eventually("the new addresses are stored", || {
        fs::read_to_string(&state).is_ok_and(|text| text.contains("\"app.test\":[\"127.0.0.2\"]"))
    });
}

/// The file may be old: DNS that answers is heard before the first request. A name that the config does not have any more is forgotten.
#[test]
fn dns_counts_more_than_the_state_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let state = folder.path().join("state.json");
    let Some([old, new]) = super::dns_names::same_port(["127.0.0.1", "127.0.0.2"]) else { return };
    let (old, _new) = (serving(old, "old"), serving(new, "new"));
    let port = old.address().port();
    let names = NameServer::start(&["127.0.0.1"]);
    let text = |name: &str| {
        format!(
            "{}discovery.state_file = \"{}\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
             upstream.app.servers = [\"{name}:{port}\"]\n",
            names.setting(),
            state.display()
        )
    };
    start_until_stored(&text("app.test"), &state);
    names.move_to(&["127.0.0.2"]);
    let weir = Weir::start(&text("app.test"));
    assert_eq!(Client::get(weir.web(), "/").text(), "new");
    assert!(!weir.stderr().contains("last known addresses"), "{}", weir.stderr());
    drop(weir);
    let _weir = Weir::start(&text("other.test"));
    eventually("the name is forgotten", || {
        fs::read_to_string(&state).is_ok_and(|text| text.contains("other.test") && !text.contains("app.test"))
    });
}
