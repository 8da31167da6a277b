//! A node of a pair, for the tests beside: Weir, keepalived and the rules for nftables, as in examples/pair.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::foreign_program::{foreign_command, output_of};
use crate::harness::namespace::Namespace;
use crate::harness::{Client, ForeignProgram, Weir, eventually, temporary_folder};

/// The address that both nodes share, as the example has it.
pub(super) const SHARED: &str = "192.0.2.10:80";

/// That of the second node, where each node has one.
pub(super) const SECOND: &str = "192.0.2.11:80";

/// How long an attempt of a client may take: packets are lost while the address moves.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The file in both examples.
const TRACK_FILE: &str = "/var/lib/weir/keepalived";

pub(super) const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pair");

/// A node: Weir, and keepalived beside it.
pub(super) struct Node {
    name: &'static str,
    pub(super) weir: Weir,
    /// Lines of its config beyond those of all nodes.
    more: String,
    _keepalived: ForeignProgram,
    /// That of the track file, which both name.
    folder: TempDir,
}

impl Node {
    pub(super) fn start(name: &'static str, machine: &Namespace, keepalived: &str) -> Node {
        Node::start_with(name, machine, keepalived, String::new())
    }

    /// With more lines in its config.
    pub(super) fn start_with(
        name: &'static str,
        machine: &Namespace,
        keepalived: &str,
        more: String,
    ) -> Node {
        let folder = temporary_folder();
        let track = folder.path().join("track");
        let weir = start_weir(name, machine, &track, &more);
        let keepalived = start_keepalived(machine, &keepalived.replace(TRACK_FILE, path(&track)));
        Node { name, weir, more, _keepalived: keepalived, folder }
    }

    /// Starts Weir again, where it is watched by the same keepalived.
    pub(super) fn restart(&mut self, machine: &Namespace) {
        self.weir = start_weir(self.name, machine, &self.folder.path().join("track"), &self.more);
    }

    pub(super) fn ctl(&self, verb: &str) {
        let done = self.weir.run_over_socket(&["ctl", verb]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

fn start_weir(name: &str, machine: &Namespace, track: &Path, more: &str) -> Weir {
    let text = format!(
        "admin.socket = \"unix:{{dir}}/weir.sock\"\nprocess.hand_over_delay = \"1s\"\nprocess.frozen_after = \"4s\"\n\
         process.keepalived.track_file = \"{}\"\n\
         listener.web.address = \":80\"\n{more}[[listener.web.route]]\nrespond = {{ status = 200, body = \"{name}\" }}\n",
        path(track)
    );
    machine.inside(|| Weir::start(&text))
}

fn start_keepalived(machine: &Namespace, text: &str) -> ForeignProgram {
    // As the guide has it.
    set_kernel(machine, "conf/all/arp_ignore", "1");
    set_kernel(machine, "conf/all/arp_announce", "2");
    let folder = temporary_folder();
    let file = |name: &str| folder.path().join(name);
    // A busy machine may be late by more than three tenths of a second.
    let patient = replaced(text, "advert_int 0.1", "advert_int 1");
    std::fs::write(file("keepalived.conf"), patient).expect("the folder is the test's");
    let mut command = foreign_command("keepalived");
    command.args(["--dont-fork", "--vrrp", "--log-console", "--log-detail"]);
    command.arg("--use-file").arg(file("keepalived.conf"));
    command.arg("--pid").arg(file("pid")).arg("--vrrp_pid").arg(file("vrrp_pid"));
    machine.inside(|| ForeignProgram::start(command, folder, |folder| folder.join("vrrp_pid").exists()))
}

/// Writes a setting of IPv4.
pub(super) fn set_kernel(machine: &Namespace, key: &str, value: &str) {
    let file = format!("/proc/sys/net/ipv4/{key}");
    machine.inside(|| std::fs::write(file, value).expect("a namespace has settings of its own"));
}

/// Loads the rules of the example with these changes, so that packets of unknown connections go to `other`.
pub(super) fn load_rules(other: &str, changes: &[(&str, &str)], machine: &Namespace) {
    set_kernel(machine, "fwmark_reflect", "1");
    let rules = std::fs::read_to_string(format!("{EXAMPLES}/forward.nft")).expect("it is there");
    // Advertisements are as seldom as in `start_keepalived`.
    let mut rules = replaced(&rules, "timeout 250ms", "timeout 2500ms");
    for (old, new) in changes {
        rules = replaced(&rules, old, new);
    }
    let folder = temporary_folder();
    let file = folder.path().join("forward.nft");
    std::fs::write(&file, rules.replace("define other = 192.0.2.2", &format!("define other = {other}")))
        .expect("the folder is the test's");
    let mut command = foreign_command("nft");
    command.arg("-f").arg(file);
    machine.inside(|| output_of(command));
}

fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "{old:?} is not in the example");
    text.replace(old, new)
}

pub(super) fn address_of(text: &str) -> SocketAddr {
    text.parse().expect("it is an address")
}

/// The node that answers a client at this address, if one does within a moment.
pub(super) fn responding_at(address: &str, client: &Namespace) -> Option<String> {
    client.inside(|| {
        let mut client = Client::over(TcpStream::connect_timeout(&address_of(address), PATIENCE).ok()?);
        client.limit_reads(PATIENCE);
        client.send_what_is_taken("GET / HTTP/1.1\r\nHost: pair\r\nConnection: close\r\n\r\n").ok()?;
        Some(client.try_response_to("GET").ok()?.text())
    })
}

pub(super) fn wait_until_serves(client: &Namespace, node: &str) {
    let serves = || responding_at(SHARED, client).as_deref() == Some(node);
    eventually(&format!("{node} serves"), serves);
}

/// The example, and the same with the priority of the second node.
pub(super) fn example() -> (String, String) {
    let text = std::fs::read_to_string(format!("{EXAMPLES}/keepalived.conf")).expect("it is there");
    let second = replaced(&text, "priority 150", "priority 100");
    (text, second)
}

/// The example for two addresses, and the same with the priorities of the second node.
pub(super) fn example_of_both() -> (String, String) {
    let text = std::fs::read_to_string(format!("{EXAMPLES}/keepalived-both.conf")).expect("it is there");
    let without = replaced(&text, "priority 150", "priority X");
    let second = replaced(&replaced(&without, "priority 100", "priority 150"), "priority X", "priority 100");
    (text, second)
}
