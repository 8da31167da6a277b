//! Servers that a control plane names by xDS: the server of go-control-plane, which `cargo xtask xds` builds; without it these tests report
//! that they were left out.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};

use super::source_panics::{strike, was_begun_anew};
use crate::harness::foreign_program::{ForeignProgram, foreign_command, free_address};
use crate::harness::tls::ECDSA;
use crate::harness::{CertificateAuthority, Client, Origin, Weir, eventually, temporary_folder};

const PROGRAM: &str = "xds-control-plane";

/// The task of Weir that has the stream.
const STREAM: &str = "the stream of a control plane";

/// A control plane that runs.
struct ControlPlane {
    admin: SocketAddr,
    _program: ForeignProgram,
}

/// The addresses of a control plane that may not be there yet; `None`: there is no program.
fn addresses() -> Option<[SocketAddr; 2]> {
    let found = Command::new(PROGRAM).arg("-version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("left out: there is no `{PROGRAM}` (cargo xtask xds builds it where there is Go)");
    }
    found.then(|| [free_address(), free_address()])
}

impl ControlPlane {
    fn start(addresses: [SocketAddr; 2]) -> Self {
        Self::start_with(addresses, &[])
    }

    fn start_with([xds, admin]: [SocketAddr; 2], arguments: &[String]) -> Self {
        let mut command = foreign_command(PROGRAM);
        command.args(arguments).args(["-listen", &xds.to_string(), "-admin", &admin.to_string()]);
        let program = ForeignProgram::start(command, temporary_folder(), |_| {
            std::net::TcpStream::connect(xds).is_ok() && std::net::TcpStream::connect(admin).is_ok()
        });
        Self { admin, _program: program }
    }

    /// Puts in a cluster of EDS and its endpoints, each with a priority.
    fn put(&self, version: &str, endpoints: &[(&Origin, u32)]) {
        let locality = |(origin, priority): &(&Origin, u32)| {
            let address = json!({ "address": "127.0.0.1", "port_value": origin.address().port() });
            json!({
                "priority": priority,
                "locality": { "zone": "eu-1a" },
                "lb_endpoints": [{ "endpoint": { "address": { "socket_address": address } } }],
            })
        };
        let localities: Vec<Value> = endpoints.iter().map(locality).collect();
        let cluster = json!({
            "name": "app",
            "type": "EDS",
            "connect_timeout": "1s",
            "eds_cluster_config": { "service_name": "app-v1", "eds_config": { "ads": {} } },
        });
        let assignment = json!({ "cluster_name": "app-v1", "endpoints": localities });
        let body =
            json!({ "version": version, "clusters": [cluster], "endpoints": [assignment] }).to_string();
        let len = body.len();
        let request = format!("PUT /resources HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n{body}");
        let response = Client::exchange(self.admin, &request);
        assert_eq!(response.status, 200, "{}", response.text());
    }

    fn clients(&self) -> Value {
        serde_json::from_str(&Client::get(self.admin, "/clients").text()).expect("it is JSON")
    }
}

