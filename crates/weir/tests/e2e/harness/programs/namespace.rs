//! Machines of a test: network namespaces, joined by a switch.
//!
//! A namespace lives as long as the process that holds it, which dies with the test. A thread enters one for as long as it starts programs or
//! connects there; what it has started stays there.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::{Child, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::harness::foreign_program::{foreign_command, output_of};
use crate::harness::program::bound_command;
use crate::harness::watchdog::eventually;

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// A network namespace.
pub(crate) struct Namespace {
    link: File,
    holder: Child,
}

impl Namespace {
    /// A new one, with nothing but a loopback device.
    fn new() -> Namespace {
        let mut command = bound_command("unshare", &[]);
        let holder = command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null()).spawn();
        let holder = holder.expect("util-linux is installed: cargo xtask setup");
        let link = format!("/proc/{}/ns/net", holder.id());
        let own = std::fs::read_link(OWN).expect("/proc is mounted");
        eventually("the process is in a namespace of its own", || {
            std::fs::read_link(&link).is_ok_and(|there| there != own)
        });
        let link = File::open(link).expect("the process is there");
        let namespace = Namespace { link, holder };
        namespace.ip("link set lo up");
        namespace
    }

    /// Does `work` in this namespace.
    pub(crate) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Leads the thread back, also when `work` panics.
        struct Return(File);
        impl Drop for Return {
            fn drop(&mut self) {
                enter(&self.0);
            }
        }
        let _return = Return(File::open(OWN).expect("/proc is mounted"));
        enter(&self.link);
        work()
    }

    /// Runs ip(8) there.
    pub(crate) fn ip(&self, words: &str) -> String {
        self.inside(|| {
            let mut command = foreign_command("ip");
            command.args(words.split(' '));
            output_of(command)
        })
    }
}

fn enter(link: &File) {
    move_into_link_name_space(link.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("a process that may make namespaces may enter them");
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Machines at one switch, with the addresses 192.0.2.1 and so on, in their order.
pub(crate) struct Network {
    switch: Namespace,
    pub(crate) machines: Vec<Namespace>,
}

impl Network {
    /// As many machines; `None`, and a line on standard error, where namespaces cannot be made.
    pub(crate) fn new(count: usize) -> Option<Network> {
        let trial = bound_command("unshare", &[]).args(["--net", "true"]).stderr(Stdio::null()).status();
        if !trial.is_ok_and(|status| status.success()) {
            eprintln!(
                "\n*** NOT TESTED: this user may make no network namespaces; run the tests as root ***\n"
            );
            return None;
        }
        let switch = Namespace::new();
        switch.ip("link add br0 type bridge forward_delay 0");
        switch.ip("link set br0 up");
        let machine = |number: usize| {
            let machine = Namespace::new();
            let holder = machine.holder.id();
            switch.ip(&format!("link add port{number} type veth peer name eth0 netns {holder}"));
            switch.ip(&format!("link set port{number} master br0 up"));
            machine.ip(&format!("address add 192.0.2.{number}/24 dev eth0"));
            machine.ip("link set eth0 up");
            machine
        };
        let machines = (1..=count).map(machine).collect();
        Some(Network { switch, machines })
    }

    /// Cuts a machine off, without its noticing.
    pub(crate) fn cut(&self, machine: usize) {
        self.switch.ip(&format!("link set port{} nomaster", machine + 1));
    }

    /// Joins it again.
    pub(crate) fn mend(&self, machine: usize) {
        self.switch.ip(&format!("link set port{} master br0", machine + 1));
    }
}
