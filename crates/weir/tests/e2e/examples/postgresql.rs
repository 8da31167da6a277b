//! `examples/postgresql`: two servers of PostgreSQL behind Weir, with psql and pgbench as clients.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use tempfile::TempDir;

use super::{config, copy_to_others};
use crate::harness::foreign_program::{
    foreign_command, free_address, give_to_unprivileged, output_of, unprivileged_command, unprivileged_folder,
};
use crate::harness::origin::status;
use crate::harness::tls::ECDSA;
use crate::harness::{
    CertificateAuthority, CommandResult, ForeignProgram, Origin, Weir, eventually, temporary_folder,
};

const PASSWORD: &str = "correct horse";

/// A program of the newest version that is installed; Debian keeps them out of the path.
fn program(name: &str) -> String {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.exists());
    found.sort();
    let newest = found.pop().unwrap_or_else(|| panic!("PostgreSQL is not installed: cargo xtask setup"));
    newest.to_str().expect("the path is Debian's").to_owned()
}

/// A server whose `cluster_name` is `name`; its certificate is for `db.example.com`.
struct Database {
    address: SocketAddr,
    process: ForeignProgram,
}

impl Database {
    /// One for each name, with the same data.
    fn start_each<const N: usize>(names: [&str; N], settings: &[&str]) -> ([Database; N], TempDir) {
        let authority = CertificateAuthority::new();
        let client = temporary_folder();
        std::fs::write(client.path().join("ca.pem"), authority.pem()).expect("the folder takes a file");
        let folders = names.map(|_| unprivileged_folder());
        let first = folders[0].path().join("data");
        let password = folders[0].path().join("password");
        std::fs::write(&password, format!("{PASSWORD}\n")).expect("the folder takes a file");
        give_to_unprivileged(&password);
        let mut command = unprivileged_command(&program("initdb"));
        command.args([
            "--no-sync",
            "--auth=scram-sha-256",
            "--username=app",
            "--locale=C",
            "--encoding=UTF8",
        ]);
        command.arg("--pwfile").arg(&password).arg("--pgdata").arg(&first).current_dir(folders[0].path());
        output_of(command);
        copy_to_others(&first, &folders);
        let mut names = names.into_iter();
        let databases = folders.map(|folder| {
            authority.issue(folder.path(), "server", &["db.example.com"], ECDSA);
            for file in ["server.pem", "server.key"] {
                give_to_unprivileged(&folder.path().join(file));
            }
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(folder.path().join("server.key"), mode).expect("it is the test's own");
            Database::start(folder, names.next().expect("one for each folder"), settings)
        });
        (databases, client)
    }

    fn start(folder: TempDir, name: &str, settings: &[&str]) -> Database {
        let address = free_address();
        let mut command = unprivileged_command(&program("postgres"));
        let set = |command: &mut std::process::Command, setting: &str| {
            command.args(["-c", setting]);
        };
        command.arg("-D").arg(folder.path().join("data"));
        set(&mut command, &format!("listen_addresses={}", address.ip()));
        set(&mut command, &format!("port={}", address.port()));
        set(&mut command, &format!("cluster_name={name}"));
        for setting in [
            "unix_socket_directories=",
            "fsync=off",
            "ssl=on",
            "ssl_cert_file=../server.pem",
            "ssl_key_file=../server.key",
        ] {
            set(&mut command, setting);
        }
        settings.iter().for_each(|setting| set(&mut command, setting));
        let process = ForeignProgram::start(command, folder, is_ready);
        // SIGKILL would leave a segment of shared memory behind.
        Database { address, process: process.stopped_by(Signal::INT) }
    }
}

fn is_ready(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("output"))
        .is_ok_and(|log| log.contains("ready to accept connections"))
}

/// A client, with what it needs to reach the database through Weir; the server has to prove that it is `db.example.com`.
fn client(program: &str, at: SocketAddr, folder: &Path) -> std::process::Command {
    let mut command = foreign_command(program);
    command.envs([
        ("PGUSER", "app"),
        ("PGPASSWORD", PASSWORD),
        ("PGDATABASE", "postgres"),
        ("PGCONNECT_TIMEOUT", "15"),
    ]);
    command.envs([
        ("PGHOST", "db.example.com"),
        ("PGHOSTADDR", &*at.ip().to_string()),
        ("PGPORT", &*at.port().to_string()),
    ]);
    command.envs([("PGSSLMODE", "verify-full"), ("HOME", "/nonexistent")]);
    command.env("PGSSLROOTCERT", folder.join("ca.pem"));
    command
}

fn ask(at: SocketAddr, folder: &Path, query: &str) -> CommandResult {
    let mut command = client("psql", at, folder);
    command.args(["--no-psqlrc", "--no-align", "--tuples-only", "--command", query]);
    CommandResult::new(&mut command)
}

fn start(databases: &[Database], changes: &[(&str, &str)]) -> Weir {
    let servers: Vec<String> = databases.iter().map(|database| format!("\"{}\"", database.address)).collect();
    let own = [
        (":5432\"\nprotocol", "127.0.0.1:0\"\nprotocol"),
        ("\"10.0.0.1:5432\"", &*servers[0]),
        ("\"10.0.0.2:5432\"", &*servers[1]),
        (
            "protocol = \"tcp\"",
            "protocol = \"tcp\"\naccess_log = { format = \"{server} {ended_by} {reason}\", output = \"file:{dir}/access.log\" }",
        ),
    ];
    Weir::start(&config("postgresql/weir.toml", &[&own[..], changes].concat()))
}

