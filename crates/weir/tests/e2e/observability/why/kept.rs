//! The capacity of the recorder, the lists of recorded exchanges, and unknown ids.

use super::{assert_reported, failures, get, run, weir, why};
use crate::harness::{CLOSED_PORT, Client, Origin, Weir, eventually};

/// Sends `count` requests on one connection.
fn send(weir: &Weir, count: usize) {
    let mut client = Client::connect(weir.web());
    for _ in 0..count {
        assert_eq!(client.fetch("/fine").status, 200);
    }
}

/// A Weir that knows two routes: `/fine` to a server, `/dead` to none.
fn two_ways(origin: &Origin, more: &str) -> Weir {
    Weir::start(&two_ways_config(origin, more))
}

fn two_ways_config(origin: &Origin, more: &str) -> String {
    format!(
        "admin.address = \"127.0.0.1:0\"\nprocess.workers = 1\nlistener.web.address = \"127.0.0.1:0\"\n\
         listener.web.route = [{{ path = \"/fine\", upstream = \"app\" }}, {{ path = \"/dead\", upstream = \"none\" }}]\n\
         upstream.app.servers = [\"{}\"]\nupstream.none.servers = [\"{CLOSED_PORT}\"]\n{more}\n",
        origin.address(),
    )
}

#[test]
fn successes_do_not_push_failures_out() {
    let origin = Origin::serving("fine");
    let weir = two_ways(&origin, "recorder = { exchanges = 8, failures = 4 }");
    let (_, id) = get(&weir, "/dead/0");
    send(&weir, 50);
    assert_reported(&why(&weir, &id), &["GET /dead/0", "connect-refused"]);
    let kept = || weir.admin_json("/api/exchanges")["exchanges"].as_array().expect("a list").len();
    eventually("the last exchanges are kept, and the failure", || kept() == 8 + 1);
    for n in 1..=6 {
        get(&weir, &format!("/dead/{n}"));
    }
    let paths = || {
        failures(&weir)
            .iter()
            .map(|line| line["path"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    eventually("the last four are kept, the newest first", || {
        paths() == ["/dead/6", "/dead/5", "/dead/4", "/dead/3"]
    });
    let gone = run(&[&id, "--admin", &weir.address("admin").to_string()]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(1), ""));
    assert!(gone.stderr.contains("older than the last 8 exchanges and 4 failures"), "{}", gone.stderr);
}

#[test]
fn memory_stays_what_it_is() {
    let origin = Origin::serving("fine");
    let weir = two_ways(&origin, "recorder = { exchanges = 500, failures = 100 }");
    send(&weir, 2_000);
    (0..200).for_each(|_| drop(get(&weir, "/dead")));
    let before = weir.resident_bytes();
    send(&weir, 6_000);
    (0..400).for_each(|_| drop(get(&weir, "/dead")));
    let grown = weir.resident_bytes().saturating_sub(before);
    // Each exchange that was kept on and on would be half a KiB: 3 MiB and more.
    assert!(grown < 1024 * 1024, "{grown} bytes more");
}

#[test]
fn nothing_is_kept_when_it_is_off() {
    let origin = Origin::serving("fine");
    let weir = two_ways(&origin, "recorder = { exchanges = 0, failures = 0 }");
    let (_, id) = get(&weir, "/dead");
    let done = run(&[&id, "--admin", &weir.address("admin").to_string()]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("keeps nothing, its `recorder` is off"), "{}", done.stderr);
}

#[test]
fn lists_are_filtered() {
    let origin = Origin::serving("fine");
    let weir = two_ways(&origin, "");
    send(&weir, 3);
    get(&weir, "/dead");
    let count = |query: &str| {
        weir.admin_json(&format!("/api/exchanges?{query}"))["exchanges"].as_array().map_or(0, Vec::len)
    };
    eventually("all four are kept", || count("") == 4);
    let server = origin.address().to_string();
    for (query, expected) in [
        ("upstream=app", 3),
        ("upstream=none", 1),
        ("upstream=unknown", 0),
        ("status=200", 3),
        ("status=5xx", 1),
        ("status=5xx&upstream=app", 0),
        ("min_time=1h", 0),
        ("limit=2", 2),
        (&*format!("server={server}"), 3),
    ] {
        assert_eq!(count(query), expected, "{query}");
    }
    for query in ["status=bad", "limit=0", "limit=100000", "colour=red", "min_time=soon"] {
        assert_eq!(
            Client::get_by_address(weir.address("admin"), &format!("/api/exchanges?{query}")).status,
            400,
            "{query}"
        );
    }
    let line = &failures(&weir)[0];
    let link = line["link"].as_str().expect("a link to the report");
    assert_eq!(weir.admin_json(link)["exchanges"][0]["number"], line["number"]);
}

#[test]
fn names_survive_a_reload() {
    let origin = Origin::serving("fine");
    let weir = two_ways(&origin, "");
    let (_, id) = get(&weir, "/dead");
    weir.reload(&format!(
        "admin.address = \"127.0.0.1:0\"\nprocess.workers = 1\nlistener.web.address = \"127.0.0.1:0\"\n\
         listener.web.upstream = \"other\"\nupstream.other.servers = [\"{}\"]\n",
        origin.address()
    ));
    assert_reported(
        &why(&weir, &id),
        &["path prefix /dead", "upstream   none, which", "attempt 1  on 127.0.0.1:"],
    );
    let (response, _) = get(&weir, "/dead");
    assert_eq!(response.status, 200);
    let upstream = || weir.admin_json("/api/exchanges")["exchanges"][0]["upstream"].clone();
    eventually("the new one has the new names", || upstream() == "other");
}

#[test]
fn what_is_asked_in_vain_says_why() {
    let origin = Origin::serving("fine");
    let weir = weir(&[&origin.address().to_string()], "");
    let admin = weir.address("admin").to_string();
    let unknown = run(&["un/known?id", "--admin", &admin]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.stderr.contains("un/known?id is not known") && unknown.stderr.contains("another instance"),
        "{}",
        unknown.stderr
    );
    assert_eq!(run(&["--admin", &admin]).code, Some(0), "the last failures, of which there are none");
    let lost = run(&["an-id", "--admin", CLOSED_PORT]);
    assert_eq!(lost.code, Some(1));
    assert!(lost.stderr.contains("nothing listens there"), "{}", lost.stderr);
    let unsaid = run(&["an-id"]);
    assert_eq!(unsaid.code, Some(2));
    assert!(unsaid.stderr.contains("--admin ADDRESS"), "{}", unsaid.stderr);
    let other = run(&["an-id", "--admin", &weir.web().to_string()]);
    assert_eq!(other.code, Some(1));
    assert!(other.stderr.contains("something else than Weir"), "{}", other.stderr);
}

#[test]
fn failures_are_listed_and_stories_are_json_on_request() {
    let weir = weir(&[CLOSED_PORT], "");
    let (_, id) = get(&weir, "/page");
    let admin = weir.address("admin").to_string();
    why(&weir, &id);
    let listed = run(&["--admin", &admin]);
    assert_reported(&listed.stdout, &["connect-refused", &id, "GET example.test/page", "weir why ID"]);
    let json = run(&[&id, "--json", "--admin", &admin]);
    let record: serde_json::Value = serde_json::from_str(&json.stdout).expect("it is JSON");
    let report = &record["exchanges"][0];
    assert_eq!((&report["id"], &report["failure"]["reason"]), (&id.into(), &"connect-refused".into()));
    assert_eq!(report["attempt_list"][0]["candidates"][0]["in_flight"], 0);
    // The same words as in the log and in docs/failures.md.
    let failures = include_str!("../../../../../../docs/failures.md");
    for key in ["happened", "change"] {
        let words = report["failure"][key].as_str().expect("an explanation");
        assert!(failures.contains(words), "{words}");
    }
}
