//! `weir import --shadow`: Weir beside the old balancer. That one answers the clients; where the imported config answers otherwise, the
//! difference is told with the line that it comes from.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use crate::harness::foreign_program::{ForeignProgram, free_address, nginx_folders};
use crate::harness::origin::ok;
use crate::harness::{
    CertificateAuthority, Client, CommandResult, Origin, ReservedAddress, Weir, eventually, run,
    temporary_folder,
};

const NGINX: &str = "\
events {}
http {
  server {
    listen {address};
    location / {
      proxy_pass http://{app};
    }
    location /images/ {
      proxy_pass http://{app};
      add_header X-Kind images;
    }
    location = /gone {
      return 410;
    }
  }
}
";

fn nginx(address: SocketAddr, app: &Origin) -> String {
    NGINX.replace("{address}", &address.to_string()).replace("{app}", &app.address().to_string())
}

/// A file in a folder, and where it is.
fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the test owns the folder");
    path.to_str().expect("temporary paths are UTF-8").to_owned()
}

/// Runs `weir import FILE --shadow` on a text.
fn import(folder: &Path, name: &str, text: &str, more: &[&str]) -> CommandResult {
    let file = written(folder, name, text);
    let output = folder.join("shadow.toml");
    let output = output.to_str().expect("temporary paths are UTF-8");
    let sockets = folder.to_str().expect("temporary paths are UTF-8");
    let all = ["--shadow-sockets", sockets, "--shadow-share", "100", "--output", output];
    run(&[&["import", &file], &all[..], more].concat())
}

/// A Weir beside the balancer at `old`.
fn start(text: &str, old: &str, listen: SocketAddr) -> Weir {
    let folder = temporary_folder();
    let done =
        import(folder.path(), "nginx.conf", text, &["--shadow", old, "--shadow-listen", &listen.to_string()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let config = std::fs::read_to_string(folder.path().join("shadow.toml")).expect("it was just written");
    let path = folder.path().join("shadow.toml").to_str().expect("temporary paths are UTF-8").to_owned();
    Weir::start_with(folder, &["serve", &path], &config)
}

/// What `weir ctl mirrors` says of the only mirror.
fn mirror(weir: &Weir) -> Value {
    let config = weir.folder().join("shadow.toml");
    let done =
        run(&["ctl", "mirrors", "--json", "--config", config.to_str().expect("temporary paths are UTF-8")]);
    let mirrors: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
    mirrors[0].clone()
}

/// The mirror once so many answers were compared.
fn compared(weir: &Weir, count: u64) -> Value {
    let mut last = Value::Null;
    eventually(&format!("{count} answers are compared"), || {
        last = mirror(weir);
        last["compared"] == count
    });
    last
}

/// The old balancer: a Weir on a file of nginx.
fn old(text: &str) -> Weir {
    let folder = temporary_folder();
    let path = written(folder.path(), "nginx.conf", text);
    Weir::start_with(folder, &["serve", &path], text)
}

fn get(address: SocketAddr, target: &str) -> (u16, String) {
    let response = Client::get(address, target);
    (response.status, response.text())
}

#[test]
fn without_a_fault_nothing_differs_and_with_one_its_line_is_named() {
    let app = Origin::serving("real");
    let (place, front) = (ReservedAddress::new(), ReservedAddress::new());
    let text = nginx(place.address(), &app);
    let old = old(&text);
    let url = format!("http://{}", place.address());

    let weir = start(&text, &url, front.address());
    assert_eq!(get(front.address(), "/a?x=1"), (200, "real".to_owned()));
    assert_eq!(get(front.address(), "/images/b").0, 200);
    assert_eq!(get(front.address(), "/gone").0, 410);
    assert_eq!(compared(&weir, 3)["differences"], serde_json::json!([0, 0, 0]), "{:#}", mirror(&weir));
    assert_eq!(mirror(&weir)["failures"], 0);
    let requests = app.wait_for_requests(4);
    let is_copy = |request: &&crate::harness::origin::Request| request.field("x-weir-mirror") == Some("1");
    let copies: Vec<_> = requests.iter().filter(is_copy).collect();
    assert_eq!(copies.len(), 2, "servers know copies");
    assert!(requests.iter().all(|request| request.field("x-weir-shadow") == Some("1")), "it came in once");
    for copy in copies {
        assert_eq!(copy.field("x-forwarded-for"), Some("127.0.0.1"), "the client is that of the request");
    }
    drop(weir);

    // One field has another value, and one path another status.
    let faulty = text.replace("X-Kind images", "X-Kind pictures").replace("return 410", "return 404");
    let weir = start(&faulty, &url, front.address());
    assert_eq!(get(front.address(), "/a").0, 200);
    assert_eq!(
        Client::get(front.address(), "/images/b").field("x-kind"),
        Some("images"),
        "clients get the old answer"
    );
    assert_eq!(get(front.address(), "/gone").0, 410);
    let found = compared(&weir, 3);
    assert_eq!((&found["differences"][0], &found["differences"][1]), (&1.into(), &1.into()), "{found:#}");
    let by_line = |line: &str| {
        let routes = found["routes"].as_array().expect("routes have differed").iter();
        routes.filter(|route| route["route"] == format!("http nginx.conf-{line}")).count()
    };
    assert_eq!((by_line("8"), by_line("12")), (1, 1), "{found:#}");
    let shown =
        run(&["ctl", "mirrors", "--config", weir.folder().join("shadow.toml").to_str().unwrap()]).stdout;
    assert!(
        shown.contains("GET /images/b") && shown.contains("by http nginx.conf-8: headers x-kind"),
        "{shown}"
    );
    drop(old);
}

#[test]
fn what_may_change_something_is_answered_once() {
    let app = Origin::serving("done");
    let (place, front) = (ReservedAddress::new(), ReservedAddress::new());
    let text = nginx(place.address(), &app);
    let _old = old(&text);
    let weir = start(&text, &format!("http://{}", place.address()), front.address());
    let post = "POST /order HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc";
    assert_eq!(Client::exchange(front.address(), post).text(), "done");
    assert_eq!(get(front.address(), "/list").0, 200);
    compared(&weir, 1);
    let mut targets = app.targets();
    targets.sort();
    assert_eq!(targets, ["/list", "/list", "/order"]);
    // A request that comes back again and again ends.
    let hops = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Weir-Shadow: {}\r\n\r\n", "1".repeat(8));
    assert_eq!(Client::exchange(front.address(), &hops).status, 508);
}

#[test]
fn nginx_itself_is_compared_over_tls_and_with_compressed_bodies() {
    let sent = "the same text, again and again. ".repeat(64);
    let app = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(ok(&sent).replacen("\r\n", "\r\nContent-Type: text/plain\r\n", 1))?;
        }
    });
    let authority = CertificateAuthority::new();
    let certificates = authority.folder_for_web();
    let (old, front) = (free_address(), ReservedAddress::new());
    let path = certificates.path().to_str().expect("temporary paths are UTF-8");
    let http = format!(
        "http {{\n  gzip on;\n  gzip_types text/plain;\n  gzip_proxied any;\n  server {{\n    listen {old} ssl;\n    server_name a.test;\n    \
         ssl_certificate {path}/a.pem;\n    ssl_certificate_key {path}/a.key;\n    location / {{\n      proxy_http_version 1.1;\n      proxy_pass http://{};\n    }}\n  }}\n}}\n",
        app.address()
    );
    let nginx =
        ForeignProgram::nginx("", &http.replacen("http {", &format!("http {{\n{}", nginx_folders()), 1), old);
    let weir = start(&format!("events {{}}\n{http}"), &format!("https://{old}"), front.address());
    for number in 1..=3 {
        let mut client = authority.connect(front.address());
        client.send("GET /page HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status, response.field("content-encoding")), (200, Some("gzip")));
        let found = compared(&weir, number);
        assert_eq!(found["differences"], serde_json::json!([0, 0, 0]), "{found:#}");
    }
    drop(nginx);
}

