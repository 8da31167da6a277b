//! The PROXY protocol with HAProxy and nginx on either side: headers are accepted in both directions.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use tempfile::TempDir;

use crate::harness::{Client, Origin, Weir, eventually, temporary_folder};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// A foreign proxy with its config in a folder of its own; dropping it kills the process.
struct Program {
    process: Child,
    folder: TempDir,
}

impl Program {
    /// Starts `name` on the config `text` and waits until it listens at `address`; in `text`, `{dir}` stands for its
    /// folder and `{address}` for the address.
    fn start(name: &str, arguments: &[&str], text: &str, address: SocketAddr) -> Program {
        let folder = temporary_folder();
        let path = folder.path().to_str().expect("temporary paths are UTF-8").to_owned();
        let filled = |text: &str| text.replace("{dir}", &path).replace("{address}", &address.to_string());
        std::fs::write(folder.path().join("config"), filled(text)).expect("the folder takes a file");
        let log = std::fs::File::create(folder.path().join("output")).expect("the folder takes a file");
        let process = Command::new(name)
            .args(arguments.iter().map(|argument| filled(argument)))
            .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the process may open one more file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {name} ({error}): cargo xtask setup"));
        let mut program = Program { process, folder };
        eventually(&format!("{name} listens"), || {
            let ended = program.process.try_wait().expect("a child can be asked");
            assert!(ended.is_none(), "{name} ended, {ended:?}:\n{}", program.output());
            TcpStream::connect(address).is_ok()
        });
        program
    }

    fn output(&self) -> String {
        let read = |file: &str| std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        read("output") + &read("error.log")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("output of the program:\n{}", self.output());
        }
    }
}

fn haproxy(text: &str, address: SocketAddr) -> Program {
    let defaults = "defaults\n mode http\n timeout connect 20s\n timeout client 20s\n timeout server 20s\n";
    Program::start("haproxy", &["-db", "-f", "{dir}/config"], &format!("{defaults}{text}"), address)
}

fn nginx(text: &str, address: SocketAddr) -> Program {
    let text = format!(
        "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\ndaemon off;\nmaster_process off;\npid {{dir}}/pid;\n\
         error_log {{dir}}/error.log;\nevents {{}}\n{text}"
    );
    assert!(
        Path::new("/usr/lib/nginx/modules/ngx_stream_module.so").exists(),
        "nginx lacks its stream module: cargo xtask setup"
    );
    Program::start("nginx", &["-p", "{dir}", "-c", "{dir}/config", "-e", "{dir}/error.log"], &text, address)
}

/// A free port for a program that cannot choose one itself, on a loopback address that nothing but this test uses.
fn free_address() -> SocketAddr {
    static USED: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, USED.fetch_add(1, Ordering::Relaxed), high, low.clamp(1, 254));
    let listener = TcpListener::bind(SocketAddr::new(IpAddr::V4(ip), 0)).expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address")
}

/// Two requests on one connection from 127.0.0.3, to a proxy in front of Weir; returns the fields that the server behind Weir received.
fn forwarded_through(front: SocketAddr, origin: &Origin, port: &str) {
    let mut client = Client::connect_from("127.0.0.3", front);
    for _ in 0..2 {
        client.send(GET);
        assert_eq!(client.response().status, 200);
        let request = origin.last_request();
        assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.3"));
        assert_eq!(request.field("x-forwarded-port"), Some(port));
    }
}

fn accepting(origin: &Origin) -> Weir {
    Weir::proxying_with(
        origin,
        "admin.address = \"127.0.0.1:0\"\nlistener.web.proxy_protocol.from = [\"127.0.0.0/8\"]",
    )
}

#[test]
fn what_haproxy_sends_is_understood() {
    let origin = Origin::serving("seen");
    let weir = accepting(&origin);
    for options in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c,authority,unique-id,ssl,cert-cn",
        // Checks of its own come with LOCAL, and with an address of its own.
        "send-proxy-v2 check inter 100ms",
        "send-proxy check inter 100ms",
    ] {
        let address = free_address();
        let text = format!(
            "listen web\n bind {{address}}\n unique-id-format %[uuid]\n server weir {} {options}\n",
            weir.web()
        );
        let _haproxy = haproxy(&text, address);
        forwarded_through(address, &origin, &address.port().to_string());
    }
    let failures = weir.metrics().all("weir_listener_failures_total", &["listener=\"web\""]);
    assert_eq!(failures.iter().sum::<f64>(), 0.0, "{}", weir.stderr());
}

#[test]
fn what_nginx_sends_is_understood() {
    let origin = Origin::serving("seen");
    let weir = accepting(&origin);
    let address = free_address();
    let text = format!(
        "stream {{ server {{ listen {{address}}; proxy_pass {}; proxy_protocol on; }} }}\n",
        weir.web()
    );
    let _nginx = nginx(&text, address);
    forwarded_through(address, &origin, &address.port().to_string());
}

/// Sends requests of two clients through Weir to `server`, which answers with what it knows of the client.
fn assert_client_address(server: SocketAddr, version: &str, settings: &str) {
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{server}\"]\n\
         upstream.app.proxy_protocol = \"{version}\"\nadmin.address = \"127.0.0.1:0\"\n{settings}"
    ));
    for from in ["127.0.0.3", "127.0.0.4"] {
        let mut client = Client::connect_from(from, weir.web());
        let expected = format!("{from}:{} 127.0.0.1:{}", client.local_port(), weir.web().port());
        for _ in 0..2 {
            client.send(GET);
            let response = client.response();
            assert_eq!((response.status, response.text().trim()), (200, expected.as_str()));
        }
    }
    let opened = weir.metrics().sum("weir_server_connects_total", &[]);
    assert_eq!(opened, 2.0, "one connection for each client");
    if !settings.is_empty() {
        eventually("a probe passed", || {
            weir.metrics().sum("weir_server_probes_total", &["result=\"passed\""]) >= 2.0
        });
    }
}

const PROBED: &str = "upstream.app.health = { path = \"/\", interval = \"50ms\", timeout = \"15s\" }\n";

#[test]
fn haproxy_takes_what_it_is_sent() {
    let address = free_address();
    let text = "frontend web\n bind {address} accept-proxy\n http-request return status 200 content-type text/plain \
                lf-string \"%[src]:%[src_port] %[dst]:%[dst_port]\"\n";
    let _haproxy = haproxy(text, address);
    assert_client_address(address, "v1", PROBED);
    assert_client_address(address, "v2", PROBED);
}

#[test]
fn nginx_takes_what_it_is_sent() {
    let address = free_address();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {{dir}}/{kind};\n"));
    let text = format!(
        "http {{ access_log off; {} server {{ listen {{address}} proxy_protocol; location / {{ return 200 \
         \"$proxy_protocol_addr:$proxy_protocol_port $proxy_protocol_server_addr:$proxy_protocol_server_port\"; }} }} }}\n",
        temporary.concat()
    );
    let _nginx = nginx(&text, address);
    assert_client_address(address, "v1", PROBED);
    assert_client_address(address, "v2", PROBED);
}