fn config(xds: SocketAddr, more: &str) -> String {
    format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
         discovery.xds = {{ url = \"http://{xds}\", node = \"weir-1\", zone = \"eu-1a\" }}\n{more}\
         [upstream.app]\nbalance = \"round-robin\"\ndiscovery = {{ cds = \"app\" }}\n"
    )
}

/// Who answers ten requests, each once.
fn answering(weir: &Weir) -> Vec<String> {
    let mut client = Client::connect(weir.web());
    let mut texts: Vec<String> = (0..10).map(|_| client.fetch("/").text()).collect();
    texts.sort();
    texts.dedup();
    texts
}

#[test]
fn a_control_plane_names_servers_goes_away_and_comes_back() {
    let Some(addresses) = addresses() else { return };
    let [one, two, three] = ["one", "two", "three"].map(Origin::serving);
    let control_plane = ControlPlane::start(addresses);
    control_plane.put("1", &[(&one, 0), (&two, 0), (&three, 1)]);
    let weir = Weir::start(&config(addresses[0], ""));
    assert_eq!(answering(&weir), ["one", "two"], "the third is a backup");
    control_plane.put("2", &[(&three, 1)]);
    eventually("the lowest priority that there is serves", || answering(&weir) == ["three"]);
    weir.line(&["the source of servers says what Weir does not follow", "`connect_timeout`"]);
    eventually("each response was acknowledged", || control_plane.clients()["acks"].as_u64() >= Some(3));
    let clients = control_plane.clients();
    assert_eq!(clients["nacks"], json!([]));
    assert_eq!(
        clients["node"],
        json!({ "id": "weir-1", "cluster": "weir", "zone": "eu-1a", "agent": "weir" })
    );
    assert_eq!((&clients["streams"], &clients["opened"]), (&json!(1), &json!(1)));

    drop(control_plane);
    eventually("the source is stale", || {
        weir.metrics().sum("weir_upstream_source_stale", &["upstream=\"app\""]) == 1.0
    });
    assert_eq!(answering(&weir), ["three"], "the last known servers serve");

    let control_plane = ControlPlane::start(addresses);
    control_plane.put("3", &[(&one, 0)]);
    eventually("other servers are there", || answering(&weir) == ["one"]);
    let versions = control_plane.clients()["initial_versions"].clone();
    let known = |kind: &str, name: &str| {
        !versions[format!("type.googleapis.com/envoy.config.{kind}")][name].is_null()
    };
    assert!(known("cluster.v3.Cluster", "app"), "{versions}");
    assert!(known("endpoint.v3.ClusterLoadAssignment", "app-v1"), "{versions}");
}

/// The second time proves that it went on after the first.
#[test]
fn a_stream_that_panics_is_opened_anew_and_the_servers_stay() {
    let Some(addresses) = addresses() else { return };
    let [one, two] = ["one", "two"].map(Origin::serving);
    let control_plane = ControlPlane::start(addresses);
    control_plane.put("1", &[(&one, 0)]);
    let weir = Weir::start_faulty(&config(addresses[0], ""));
    for (count, next) in [(1, &two), (2, &one)] {
        let before = answering(&weir);
        strike(&weir, weir.web(), STREAM, || control_plane.put(&format!("{count}-next"), &[(next, 0)]));
        was_begun_anew(&weir, STREAM, count);
        assert_eq!(answering(&weir).len(), 1);
        eventually("the other server is named", || answering(&weir) != before);
    }
    weir.line(&[
        "the source of servers has a problem; the last known servers stay in use",
        "ended by a defect of Weir",
    ]);
    weir.line(&["the control plane answers again"]);
    eventually("it is not stale", || weir.metrics().sum("weir_upstream_source_stale", &[]) == 0.0);
}

#[test]
fn a_bad_resource_is_refused_and_a_restart_needs_no_control_plane() {
    let Some(addresses) = addresses() else { return };
    let folder = temporary_folder();
    let state = folder.path().join("state.json");
    let text = config(addresses[0], &format!("discovery.state_file = \"{}\"\n", state.display()));
    let one = Origin::serving("one");
    let control_plane = ControlPlane::start(addresses);
    control_plane.put("1", &[(&one, 0)]);
    let weir = Weir::start(&text);
    assert_eq!(answering(&weir), ["one"]);
    let assignment = json!({ "cluster_name": "app-v1", "endpoints": [{ "lb_endpoints": [
        { "endpoint": { "address": { "pipe": { "path": "/run/app.sock" } } } },
    ] }] });
    let cluster = json!({ "name": "app", "type": "EDS", "eds_cluster_config": { "service_name": "app-v1", "eds_config": { "ads": {} } } });
    let body = json!({ "version": "2", "clusters": [cluster], "endpoints": [assignment] }).to_string();
    let len = body.len();
    Client::exchange(
        control_plane.admin,
        &format!("PUT /resources HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n{body}"),
    );
    eventually("it is refused", || {
        control_plane.clients()["nacks"].as_array().is_some_and(|nacks| !nacks.is_empty())
    });
    let refusal = control_plane.clients()["nacks"][0].to_string();
    assert!(refusal.contains("app-v1: an endpoint is a socket of this machine"), "{refusal}");
    assert_eq!(answering(&weir), ["one"]);
    eventually("the state is written", || state.exists());
    drop(weir);
    drop(control_plane);
    let weir = Weir::start(&text);
    assert_eq!(answering(&weir), ["one"]);
    assert_eq!(weir.metrics().sum("weir_upstream_source_stale", &["upstream=\"app\""]), 1.0);
}

#[test]
fn both_sides_have_certificates() {
    let Some(addresses) = addresses() else { return };
    let authority = CertificateAuthority::new();
    let folder = temporary_folder();
    authority.issue(folder.path(), "plane", &[&addresses[0].ip().to_string()], ECDSA);
    authority.issue(folder.path(), "weir", &["weir.test"], ECDSA);
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).expect("the folder takes a file");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let arguments =
        ["-certificate", &file("plane.pem"), "-key", &file("plane.key"), "-client-ca", &file("ca.pem")];
    let control_plane = ControlPlane::start_with(addresses, &arguments.map(str::to_owned));
    let one = Origin::serving("one");
    control_plane.put("1", &[(&one, 0)]);
    let with = |more: &str| {
        let ca = format!("http://{}\", ca = \"{}\"{more}", addresses[0], file("ca.pem"));
        config(addresses[0], "")
            .replace(&format!("http://{}\"", addresses[0]), &ca)
            .replace("http://", "https://")
    };
    let weir = Weir::start(&with(""));
    weir.line(&["the source of servers has a problem", "CertificateRequired"]);
    let presented = format!(", certificate = \"{}\", key = \"{}\"", file("weir.pem"), file("weir.key"));
    weir.reload(&with(&presented));
    eventually("it is let in", || answering_at_all(&weir) == ["one"]);
}

/// As [`answering`], also while there is no server.
fn answering_at_all(weir: &Weir) -> Vec<String> {
    let response = Client::get(weir.web(), "/");
    if response.status == 200 { vec![response.text()] } else { Vec::new() }
}
