//! Shared limits in the master that real Sentinels name: its death, another one that they name instead, sentinels that are gone, wrong names and passwords.

use std::net::{SocketAddr, TcpStream};

use tempfile::TempDir;

use super::limit_store::{ask, config, exchanged, limits, metric, passed, redis, shares, status, wait_for};
use crate::harness::foreign_program::{foreign_command, free_address};
use crate::harness::scripts::echo;
use crate::harness::tls::{CertificateAuthority, ECDSA};
use crate::harness::{Client, ForeignProgram, Origin, Weir, eventually, temporary_folder};

const LIMIT: &str = "rate = \"10/h\"";

/// A Sentinel that monitors `mymaster`, in a folder with what `lines` need.
fn sentinel(
    address: SocketAddr,
    folder: TempDir,
    master: SocketAddr,
    quorum: usize,
    lines: &str,
) -> ForeignProgram {
    let (ip, port) = (master.ip(), master.port());
    let text = format!(
        "bind {0}\nport {1}\nprotected-mode no\n{lines}sentinel announce-ip {0}\n\
         sentinel monitor mymaster {ip} {port} {quorum}\nsentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 3000\n",
        address.ip(),
        address.port()
    );
    std::fs::write(folder.path().join("sentinel.conf"), text).expect("the folder takes a file");
    let mut command = foreign_command("redis-server");
    command.args(["sentinel.conf", "--sentinel"]);
    ForeignProgram::start(command, folder, |_| TcpStream::connect(address).is_ok())
}

/// A replica, which says where it is: a connection of its own comes from any address of loopback.
fn replica(address: SocketAddr, master: SocketAddr) -> ForeignProgram {
    let [own, ip, port] = [address.ip().to_string(), master.ip().to_string(), master.port().to_string()];
    redis(
        address,
        &["--replica-announce-ip", &own, "--repl-diskless-sync-delay", "0", "--replicaof", &ip, &port],
    )
}

fn node(origin: &Origin, sentinels: &[SocketAddr], more: &str) -> Weir {
    Weir::start(&config_of_node(origin, "redis://mymaster", sentinels, more))
}

fn config_of_node(origin: &Origin, address: &str, sentinels: &[SocketAddr], more: &str) -> String {
    let addresses: Vec<String> = sentinels.iter().map(|sentinel| format!("\"redis://{sentinel}\"")).collect();
    let addresses = addresses.join(", ");
    config(origin, address, LIMIT, &format!("store.nodes.sentinel.addresses = [{addresses}]\n{more}"))
}

/// Waits until each sentinel knows the replica and the other sentinels.
fn wait_until_complete(sentinels: &[SocketAddr]) {
    let others = (sentinels.len() - 1).to_string();
    eventually("the sentinels know each other and the replica", || {
        sentinels.iter().all(|sentinel| {
            let known = ask(*sentinel, &["--raw", "SENTINEL", "MASTER", "mymaster"]);
            let lines: Vec<&str> = known.lines().collect();
            let value = |name: &str| {
                let at = lines.iter().position(|line| *line == name)?;
                lines.get(at + 1).copied()
            };
            value("num-slaves") == Some("1")
                && value("num-other-sentinels") == Some(&others)
                && value("flags") == Some("master")
        })
    });
}

#[test]
fn nodes_follow_a_failover() {
    let origin = echo();
    let [first, second] = [(); 2].map(|()| free_address());
    let master = redis(first, &[]);
    let _replica = replica(second, first);
    let sentinels = [(); 3].map(|()| free_address());
    let mut running: Vec<ForeignProgram> =
        sentinels.iter().map(|at| sentinel(*at, temporary_folder(), first, 2, "")).collect();
    wait_until_complete(&sentinels);
    let [one, other] = [(); 2].map(|()| node(&origin, &sentinels, ""));
    wait_for([&one, &other]);
    one.line(&["the sentinels name the master of the store", &first.to_string()]);
    let before = metric(&one, "exchanged_keys_total");
    assert_eq!([(); 6].map(|()| status(&one, "ann")), [200; 6]);
    exchanged(&one, before);

    drop(master);
    for node in [&one, &other] {
        node.line(&["limits are not shared any more", &format!("the master at {first}")]);
        eventually("the node follows", || {
            node.stderr().contains(&format!("master={second}")) && shares(node)
        });
        node.line(&["limits are shared by nodes again"]);
    }
    let before = metric(&other, "exchanged_keys_total");
    assert_eq!(status(&other, "ann"), 200);
    exchanged(&other, before);
    assert_eq!(passed(&other, "ann"), 3, "ten in all, before and after the failover");
    eventually("so does the other node know", || status(&one, "ann") == 429);
    let shown = limits(&one);
    assert!(shown.contains(&format!("in nodes (master {second}), all nodes together")), "{shown}");
    let page = Client::get_by_address(one.address("admin"), "/").text();
    assert!(page.contains("shared in") && page.contains(&second.to_string()), "{page}");

    // A node that begins now asks the sentinels that are left.
    running.remove(0);
    let third = node(&origin, &sentinels, "");
    eventually("the third node shares the limit", || shares(&third));
    // Without any sentinel, the master that is known stays in use.
    running.clear();
    let before = metric(&one, "exchanged_keys_total");
    assert_eq!(status(&one, "bob"), 200);
    exchanged(&one, before);
    assert!(shares(&one) && shares(&other));
    let late = node(&origin, &sentinels, "");
    let line = late.line(&["limits are not shared any more", "start the sentinels"]);
    assert!(
        sentinels.iter().all(|at| line.contains(&format!("the sentinel at {at} cannot be reached"))),
        "{line}"
    );
    assert_eq!(passed(&late, "ann"), 10);
}

