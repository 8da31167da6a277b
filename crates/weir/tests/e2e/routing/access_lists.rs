//! Lists of addresses and other keys: allowed, denied, slowed down, tagged; from files that change.

use std::time::Duration;

use crate::harness::scripts::echo;
use crate::harness::watchdog::now;
use crate::harness::{
    Client, Http2Client, Origin, Response, Weir, config_with, eventually, run, temporary_folder,
};

/// A config whose clients are named by the proxy in front of it.
fn config(origin: &Origin, keys: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1
             listener.web.trusted_proxies = [\"127.0.0.1\"]
             listener.web.http2.prior_knowledge = \"allowed\"
             access_log = {{ format = '{{client_address}} {{status}} {{limit}} {{tag}} {{reason}}', output = \"file:{{dir}}/access.log\" }}
             {keys}"
        ),
    )
}

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

fn from(weir: &Weir, client: &str) -> Response {
    get(weir, "/", &format!("X-Forwarded-For: {client}\r\n"))
}

#[test]
fn the_longest_network_decides() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "listener.web.lists = [\"bad\", \"good\", \"marked\"]
         list.bad = { action = \"deny\", entries = [\"192.0.2.0/24\", \"2001:db8::/32\", \"198.51.100.7\"] }
         list.good = { action = \"allow\", entries = [\"192.0.2.128/25\", \"2001:db8:1::/48\", \"198.51.100.7\"] }
         list.marked = { action = \"tag\", entries = [\"192.0.2.0/23 partner net\", \"192.0.3.5 one\", \"203.0.113.1\"] }
         listener.web.response_headers.set.x-tag = \"{tag}\"",
    ));
    let mut lines = Vec::new();
    for (client, status, tag) in [
        ("192.0.2.1", 403, Some("partner net")),
        ("192.0.2.200", 200, Some("partner net")),
        ("192.0.3.1", 200, Some("partner net")),
        ("192.0.3.5", 200, Some("one")),
        ("203.0.113.1", 200, Some("marked")),
        ("203.0.113.2", 200, None),
        ("2001:db8::1", 403, None),
        ("2001:db8:1::1", 200, None),
        // Of two entries that are the same, the list that is named first counts.
        ("198.51.100.7", 403, None),
    ] {
        let response = from(&weir, client);
        assert_eq!((response.status, response.field("x-tag")), (status, tag), "{client}");
        let (by, reason) = if status == 403 { ("bad", "access-denied") } else { ("-", "-") };
        lines.push(format!("{client} {status} {by} {} {reason}", tag.unwrap_or("-").replace(' ', "\\x20")));
    }
    assert_eq!(weir.access_log(lines.len()), lines);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get_with("/", &[("x-forwarded-for", "192.0.2.1")]);
    let denied = client.response(stream);
    assert_eq!((denied.status, denied.reason()), (403, Some("access-denied")));
}

/// Requests in a list with `allow` are not limited; a list of a route holds beside that of its listener.
#[test]
fn an_allowed_client_is_under_no_limit() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "listener.web.lists = \"office\"
         listener.web.limited_by = \"one\"
         limit.one.rate = \"1/h\"
         list.office = { action = \"allow\", entries = [\"192.0.2.0/31\"] }
         list.keys = { action = \"deny\", key = \"{header.x-key}\", entries = [\"stolen\", \"lost one\"], status = 401 }
         [[listener.web.route]]
         path = \"/keys\"
         upstream = \"app\"
         lists = [\"keys\"]",
    ));
    for _ in 0..3 {
        assert_eq!(from(&weir, "192.0.2.1").status, 200);
    }
    assert_eq!([0; 2].map(|_| from(&weir, "192.0.2.2").status), [200, 429]);
    let office = "X-Forwarded-For: 192.0.2.1\r\n";
    for (key, status) in [("stolen", 401), ("lost", 401), ("Stolen", 200), ("none", 200)] {
        assert_eq!(get(&weir, "/keys", &format!("{office}X-Key: {key}\r\n")).status, status, "{key:?}");
    }
    assert_eq!(get(&weir, "/", &format!("{office}X-Key: stolen\r\n")).status, 200, "not on this route");
}

#[test]
fn a_refusal_may_be_put_off() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "listener.web.lists = \"bad\"
         list.bad = { action = \"tarpit\", entries = [\"192.0.2.0/24\"], delay = \"300ms\", status = 404 }",
    ));
    let began = now();
    assert_eq!(from(&weir, "192.0.2.1").status, 404);
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(origin.requests().len(), 0);
}

/// The page for the refusal is on a route where the list of the listener is asked once more.
#[test]
fn a_refusal_is_put_off_once() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "listener.web.lists = \"bad\"
         listener.web.error_pages = [{ status = 404, then = \"/page\" }]
         list.bad = { action = \"tarpit\", entries = [\"192.0.2.0/24\"], delay = \"3s\", status = 404 }",
    ));
    let began = now();
    assert_eq!(from(&weir, "192.0.2.1").status, 404);
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(6), "{took:?}");
    assert_eq!(origin.requests().len(), 0);
}

