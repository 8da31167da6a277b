//! `dns-01` by dynamic updates, at Knot DNS: records come and go, and a server that refuses is quoted.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::{Authority, PebbleSettings, config, has_pebble, usual};
use crate::harness::foreign_program::{ForeignProgram, foreign_command, free_address};
use crate::harness::{Origin, Weir, eventually, temporary_folder};

const SECRET: &str = "Wm9uZSBrZXkgZm9yIGEgdGVzdCwgMzIgYnl0ZXMgbG8=";
const OTHER_SECRET: &str = "QW5vdGhlciB6b25lIGtleSBmb3IgYSB0ZXN0LCAzMiA=";

fn has_knot() -> bool {
    let found =
        foreign_command("knotd").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: there is no `knotd` (cargo xtask setup installs it)");
    }
    found
}

/// Knot DNS with the zone `example.test`, which the key `acme` of this algorithm may update.
fn knot(algorithm: &str) -> (ForeignProgram, SocketAddr) {
    let (address, folder) = (free_address(), temporary_folder());
    let dir = folder.path().display().to_string();
    let (ip, port) = (address.ip(), address.port());
    let zone = "$ORIGIN example.test.\n$TTL 60\n@ SOA ns.example.test. ops.example.test. 1 3600 600 86400 60\n\
                @ NS ns\nns A 127.0.0.1\n";
    let text = format!(
        "server:\n    listen: {ip}@{port}\n    rundir: {dir}\n    udp-workers: 1\n    tcp-workers: 1\n    background-workers: 1\n\
         database:\n    storage: {dir}\n    journal-db-max-size: 8M\n    kasp-db-max-size: 8M\n    timer-db-max-size: 8M\n\
         log:\n  - target: stderr\n    any: info\n\
         key:\n  - id: acme\n    algorithm: {algorithm}\n    secret: {SECRET}\n\
         acl:\n  - id: update\n    key: acme\n    action: update\n    update-type: TXT\n    update-owner: name\n    update-owner-match: equal\n    \
         update-owner-name: _acme-challenge\n\
         zone:\n  - domain: example.test\n    storage: {dir}\n    file: zone\n    acl: update\n    zonefile-sync: -1\n    zonefile-load: whole\n"
    );
    std::fs::write(folder.path().join("zone"), zone).expect("the folder takes a file");
    std::fs::write(folder.path().join("knot.conf"), text).expect("the folder takes a file");
    let mut command = foreign_command("knotd");
    command.args(["-c", "knot.conf"]);
    let is_ready = move |_: &Path| records(address, "ns.example.test", 1) == Some(1);
    (ForeignProgram::start(command, folder, is_ready), address)
}

/// How many records of a name the server has.
fn records(server: SocketAddr, name: &str, kind: u8) -> Option<u16> {
    let mut query = b"\0\x07\0\0\0\x01\0\0\0\0\0\0".to_vec();
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend(label.bytes());
    }
    query.extend([0, 0, kind, 0, 1]);
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    socket.send_to(&query, server).ok()?;
    let mut answer = [0; 1500];
    let len = socket.recv(&mut answer).ok()?;
    (len >= 12).then(|| u16::from_be_bytes([answer[6], answer[7]]))
}

fn keys(folder: &Path, server: SocketAddr, more: &str) -> String {
    let file = folder.join("tsig.key");
    format!(
        "hosts = [\"*.example.test\", \"example.test\"]\ndns_wait = \"0ms\"\n\
         dns_update = {{ server = \"{server}\", key_file = \"{}\"{more} }}",
        file.display()
    )
}

fn write_key(folder: &Path, algorithm: &str, secret: &str) {
    let text = format!("key \"acme\" {{\n\talgorithm {algorithm};\n\tsecret \"{secret}\";\n}};\n");
    std::fs::write(folder.join("tsig.key"), text).expect("the folder takes a file");
}

fn is_obtained_with(algorithm: &str, more: &str) {
    if !has_pebble() || !has_knot() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let ((knot, server), folder) = (knot(algorithm), temporary_folder());
    write_key(folder.path(), algorithm, SECRET);
    let text = config(&origin, &authority.keys(store.path(), &keys(folder.path(), server, more)));
    let weir = Weir::start(&text);
    let pebble = authority.start(&PebbleSettings { name_server: Some(server), ..usual(&weir) });
    pebble.wait_for(weir.web(), "any.example.test");
    pebble.wait_for(weir.web(), "example.test");
    eventually("the records are gone", || records(server, "_acme-challenge.example.test", 16) == Some(0));
    assert!(!weir.stderr().contains("could not be removed"), "{}\n{}", weir.stderr(), knot.output());
}

#[test]
fn a_wildcard_with_sha256_in_a_zone_that_the_server_names() {
    is_obtained_with("hmac-sha256", "");
}

#[test]
fn a_wildcard_with_sha512_in_a_zone_of_the_config() {
    is_obtained_with("hmac-sha512", ", zone = \"example.test\"");
}

#[test]
fn refusals_of_the_server_are_explained() {
    if !has_pebble() || !has_knot() {
        return;
    }
    let (origin, authority) = (Origin::serving("hello"), Authority::new());
    let ((_knot, server), folder) = (knot("hmac-sha256"), temporary_folder());
    let of = |host: &str, more: &str| {
        let keys = keys(folder.path(), server, more)
            .replace("\"*.example.test\", \"example.test\"", &format!("\"{host}\""));
        let store = folder.path().join(format!("store-{host}{}", more.len()));
        config(&origin, &authority.keys(&store, &keys))
    };
    write_key(folder.path(), "hmac-sha256", OTHER_SECRET);
    let weir = Weir::start(&of("a.example.test", ""));
    let _pebble = authority.start(&PebbleSettings { name_server: Some(server), ..usual(&weir) });
    weir.line(&[
        "no certificate could be obtained",
        "does not accept the key: BADSIG (the secret is another one)",
    ]);
    write_key(folder.path(), "hmac-sha256", SECRET);
    weir.reload(&of("b.example.org", ""));
    weir.line(&["no certificate could be obtained", "has no zone for `_acme-challenge.b.example.org.`"]);
    weir.reload(&of("c.example.org", ", zone = \"example.test\""));
    weir.line(&["no certificate could be obtained", "is not in the zone `example.test.`"]);
    // The server is gone.
    let gone = of("d.example.test", "").replace(&server.to_string(), "127.0.0.1:1");
    weir.reload(&gone);
    weir.line(&["no certificate could be obtained", "the name server 127.0.0.1:1 cannot be reached"]);
}
