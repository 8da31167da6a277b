//! Real PHP behind Weir: what a script sees, what it sends, and that it sees the same behind nginx.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::harness::php::{Background, Php};
use crate::harness::{Client, ReservedAddress, Weir, config_with, eventually, temporary_folder};

/// Scripts in the folder `site`.
fn site() -> TempDir {
    let folder = temporary_folder();
    let site = folder.path().join("site");
    fs::create_dir_all(site.join("upload")).expect("the folder takes a folder");
    for (name, text) in [
        (
            "server.php",
            "<?php ksort($_SERVER); foreach ($_SERVER as $k => $v) if (is_string($v)) echo \"$k=$v\\n\";",
        ),
        (
            "body.php",
            "<?php $b = file_get_contents('php://input'); echo strlen($b), ' ', md5($b), ' ', $_SERVER['CONTENT_LENGTH'];",
        ),
        (
            "form.php",
            "<?php echo $_POST['a'], ' ', $_FILES['f']['size'], ' ', md5_file($_FILES['f']['tmp_name']);",
        ),
        ("index.php", "<?php echo 'front ', $_SERVER['REQUEST_URI'], ' ', $_GET['q'] ?? '';"),
        (
            "fail.php",
            "<?php header('X-Before: 1'); error_log('about to fail'); throw new Exception('on purpose');",
        ),
        ("long.php", "<?php for ($i = 0; $i < 2000; $i++) { echo str_repeat(chr(65 + $i % 26), 5000); }"),
        ("redirect.php", "<?php header('Location: /elsewhere'); setcookie('a', '1'); setcookie('b', '2');"),
        ("early.php", "<?php echo 'part'; fastcgi_finish_request(); echo 'never';"),
        ("exit.php", "<?php echo 'bye'; exit(3);"),
        ("upload/image.jpg", "<?php echo 'EVIL';"),
    ] {
        fs::write(site.join(name), text).expect("the folder takes files");
    }
    folder
}

const ROUTE: &str = "upstream.app.protocol = \"fastcgi\"\nadmin.socket = \"unix:{dir}/weir.sock\"\n\
                     listener.web.limits.body_size = \"64MiB\"\n\
                     listener.web.route = [{ path = \"/\", upstream = \"app\", files = { root = \"site\", try_files = [\"{path}\", \"/index.php\"] } }]\n";

fn start(folder: TempDir, php: &Php, settings: &str) -> Weir {
    Weir::start_in(folder, &config_with(std::slice::from_ref(&php.entry), &format!("{ROUTE}{settings}")))
}

#[test]
fn scripts_get_what_they_need() {
    let folder = site();
    let php = Php::start(folder.path(), 2);
    let weir = start(
        folder,
        &php,
        "upstream.app.health = { path = \"/ping\", body_contains = \"pong\", interval = \"50ms\" }",
    );
    let get = |target: &str| Client::get(weir.web(), target);
    assert_eq!(get("/a/pretty/link?q=x%20y").text(), "front /a/pretty/link?q=x%20y x y");
    assert_eq!(get("/upload/image.jpg").text(), "<?php echo 'EVIL';", "a file that is sent as it is");
    assert!(get("/upload/image.jpg/x.php").text().starts_with("front "), "it is not run");
    assert!(get("/server.php/some/info").text().contains("\nPATH_INFO=/some/info\n"));
    let response = get("/redirect.php");
    assert_eq!((response.status, response.field("location")), (302, Some("/elsewhere")));
    assert_eq!(response.fields().all("set-cookie").len(), 2);
    assert_eq!((get("/early.php").text(), get("/exit.php").text()), ("part".to_owned(), "bye".to_owned()));
    let long = get("/long.php");
    assert_eq!((long.body.bytes.len(), long.body.bytes[9_999_999]), (10_000_000, 65 + (1999 % 26) as u8));
    let response = get("/fail.php");
    assert_eq!((response.status, response.field("x-before")), (500, Some("1")));
    weir.line(&["FastCGI", "about to fail"]);
    weir.line(&["FastCGI", "on purpose", "request_id"]);
    eventually("probes pass", || {
        weir.metrics().all("weir_server_up", &["upstream=\"app\""]).iter().sum::<f64>() == 1.0
    });
}

