//! `dns-01` where `_acme-challenge.HOST` is a CNAME into another zone: by updates at Knot DNS, by a program, and what cannot be followed.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::dns_update::{SECRET, has_knot, knot_with, records, update_keys, write_key};
use super::{Authority, PebbleSettings, config_asking, dns_command, has_pebble, tell_place, usual};
use crate::harness::{CommandResult, Origin, Weir, eventually, temporary_folder};

/// A zone that nothing may change: one host is delegated by way of a second CNAME, one is in a circle.
const EXAMPLE: &str = "_acme-challenge CNAME example.challenges.test.\n\
                       _acme-challenge.circle CNAME around.circle\naround.circle CNAME _acme-challenge.circle\n";

/// The zone of the challenges.
const CHALLENGES: &str = "example CNAME shared.of\n";

/// Every name that is not there is that of a website.
const WILDCARD: &str = "* CNAME www.example.test.\n";

/// The authority's resolver, over TCP: Knot DNS names the record of another zone, and a resolver asks for it. Other questions are passed on.
struct FollowingResolver {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
}

impl FollowingResolver {
    /// Answers questions for `alias` with the TXT records that `server` has of `target`.
    fn start(server: SocketAddr, alias: &str, target: &str) -> FollowingResolver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let stopping = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stopping);
        let [alias, target] = [alias, target].map(question);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                // A client that goes early asks again.
                let _gone = serve(client, |query| answer(server, query, &alias, &target));
            }
        });
        FollowingResolver { address, stopping }
    }
}

impl Drop for FollowingResolver {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _gone = TcpStream::connect(self.address);
    }
}

/// Answers one question (RFC 1035 section 4.2.2).
fn serve(mut client: TcpStream, answer: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut len = [0; 2];
    client.read_exact(&mut len)?;
    let mut query = vec![0; usize::from(u16::from_be_bytes(len))];
    client.read_exact(&mut query)?;
    let Some(answer) = answer(&query) else { return Ok(()) };
    client.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat())
}

/// The question for the TXT records of a name (RFC 1035 section 4.1.2).
fn question(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([0, 0, 16, 0, 1]).collect()
}

/// The answer of the server. Owners of its records point at the question, so that this is all that differs.
fn answer(server: SocketAddr, query: &[u8], alias: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let (header, rest) = query.split_at_checked(12)?;
    let is_alias = rest.get(..alias.len()).is_some_and(|asked| asked.eq_ignore_ascii_case(alias));
    let asked = if is_alias { [&header[..10], &[0, 0], target].concat() } else { query.to_vec() };
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    socket.send_to(&asked, server).ok()?;
    let mut answer = [0; 1500];
    let len = socket.recv(&mut answer).ok()?;
    if !is_alias {
        return Some(answer[..len].to_vec());
    }
    let records = if answer[6..8] == [0, 0] { &[][..] } else { answer.get(12 + target.len()..len)? };
    Some([&answer[..8], &[0; 4], alias, records].concat())
}

#[test]
fn updates_go_to_the_zone_that_a_cname_leads_to() {
    if !has_pebble() || !has_knot() {
        return;
    }
    let (origin, authority, folder) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let zones = [
        ("example.test", EXAMPLE, false),
        ("challenges.test", CHALLENGES, true),
        ("wild.test", WILDCARD, true),
    ];
    let (knot, server) = knot_with("hmac-sha256", "", &zones);
    let resolver =
        FollowingResolver::start(server, "_acme-challenge.example.test", "shared.of.challenges.test");
    write_key(folder.path(), "hmac-sha256", SECRET);
    let of = |hosts: &str, more: &str| {
        let keys = format!("hosts = [{hosts}]\n{more}{}", update_keys(folder.path(), server, ""));
        let store = folder.path().join(format!("store-{}", hosts.len()));
        config_asking(server, &origin, &authority.keys(&store, &keys))
    };
    let weir = Weir::start(&of("\"*.example.test\", \"example.test\"", ""));
    let pebble = authority.start(&PebbleSettings { name_server: Some(resolver.address), ..usual(&weir) });
    pebble.wait_for(weir.web(), "any.example.test");
    pebble.wait_for(weir.web(), "example.test");
    weir.line(&[
        "the record of a challenge belongs where its CNAME leads",
        "target=\"shared.of.challenges.test.\"",
    ]);
    eventually("the records are gone", || records(server, "shared.of.challenges.test", 16) == Some(0));
    assert!(!weir.stderr().contains("could not be removed"), "{}\n{}", weir.stderr(), knot.output());

    // A wildcard is no delegation: the record takes its place.
    weir.reload(&of("\"a.wild.test\"", ""));
    pebble.wait_for(weir.web(), "a.wild.test");
    // Knot DNS knows no key for the zone of the host.
    weir.reload(&of("\"example.test\"", "dns_follow_cname = false\n"));
    weir.line(&["no certificate could be obtained", "does not accept the key"]);
    weir.reload(&of("\"circle.example.test\"", ""));
    weir.line(&[
        "no certificate could be obtained",
        "`_acme-challenge.circle.example.test.` -> `around.circle.example.test.` -> `_acme-challenge.circle.example.test.`: they \
         lead in a circle",
    ]);
}

#[test]
fn a_program_is_told_where_a_cname_leads() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, folder) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = dns_command(folder.path());
    let keys = authority.keys(&folder.path().join("store"), &format!("hosts = [\"a.example.test\"]\n{keys}"));
    let weir = Weir::start(&config_asking(authority.dns, &origin, &keys));
    // Before there is an authority, nothing is looked up.
    let pebble = authority.start_with(&usual(&weir), |records| {
        let cname = "{\"host\":\"_acme-challenge.a.example.test.\",\"target\":\"a.challenges.test.\"}";
        let mut command = crate::harness::foreign_program::foreign_command("curl");
        command.args(["-sf", "-d", cname, &format!("http://{records}/set-cname")]);
        assert_eq!(CommandResult::new(&mut command).code, Some(0), "the name server takes a CNAME");
    });
    tell_place(folder.path(), &pebble);
    pebble.wait_for(weir.web(), "a.example.test");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("the program has run");
    let last: Vec<&str> = log.lines().rev().take(2).collect();
    for (line, action) in last.iter().zip(["cleanup", "present"]) {
        assert!(line.starts_with(&format!("{action} a.challenges.test. ")), "{log}");
        assert!(line.ends_with(" for _acme-challenge.a.example.test."), "{log}");
    }
}

/// Without an answer, what is known is used, and the log says what is not.
#[test]
fn a_resolver_that_does_not_answer_stops_no_order() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, folder) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = dns_command(folder.path());
    let keys = authority.keys(&folder.path().join("store"), &format!("hosts = [\"a.example.test\"]\n{keys}"));
    let nothing = "127.0.0.1:1".parse().expect("it is an address");
    let weir = Weir::start(&config_asking(nothing, &origin, &keys));
    let pebble = authority.start(&usual(&weir));
    tell_place(folder.path(), &pebble);
    pebble.wait_for(weir.web(), "a.example.test");
    weir.line(&["whether the record of a challenge is a CNAME is not known: it is taken for none"]);
}
