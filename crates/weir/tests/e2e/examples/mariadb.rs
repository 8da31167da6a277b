//! `examples/mariadb`: two servers of MariaDB behind Weir, with its own client.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;

use super::{config, copy_to_others};
use crate::harness::foreign_program::{
    foreign_command, free_address, give_to_unprivileged, output_of, unprivileged_command, unprivileged_folder,
};
use crate::harness::tls::ECDSA;
use crate::harness::{CertificateAuthority, CommandResult, ForeignProgram, Weir, eventually};

/// Accounts as the comment of the config has them, and one of an application.
const ACCOUNTS: &str = "CREATE USER weir@'%';
CREATE USER app@'%' IDENTIFIED BY 'correct horse';
GRANT PROCESS ON *.* TO app@'%';
GRANT SELECT ON performance_schema.* TO app@'%';
";

struct Database {
    address: SocketAddr,
    process: ForeignProgram,
}

impl Database {
    /// One for each name, which is what the server reports as its host.
    fn start_each<const N: usize>(names: [&str; N]) -> [Database; N] {
        let folders = names.map(|_| unprivileged_folder());
        let first = folders[0].path().join("data");
        let mut install = unprivileged_command("mariadb-install-db");
        install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
        install.arg(format!("--datadir={}", first.display())).current_dir(folders[0].path());
        // A server that starts removes the temporary tables of all others in the same folder.
        install.env("TMPDIR", folders[0].path());
        output_of(install);
        copy_to_others(&first, &folders);
        let mut names = names.into_iter();
        folders.map(|folder| Database::start(folder, names.next().expect("one for each folder")))
    }

    fn start(folder: TempDir, name: &str) -> Database {
        let address = free_address();
        let at = |file: &str| folder.path().join(file).display().to_string();
        CertificateAuthority::new().issue(folder.path(), "server", &["db.example.com"], ECDSA);
        std::fs::write(at("accounts.sql"), ACCOUNTS).expect("the folder takes a file");
        for file in ["server.pem", "server.key", "accounts.sql"] {
            give_to_unprivileged(Path::new(&at(file)));
        }
        let mut command = unprivileged_command("mariadbd");
        command.env("TMPDIR", folder.path());
        command.args(["--no-defaults", "--skip-name-resolve", "--max-connect-errors=3", "--log-warnings=9"]);
        command.args([
            format!("--datadir={}", at("data")),
            format!("--socket={}", at("sock")),
            format!("--pid-file={}", at("pid")),
            format!("--init-file={}", at("accounts.sql")),
            format!("--ssl-cert={}", at("server.pem")),
            format!("--ssl-key={}", at("server.key")),
            format!("--bind-address={}", address.ip()),
            format!("--port={}", address.port()),
            format!("--report-host={name}"),
            "--proxy-protocol-networks=127.0.0.1".to_owned(),
            "--innodb-flush-log-at-trx-commit=0".to_owned(),
            "--innodb-buffer-pool-size=16M".to_owned(),
        ]);
        let process = ForeignProgram::start(command, folder, |_| TcpStream::connect(address).is_ok());
        Database { address, process }
    }
}

fn ask(at: SocketAddr, query: &str) -> CommandResult {
    let mut command = foreign_command("mariadb");
    command.args(["--no-defaults", "--protocol=tcp", "--user=app", "--password=correct horse", "--ssl"]);
    command.args(["--batch", "--skip-column-names", "--connect-timeout=15"]);
    command.args([format!("--host={}", at.ip()), format!("--port={}", at.port())]);
    command.args(["--execute", query]);
    CommandResult::new(&mut command)
}

fn start(databases: &[Database], changes: &[(&str, &str)]) -> Weir {
    let servers: Vec<String> = databases.iter().map(|database| format!("\"{}\"", database.address)).collect();
    let own = [
        (":3306\"\nprotocol", "127.0.0.1:0\"\nprotocol"),
        ("\"10.0.0.1:3306\"", &*servers[0]),
        ("\"10.0.0.2:3306\"", &*servers[1]),
        (
            "protocol = \"tcp\"",
            "protocol = \"tcp\"\naccess_log = { format = \"{client_port}\", output = \"file:{dir}/access.log\" }",
        ),
    ];
    Weir::start(&config("mariadb/weir.toml", &[&own[..], changes].concat()))
}

#[test]
fn clients_come_to_the_replica_when_the_primary_hangs() {
    let databases = Database::start_each(["first", "second"]);
    let weir = start(&databases, &[]);
    let at = weir.address("mariadb");
    let query = "SELECT @@report_host; SHOW STATUS LIKE 'Ssl_version'";
    for _ in 0..3 {
        assert_eq!(ask(at, query).text(), "first\nSsl_version\tTLSv1.3\n");
    }
    let slow = std::thread::scope(|scope| {
        let slow = scope.spawn(|| ask(at, "SELECT SLEEP(3600)"));
        eventually("the query runs", || {
            let count =
                "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'SELECT SLEEP(3600)'";
            ask(at, count).stdout.trim() == "1"
        });
        databases[0].process.signal(Signal::STOP);
        slow.join().expect("the client ends")
    });
    // It would have waited for an hour; `on_down` has closed its connection.
    assert_ne!(slow.code, Some(0), "{}", slow.text());
    assert_eq!(ask(at, query).text(), "second\nSsl_version\tTLSv1.3\n");
    // More probes than `max_connect_errors` have come by now.
    let errors = "SELECT SUM_CONNECT_ERRORS FROM performance_schema.host_cache";
    assert_eq!(ask(at, errors).stdout.trim(), "", "no host has made an error");
    for database in &databases {
        let log = database.process.output();
        let complaint = log.lines().find(|line| line.contains("Aborted connection") && line.contains("weir"));
        assert_eq!(complaint, None, "probes leave no trace in the log");
    }
}

#[test]
fn with_the_proxy_protocol_the_server_knows_the_client() {
    let databases = Database::start_each(["first", "second"]);
    let weir = start(&databases, &[("# proxy_protocol = \"v2\"", "proxy_protocol = \"v2\"")]);
    let client = "SELECT host FROM information_schema.processlist WHERE id = CONNECTION_ID()";
    let said = ask(weir.address("mariadb"), client);
    assert_eq!(said.stdout.trim(), format!("127.0.0.1:{}", weir.access_log(1)[0]), "{}", said.text());
    eventually("probes pass", || {
        weir.metrics().sum("weir_server_probes_total", &["result=\"passed\""]) >= 4.0
    });
    assert!(weir.is_up("primary") && weir.is_up("replica"));
}