/// The connection is closed, and the log has the list; other streams of HTTP/2 go on.
#[test]
fn a_refusal_may_have_no_answer() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "listener.web.lists = \"bad\"
         listener.web.error_pages = [{ status = 403, then = \"/page\" }]
         list.bad = { action = \"close\", when = 'path.startsWith(\"/bad\")' }",
    ));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/good").status, 200);
    client.send_get("/bad");
    assert_eq!(client.take_to_end().0, b"");
    let mut client = Client::connect(weir.web());
    client.send("POST /bad HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.take_to_end().0, b"");
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get("/bad");
    client.wait_for_reset(stream);
    assert_eq!(client.fetch("/good").status, 200);
    let refused = "127.0.0.1 403 bad - access-denied";
    let answered = "127.0.0.1 200 - - -";
    assert_eq!(weir.access_log(5), [answered, refused, refused, refused, answered]);
    assert_eq!(origin.requests().len(), 2);
}

/// A file of 100 000 networks is read again when it changes.
#[test]
fn a_file_that_changes_is_read_again() {
    let origin = echo();
    let folder = temporary_folder();
    let file = folder.path().join("bad.txt");
    let many: String = (0..100_000_u32)
        .map(|number| format!("10.{}.{}.{}\n", number >> 16, number >> 8 & 255, number & 255))
        .collect();
    std::fs::write(&file, format!("# denied\n192.0.2.1   # one client\n\n{many}")).unwrap();
    let config = config(
        &origin,
        "process.reload = \"on-change\"\nlistener.web.lists = \"bad\"\nlist.bad = { action = \"deny\", file = \"bad.txt\" }",
    );
    let weir = Weir::start_in(folder, &config);
    let status = |client: &str| from(&weir, client).status;
    assert_eq!(["192.0.2.1", "10.1.134.159", "10.1.134.160", "192.0.2.2"].map(status), [403, 403, 200, 200]);
    std::fs::write(&file, "192.0.2.2\n").unwrap();
    eventually("the file is read again", || status("192.0.2.2") == 403);
    assert_eq!(status("192.0.2.1"), 200);
    // A file with an error is not used, and the one before stays.
    std::fs::write(&file, "192.0.2.1\nnonsense\n").unwrap();
    eventually("the error is told", || weir.stderr().contains("`nonsense` is not a network"));
    assert_eq!((status("192.0.2.1"), status("192.0.2.2")), (200, 403));
}

#[test]
fn errors_in_a_file_have_its_lines() {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("bad.txt"), "192.0.2.1\n\n  10.0.0.1/8 tag # wrong\n").unwrap();
    let config = folder.path().join("weir.toml");
    std::fs::write(
        &config,
        "listener.web = { address = \":0\", upstream = \"app\", lists = \"bad\" }
         upstream.app.servers = [\"127.0.0.1:1\"]
         list.bad = { action = \"deny\", file = [\"bad.txt\", \"none.txt\"] }",
    )
    .unwrap();
    let checked = run(&["check", &config.display().to_string()]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    let text = format!("{}{}", checked.stdout, checked.stderr);
    assert!(
        text.contains("bad.txt:3:3") && text.contains("`10.0.0.1/8` has bits set beyond its first 8"),
        "{text}"
    );
    assert!(text.contains("none.txt` cannot be read"), "{text}");
}

#[test]
fn explain_names_the_lists_and_limits_of_a_request() {
    let folder = temporary_folder();
    let config = folder.path().join("weir.toml");
    std::fs::write(
        &config,
        "listener.web = { address = \":0\", upstream = \"app\", lists = [\"bad\", \"keys\"], limited_by = \"one\" }
         upstream.app = { servers = [\"127.0.0.1:1\"], limited_by = \"two\" }
         list.bad = { action = \"deny\", entries = [\"192.0.2.0/24\"] }
         list.keys = { action = \"allow\", key = \"{header.x-key}\", entries = [\"a\"] }
         limit.one = { rate = \"10/s\", burst = 20 }
         limit.two = { concurrent = 5, key = \"{host}\", dry_run = true }",
    )
    .unwrap();
    let file = config.display().to_string();
    let explained = run(&["explain", &file, "http://a.test/", "--from", "192.0.2.7"]);
    for line in [
        "list       bad (deny): the client is in it\n",
        "list       keys (allow): by {header.x-key}\n",
        "limit      one: 10/s, burst 20 by {client_address}\n",
        "limit      two: 5 at once by {host}, as a dry run\n",
    ] {
        assert!(explained.stdout.contains(line), "{line}{}", explained.stdout);
    }
    let json = run(&["explain", &file, "http://a.test/", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["lists"][0]["has_client"], &json["limits"][1]["name"]), (&false.into(), &"two".into()));
}