#[test]
fn what_cannot_be_compared_is_told() {
    let folder = temporary_folder();
    let app = Origin::serving("x");
    let text = nginx("127.0.0.1:8080".parse().expect("it is an address"), &app);
    let loop_of_itself = import(folder.path(), "nginx.conf", &text, &["--shadow", "http://localhost:8080"]);
    assert_eq!(loop_of_itself.code, Some(2), "{loop_of_itself:?}");
    for part in ["a loop", "127.0.0.1:8080", "--shadow-listen"] {
        assert!(loop_of_itself.stderr.contains(part), "{loop_of_itself:?}");
    }
    let other_kind = import(folder.path(), "nginx.conf", &text, &["--shadow", "https://10.0.0.1"]);
    assert!(
        other_kind.code == Some(2) && other_kind.stderr.contains("no `--shadow http://"),
        "{other_kind:?}"
    );
    let stray = import(folder.path(), "nginx.conf", &text, &["--shadow", "10.0.0.1:80"]);
    assert!(stray.code == Some(2) && stray.stderr.contains("begins with `http://`"), "{stray:?}");

    let more = "listen stream\n  mode tcp\n  bind :9000\n  server a 10.0.0.1:9000\n";
    let haproxy = format!(
        "frontend web\n  mode http\n  bind :8000\n  default_backend app\nbackend app\n  mode http\n  server a 10.0.0.1:80\n{more}"
    );
    let partly = import(
        folder.path(),
        "haproxy.cfg",
        &haproxy,
        &["--shadow", "http://10.0.0.2", "--json", "--accept-loss"],
    );
    let json: Value = serde_json::from_str(&partly.stdout).unwrap_or_else(|_| panic!("{partly:?}"));
    assert_eq!(json["shadow"]["listeners"][0]["old"], "10.0.0.2:8000", "{json:#}");
    assert_eq!(json["shadow"]["left_out"][0]["listener"], "stream", "{json:#}");
    let strict = import(folder.path(), "haproxy.cfg", &haproxy, &["--shadow", "http://10.0.0.2", "--json"]);
    assert_eq!(strict.code, Some(3), "{strict:?}");
}
