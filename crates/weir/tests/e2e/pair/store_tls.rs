//! Shared limits in a real Redis over TLS: with its authority, with a certificate of the nodes, and what the log says when one of them is wrong.

use std::net::{SocketAddr, TcpStream};

use tempfile::TempDir;

use super::limit_store::{config, passed, redis, shares, status, wait_for};
use crate::harness::foreign_program::{foreign_command, free_address};
use crate::harness::scripts::echo;
use crate::harness::tls::{CertificateAuthority, ECDSA};
use crate::harness::{ForeignProgram, Origin, Weir, eventually, temporary_folder};

const LIMIT: &str = "rate = \"10/h\"";

/// A Redis that speaks TLS alone, with a certificate for these names; `options` begin with whether clients need one.
fn redis_with_tls(
    address: SocketAddr,
    authority: &CertificateAuthority,
    names: &[&str],
    options: &[&str],
) -> ForeignProgram {
    let folder = temporary_folder();
    authority.issue(folder.path(), "redis", names, ECDSA);
    authority.write(folder.path(), "ca");
    let mut command = foreign_command("redis-server");
    command.args([
        "--bind",
        &address.ip().to_string(),
        "--port",
        "0",
        "--save",
        "",
        "--protected-mode",
        "no",
    ]);
    command.args(["--tls-port", &address.port().to_string(), "--tls-cert-file", "redis.pem"]);
    command.args(["--tls-key-file", "redis.key", "--tls-ca-cert-file", "ca.pem", "--tls-auth-clients"]);
    command.args(options);
    ForeignProgram::start(command, folder, |_| TcpStream::connect(address).is_ok())
}

/// A folder with the certificate of the authority as `ca.pem`.
fn folder_trusting(authority: &CertificateAuthority) -> TempDir {
    let folder = temporary_folder();
    authority.write(folder.path(), "ca");
    folder
}

fn node(origin: &Origin, trusts: &CertificateAuthority, address: &str, more: &str) -> Weir {
    Weir::start_in(folder_trusting(trusts), &config(origin, address, LIMIT, more))
}

#[test]
fn nodes_share_a_limit_over_tls() {
    let (origin, store, authority) = (echo(), free_address(), CertificateAuthority::new());
    let _redis = redis_with_tls(store, &authority, &["redis.test"], &["no", "--requirepass", "open-sesame"]);
    let more = "store.nodes.ca = \"ca.pem\"\nstore.nodes.server_name = \"redis.test\"\n";
    let password = |password: &str| format!("{more}store.nodes.password = \"{password}\"\n");
    let start = |more: &str| node(&origin, &authority, &format!("rediss://{store}/1"), more);
    let [one, other] = [(); 2].map(|()| start(&password("open-sesame")));
    wait_for([&one, &other]);
    assert_eq!(passed(&one, "ann"), 10);
    eventually("the other node learns of them", || {
        status(&other, "ann");
        status(&other, "ann") == 429
    });
    let wrong = start(&password("hush-hush"));
    wrong.line(&["limits are not shared any more", "WRONGPASS", "correct `user` and `password`"]);
}

#[test]
fn the_certificate_of_the_store_is_verified() {
    let (origin, store, authority) = (echo(), free_address(), CertificateAuthority::new());
    let ip = store.ip().to_string();
    let _redis = redis_with_tls(store, &authority, &[&ip, "redis.test"], &["no"]);
    let address = format!("rediss://{store}");
    let ca = "store.nodes.ca = \"ca.pem\"\n";
    let right = node(&origin, &authority, &address, ca);
    eventually("an address can be in a certificate", || shares(&right));

    let stranger = node(&origin, &CertificateAuthority::new(), &address, ca);
    let line = stranger.line(&["limits are not shared any more", "invalid peer certificate"]);
    assert!(line.contains(&format!("the store at {store} has no TLS that can be used")), "{line}");
    assert!(line.contains("set `ca` of the store to a PEM file"), "{line}");
    assert_eq!(passed(&stranger, "ann"), 10, "each node has its limit");

    let name = format!("{ca}store.nodes.server_name = \"other.test\"\n");
    let misled = node(&origin, &authority, &address, &name);
    misled.line(&["not valid for name", "other.test", "set `server_name` of the store"]);
    assert!(!shares(&misled) && !shares(&stranger));
    misled.reload(&config(&origin, &address, LIMIT, ca));
    eventually("the right name opens the store", || shares(&misled));
}

#[test]
fn a_store_may_want_a_certificate_of_its_clients() {
    let (origin, store, authority) = (echo(), free_address(), CertificateAuthority::new());
    let ip = store.ip().to_string();
    let _redis = redis_with_tls(store, &authority, &[&ip], &["yes"]);
    let ca = "store.nodes.ca = \"ca.pem\"\n";
    let without = node(&origin, &authority, &format!("rediss://{store}"), ca);
    without.line(&["limits are not shared any more", "set `certificate` and `key` of the store"]);
    let folder = folder_trusting(&authority);
    authority.issue(folder.path(), "node", &["node.test"], ECDSA);
    let own = format!("{ca}store.nodes.certificate = \"node.pem\"\nstore.nodes.key = \"node.key\"\n");
    let with = Weir::start_in(folder, &config(&origin, &format!("rediss://{store}"), LIMIT, &own));
    eventually("a certificate opens the store", || shares(&with));
}

#[test]
fn a_port_of_the_other_kind_is_named() {
    let (origin, authority) = (echo(), CertificateAuthority::new());
    let [plain, encrypted] = [(); 2].map(|()| free_address());
    let _plain = redis(plain, &[]);
    let _encrypted = redis_with_tls(encrypted, &authority, &["redis.test"], &["no"]);
    let node_of_tls = node(
        &origin,
        &authority,
        &format!("rediss://{plain}"),
        "store.nodes.ca = \"ca.pem\"\nstore.nodes.timeout = \"200ms\"\n",
    );
    node_of_tls.line(&["limits are not shared any more", "write `redis://` in `address`"]);
    let node_without = node(&origin, &authority, &format!("redis://{encrypted}"), "");
    node_without.line(&["limits are not shared any more", "write `rediss://` in `address`"]);
}