#[test]
fn tls_goes_through_to_the_primary_and_to_the_standby_when_it_hangs() {
    let (databases, folder) = Database::start_each(["first", "second"], &[]);
    let weir = start(&databases, &[]);
    let at = weir.address("postgresql");
    let query = "SHOW cluster_name; SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    for _ in 0..3 {
        assert_eq!(ask(at, folder.path(), query).text(), "first\nt\n");
    }
    let slow = std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(at, folder.path(), "SELECT pg_sleep(3600)"));
        eventually("the query runs", || {
            let count = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(3600)'";
            ask(at, folder.path(), count).stdout.trim() == "1"
        });
        databases[0].process.signal(Signal::STOP);
        slow.join().expect("psql ends")
    });
    // It would have waited for an hour; `on_down` has closed its connection.
    assert_ne!(slow.code, Some(0), "{}", slow.text());
    assert_eq!(ask(at, folder.path(), query).text(), "second\nt\n");
    for database in &databases {
        let log = database.process.output();
        let complaint = log.lines().find(|line| line.contains("ERROR") || line.contains("incomplete"));
        assert_eq!(complaint, None, "probes leave no trace in the log");
    }
}

/// The server takes 8 connections, three of them reserved; of 16 clients at once, it turns none away.
#[test]
fn more_clients_than_the_server_takes_wait_for_their_turn() {
    let (databases, folder) = Database::start_each(["first", "second"], &["max_connections=8"]);
    let weir = start(&databases, &[("max_requests = 97", "max_requests = 5")]);
    let at = weir.address("postgresql");
    let said: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| ask(at, folder.path(), "SELECT pg_sleep(0.2), 'served'").text()))
            .collect();
        clients.into_iter().map(|client| client.join().expect("psql ends")).collect()
    });
    assert!(said.iter().all(|said| said == "|served\n"), "{said:?}");
    let mut benchmark = client("pgbench", at, folder.path());
    benchmark.args(["--initialize", "--quiet", "--scale=1"]);
    output_of(benchmark);
    let mut benchmark = client("pgbench", at, folder.path());
    benchmark.args(["--client=5", "--jobs=2", "--transactions=40"]);
    let said = output_of(benchmark);
    assert!(said.contains("number of transactions actually processed: 200/200"), "{said}");
}

#[test]
fn a_query_that_is_silent_for_longer_than_the_limit_is_ended() {
    let (databases, folder) = Database::start_each(["first", "second"], &[]);
    let weir = start(&databases, &[("tunnel = \"12h\"", "tunnel = \"500ms\"")]);
    let said = ask(weir.address("postgresql"), folder.path(), "SELECT pg_sleep(3600)");
    assert!(said.text().contains("server closed the connection"), "{}", said.text());
    let lines = weir.access_log(1);
    assert!(lines[0].starts_with("primary ") && lines[0].ends_with("-idle-timeout"), "{lines:?}");
}

/// What Patroni's REST API says of the role of each server; `primary` is the index of the one.
fn patroni(addresses: &[SocketAddr], port: u16, primary: &Arc<AtomicUsize>) -> Vec<Origin> {
    let of_server = |(index, address): (usize, &SocketAddr)| {
        let listener =
            TcpListener::bind(SocketAddr::new(address.ip(), port)).expect("the port is free there, too");
        let primary = Arc::clone(primary);
        Origin::listen(listener, move |conn| {
            loop {
                let request = conn.request()?;
                assert_eq!(request.method(), "OPTIONS");
                let is_primary = primary.load(Ordering::SeqCst) == index;
                let is_right = (request.target() == "/primary") == is_primary;
                conn.send(status(if is_right { 200 } else { 503 }))?;
            }
        })
    };
    addresses.iter().enumerate().map(of_server).collect()
}

#[test]
fn with_patroni_clients_follow_the_primary() {
    let (databases, folder) = Database::start_each(["first", "second"], &[]);
    let addresses: Vec<SocketAddr> = databases.iter().map(|database| database.address).collect();
    let (primary, port) = (Arc::new(AtomicUsize::new(0)), free_address().port());
    let _apis = patroni(&addresses, port, &primary);
    let servers = format!("\"{}\", \"{}\"", addresses[0], addresses[1]);
    let text = config(
        "postgresql/patroni.toml",
        &[
            (":5432\"\nprotocol", "127.0.0.1:0\"\nprotocol"),
            (":5433\"\nprotocol", "127.0.0.1:0\"\nprotocol"),
            ("\"10.0.0.1:5432\", \"10.0.0.2:5432\", \"10.0.0.3:5432\"", &servers),
            ("port = 8008", &format!("port = {port}")),
        ],
    );
    let weir = Weir::start(&text);
    let cluster = |listener: &str| ask(weir.address(listener), folder.path(), "SHOW cluster_name").text();
    let down = || weir.metrics().all("weir_server_up", &[]).iter().filter(|up| **up == 0.0).count();
    eventually("each server is down for one of the two", || down() == 2);
    assert_eq!([cluster("primary"), cluster("standbys")], ["first\n", "second\n"]);
    primary.store(1, Ordering::SeqCst);
    eventually("clients follow", || [cluster("primary"), cluster("standbys")] == ["second\n", "first\n"]);
}