/// The old master lives on and calls itself one, as behind a partition: what the sentinels say counts.
#[test]
fn nodes_leave_a_master_that_is_none_any_more() {
    let origin = echo();
    let [first, second, at] = [(); 3].map(|()| free_address());
    let (_first, _second) = (redis(first, &[]), redis(second, &[]));
    let _sentinel = sentinel(at, temporary_folder(), first, 1, "");
    let node = node(&origin, &[at], "");
    eventually("the node shares its limit", || shares(&node));
    let monitor = |master: SocketAddr| {
        assert_eq!(ask(at, &["SENTINEL", "REMOVE", "mymaster"]), "OK");
        let (ip, port) = (master.ip().to_string(), master.port().to_string());
        assert_eq!(ask(at, &["SENTINEL", "MONITOR", "mymaster", &ip, &port, "1"]), "OK");
    };
    monitor(second);
    node.line(&[&format!("the master at {first} is the master no more: the sentinels name {second}")]);
    node.line(&["the sentinels name the master of the store", &format!("master={second}")]);
    eventually("the node follows", || shares(&node));
    // A replica is not taken for the master, whatever a sentinel says.
    let third = free_address();
    let _third = replica(third, first);
    monitor(third);
    let refusal = format!("the master at {third} is not the master: it calls itself `slave`");
    eventually("the replica is refused", || limits(&node).contains(&refusal));
    assert_eq!(passed(&node, "ann"), 10);
}

#[test]
fn names_and_passwords_of_sentinels_are_their_own() {
    let origin = echo();
    let [master, at] = [(); 2].map(|()| free_address());
    let _master = redis(master, &["--requirepass", "open-sesame"]);
    let lines = "requirepass sentinels-own\n";
    let _sentinel = sentinel(at, temporary_folder(), master, 1, lines);
    let password = "store.nodes.password = \"open-sesame\"\n";
    let own = format!("{password}store.nodes.sentinel.password = \"sentinels-own\"\n");
    let right = node(&origin, &[at], &own);
    eventually("the node shares its limit", || shares(&right));
    let shown = Client::get_by_address(right.address("admin"), "/api/config").text();
    assert!(!shown.contains("sentinels-own") && !right.stderr().contains("sentinels-own"), "{shown}");

    let without = node(&origin, &[at], password);
    without.line(&["limits are not shared any more", "NOAUTH", "of `sentinel`"]);
    let unknown = Weir::start(&config_of_node(&origin, "redis://other", &[at], &own));
    unknown.line(&[&format!("the sentinel at {at} does not know a master `other`"), "sentinel monitor"]);
    // A Redis that is no sentinel.
    let plain = free_address();
    let _plain = redis(plain, &[]);
    let mistaken = node(&origin, &[plain], "");
    mistaken.line(&["limits are not shared any more", "unknown command", "26379"]);
}

/// Everything over TLS: sentinels, master, and a certificate of the node for both.
#[test]
fn sentinels_and_master_speak_tls() {
    let (origin, authority) = (echo(), CertificateAuthority::new());
    let [master, at] = [(); 2].map(|()| free_address());
    let folder = || {
        let folder = temporary_folder();
        authority.issue(folder.path(), "redis", &["redis.test"], ECDSA);
        authority.write(folder.path(), "ca");
        folder
    };
    let files =
        "tls-cert-file redis.pem\ntls-key-file redis.key\ntls-ca-cert-file ca.pem\ntls-replication yes\n";
    let in_folder = folder();
    let text =
        format!("bind {}\nport 0\ntls-port {}\nprotected-mode no\n{files}", master.ip(), master.port());
    std::fs::write(in_folder.path().join("redis.conf"), text).expect("the folder takes a file");
    let mut command = foreign_command("redis-server");
    command.arg("redis.conf");
    let _master = ForeignProgram::start(command, in_folder, |_| TcpStream::connect(master).is_ok());
    let lines = format!("port 0\ntls-port {}\n{files}", at.port());
    let _sentinel = sentinel(at, folder(), master, 1, &lines);
    let keys =
        "ca = \"ca.pem\"\ncertificate = \"redis.pem\"\nkey = \"redis.key\"\nserver_name = \"redis.test\"\n";
    let keys: String = keys.lines().map(|line| format!("store.nodes.{line}\n")).collect();
    let sentinel_of = |name: &str| {
        format!(
            "store.nodes.sentinel = {{ addresses = [\"rediss://{at}\"], server_name = \"{name}\" }}\n{keys}"
        )
    };
    let start = |more: &str| Weir::start_in(folder(), &config(&origin, "rediss://mymaster", LIMIT, more));
    let node = start(&sentinel_of("redis.test"));
    eventually("the node shares its limit", || shares(&node));
    let misled = start(&sentinel_of("other.test"));
    misled.line(&[&format!("the sentinel at {at}"), "not valid for name", "set `sentinel.server_name`"]);
}
