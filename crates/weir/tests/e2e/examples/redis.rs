//! `examples/redis`: a master and a replica of Redis behind Weir, with redis-cli as the client.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use rustix::process::Signal;

use super::config;
use crate::harness::foreign_program::{foreign_command, free_address, output_of};
use crate::harness::{CommandResult, ForeignProgram, Weir, eventually, temporary_folder};

struct Server {
    address: SocketAddr,
    process: ForeignProgram,
}

impl Server {
    fn start(master: Option<SocketAddr>) -> Server {
        let address = free_address();
        let mut command = foreign_command("redis-server");
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        command.args(["--bind", &ip, "--port", &port, "--save", "", "--protected-mode", "no"]);
        // Replicas need not wait for others to come.
        command.args(["--repl-diskless-sync-delay", "0"]);
        if let Some(master) = master {
            command.args(["--replicaof", &master.ip().to_string(), &master.port().to_string()]);
        }
        let process =
            ForeignProgram::start(command, temporary_folder(), |_| TcpStream::connect(address).is_ok());
        Server { address, process }
    }
}

fn cli(at: SocketAddr, words: &[&str]) -> Command {
    let mut command = foreign_command("redis-cli");
    command.args(["-h", &at.ip().to_string(), "-p", &at.port().to_string()]).args(words);
    command
}

fn ask(at: SocketAddr, words: &[&str]) -> String {
    CommandResult::new(&mut cli(at, words)).text().trim().to_owned()
}

fn start(servers: [&Server; 2]) -> Weir {
    let addresses = servers.map(|server| format!("\"{}\"", server.address));
    Weir::start(&config(
        "redis/weir.toml",
        &[
            (":6379\"\nprotocol", "127.0.0.1:0\"\nprotocol"),
            ("\"10.0.0.1:6379\"", &addresses[0]),
            ("\"10.0.0.2:6379\"", &addresses[1]),
        ],
    ))
}

#[test]
fn clients_follow_the_master() {
    let master = Server::start(None);
    let replica = Server::start(Some(master.address));
    let weir = start([&replica, &master]);
    let at = weir.address("redis");
    // `redis-1` of the config is the replica here.
    eventually("the replica is found to be one", || !weir.is_up("redis-1") && weir.is_up("redis-2"));
    for number in 0..4 {
        assert_eq!(ask(at, &["SET", &format!("key:{number}"), "value"]), "OK");
    }
    assert!(output_of(cli(at, &["INFO", "replication"])).contains("role:master"));
    eventually("the replica has it all", || ask(replica.address, &["DBSIZE"]) == "4");
    let blocked = std::thread::scope(|scope| {
        let blocked = scope.spawn(|| ask(at, &["BLPOP", "queue", "0"]));
        eventually("a client is blocked", || {
            ask(master.address, &["INFO", "clients"]).contains("blocked_clients:1")
        });
        // The master hangs, and Sentinel, which is the test here, promotes the replica.
        master.process.signal(Signal::STOP);
        assert_eq!(ask(replica.address, &["REPLICAOF", "NO", "ONE"]), "OK");
        blocked.join().expect("redis-cli ends")
    });
    assert!(blocked.contains("Server closed the connection"), "{blocked}");
    eventually("clients follow", || ask(at, &["SET", "after", "failover"]) == "OK");
    assert_eq!(ask(at, &["DBSIZE"]), "5");
    // The old master comes back, and still believes to be the master until it is told.
    master.process.signal(Signal::CONT);
    let [ip, port] = [replica.address.ip().to_string(), replica.address.port().to_string()];
    assert_eq!(ask(master.address, &["REPLICAOF", &ip, &port]), "OK");
    eventually("the old master is known to be a replica", || {
        !weir.is_up("redis-2") && ask(at, &["GET", "after"]) == "failover"
    });
}

#[test]
fn many_connections_with_many_commands_each_pass() {
    let (master, other) = (Server::start(None), Server::start(None));
    assert_eq!(
        ask(
            other.address,
            &["REPLICAOF", &master.address.ip().to_string(), &master.address.port().to_string()]
        ),
        "OK"
    );
    let weir = start([&master, &other]);
    eventually("the replica is found to be one", || !weir.is_up("redis-2"));
    let at = weir.address("redis");
    let mut benchmark = foreign_command("redis-benchmark");
    benchmark.args(["-h", &at.ip().to_string(), "-p", &at.port().to_string()]);
    benchmark.args(["-n", "4000", "-c", "40", "-P", "16", "-t", "set,get,lpush", "-q"]);
    let said = output_of(benchmark);
    assert!(said.contains("SET:") && said.contains("LPUSH:") && !said.contains("Error"), "{said}");
    assert_eq!(ask(at, &["LLEN", "mylist"]), "4000");
}
