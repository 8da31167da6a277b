//! `dns-01` by dynamic updates, at Knot DNS: records come and go, and a server that refuses is quoted.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::{Authority, PebbleSettings, config_asking, has_pebble, usual};
use crate::harness::foreign_program::{ForeignProgram, foreign_command, free_address};
use crate::harness::{Origin, Weir, eventually, temporary_folder};

pub(super) const SECRET: &str = "Wm9uZSBrZXkgZm9yIGEgdGVzdCwgMzIgYnl0ZXMgbG8=";
const OTHER_SECRET: &str = "QW5vdGhlciB6b25lIGtleSBmb3IgYSB0ZXN0LCAzMiA=";

pub(super) fn has_knot() -> bool {
    let found =
        foreign_command("knotd").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: there is no `knotd` (cargo xtask setup installs it)");
    }
    found
}

/// Knot DNS with the zone `example.test`, in which the key `acme` of this algorithm may change the record of the host of that name.
fn knot(algorithm: &str) -> (ForeignProgram, SocketAddr) {
    let rights =
        "    update-owner: name\n    update-owner-match: equal\n    update-owner-name: _acme-challenge\n";
    knot_with(algorithm, rights, &[("example.test", "", true)])
}

/// Knot DNS with these zones: names, further records, and whether the key may change TXT records in it, within `rights`.
pub(super) fn knot_with(
    algorithm: &str,
    rights: &str,
    zones: &[(&str, &str, bool)],
) -> (ForeignProgram, SocketAddr) {
    let (address, folder) = (free_address(), temporary_folder());
    let dir = folder.path().display().to_string();
    let (ip, port) = (address.ip(), address.port());
    let mut text = format!(
        "server:\n    listen: {ip}@{port}\n    rundir: {dir}\n    udp-workers: 1\n    tcp-workers: 1\n    background-workers: 1\n\
         database:\n    storage: {dir}\n    journal-db-max-size: 8M\n    kasp-db-max-size: 8M\n    timer-db-max-size: 8M\n\
         log:\n  - target: stderr\n    any: info\n\
         key:\n  - id: acme\n    algorithm: {algorithm}\n    secret: {SECRET}\n\
         acl:\n  - id: update\n    key: acme\n    action: update\n    update-type: TXT\n{rights}\
         zone:\n"
    );
    for (name, records, may_update) in zones {
        let zone = format!(
            "$ORIGIN {name}.\n$TTL 60\n@ SOA ns ops 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n{records}"
        );
        std::fs::write(folder.path().join(name), zone).expect("the folder takes a file");
        let acl = if *may_update { "    acl: update\n" } else { "" };
        text.push_str(&format!(
            "  - domain: {name}\n    storage: {dir}\n    file: {name}\n{acl}    zonefile-sync: -1\n    zonefile-load: whole\n"
        ));
    }
    std::fs::write(folder.path().join("knot.conf"), text).expect("the folder takes a file");
    let mut command = foreign_command("knotd");
    command.args(["-c", "knot.conf"]);
    let names: Vec<String> = zones.iter().map(|(name, ..)| format!("ns.{name}")).collect();
    let is_ready = move |_: &Path| names.iter().all(|name| records(address, name, 1) == Some(1));
    (ForeignProgram::start(command, folder, is_ready), address)
}

/// How many records of a name the server has.
pub(super) fn records(server: SocketAddr, name: &str, kind: u8) -> Option<u16> {
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
    format!("hosts = [\"*.example.test\", \"example.test\"]\n{}", update_keys(folder, server, more))
}

/// Keys of `acme` for updates at this server by the key of [`write_key`].
pub(super) fn update_keys(folder: &Path, server: SocketAddr, more: &str) -> String {
    let file = folder.join("tsig.key");
    format!(
        "dns_wait = \"0ms\"\ndns_update = {{ server = \"{server}\", key_file = \"{}\"{more} }}",
        file.display()
    )
}

pub(super) fn write_key(folder: &Path, algorithm: &str, secret: &str) {
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
    let text =
        config_asking(server, &origin, &authority.keys(store.path(), &keys(folder.path(), server, more)));
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
        config_asking(server, &origin, &authority.keys(&store, &keys))
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