#[test]
fn bodies_and_uploads_reach_scripts() {
    let folder = site();
    let php = Php::start_tcp(folder.path(), 2);
    let weir = start(folder, &php, "upstream.app.pool.idle_max = 1\nupstream.app.max_requests = 2");
    for len in [0, 1, 20_000, 3 << 20, 20 << 20] {
        let mut client = Client::connect(weir.web());
        client.send(format!(
            "POST /body.php HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/octet-stream\r\nContent-Length: {len}\r\n\r\n"
        ));
        client.send(vec![b'x'; len]);
        let text = client.response().text();
        assert!(text.starts_with(&format!("{len} ")) && text.ends_with(&format!(" {len}")), "{text}");
    }
    let file = "y".repeat(300_000);
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--b\r\n\
         Content-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\n\r\n{file}\r\n--b--\r\n"
    );
    let mut client = Client::connect(weir.web());
    client.send("POST /form.php HTTP/1.1\r\nHost: a.test\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()));
    assert!(client.response().text().starts_with("value 300000 "));
}

/// nginx in front of the same site, as Debian configures it for PHP.
fn nginx(folder: &Path, php: &Php) -> (Background, std::net::SocketAddr) {
    let reserved = ReservedAddress::new();
    let address = reserved.address();
    drop(reserved);
    let pass = php.entry.trim_matches('"');
    let path = folder.to_str().expect("temporary paths are UTF-8");
    let text = format!(
        "daemon off;\nmaster_process off;\npid {path}/nginx.pid;\nerror_log {path}/nginx.log;\nuser root;\nevents {{}}\n\
         http {{ access_log off; client_body_temp_path {path}/body; fastcgi_temp_path {path}/fcgi; proxy_temp_path {path}/p;\n\
         uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;\n\
         server {{ listen {address}; server_name a.test; root {path}/site; index index.php;\n\
         location / {{ try_files $uri $uri/ /index.php?$args; }}\n\
         location ~ [^/]\\.php(/|$) {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; try_files $fastcgi_script_name =404;\n\
         include /etc/nginx/fastcgi.conf; fastcgi_pass {pass}; }} }} }}\n"
    );
    fs::write(folder.join("nginx.conf"), text).expect("the folder takes a file");
    let mut command = Command::new("nginx");
    command.arg("-c").arg(folder.join("nginx.conf")).arg("-p").arg(folder);
    let program =
        Background::start(&mut command, &folder.join("nginx.out"), || TcpStream::connect(address).is_ok());
    (program, address)
}

/// What `$_SERVER` has; values that differ by their nature are left out.
fn seen(address: std::net::SocketAddr, request: &str) -> BTreeMap<String, String> {
    let text = Client::exchange(address, request).text();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let own = ["REMOTE_PORT", "SERVER_PORT", "REQUEST_TIME", "REQUEST_TIME_FLOAT"];
    pairs
        .filter(|(name, _)| !own.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn scripts_see_the_same_as_behind_nginx() {
    let folder = site();
    let php = Php::start(folder.path(), 2);
    let (_nginx, theirs) = nginx(folder.path(), &php);
    let weir = start(folder, &php, "");
    for (request, expected) in [
        (
            "GET /server.php?a=1&b=%2F HTTP/1.1\r\nHost: a.test\r\nUser-Agent: x\r\nAccept: */*\r\nX-Own: a\r\nCookie: a=b\r\n\r\n",
            &[
                "HTTP_X_REQUEST_ID",
                // Of nginx, whether or not the password was verified.
                "REMOTE_USER",
                "SERVER_SOFTWARE",
            ][..],
        ),
        (
            "POST /server.php HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\
             Authorization: Basic dTpw\r\nProxy: evil\r\nX_Under: 1\r\n\r\na=b",
            &[
                "HTTP_CONTENT_LENGTH",
                "HTTP_CONTENT_TYPE",
                "HTTP_X_REQUEST_ID",
                // Of nginx, whether or not the password was verified.
                "REMOTE_USER",
                "SERVER_SOFTWARE",
            ],
        ),
    ] {
        let (ours, theirs) = (seen(weir.web(), request), seen(theirs, request));
        assert!(ours.len() > 20, "{ours:?}");
        let names = ours.keys().chain(theirs.keys()).collect::<std::collections::BTreeSet<_>>();
        let differing: Vec<&str> = names
            .into_iter()
            .filter(|name| ours.get(*name) != theirs.get(*name))
            .map(String::as_str)
            .collect();
        assert_eq!(differing, expected, "{ours:#?} and nginx {theirs:#?}");
    }
}
