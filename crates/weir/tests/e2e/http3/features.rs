//! Features that act on requests and responses, for clients of HTTP/3.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{HTTP3, start};
use crate::harness::fastcgi::{FastcgiRequest, response};
use crate::harness::http3::{Http3Client, frame};
use crate::harness::origin::ok;
use crate::harness::scripts::{echo, echo_gated, measuring};
use crate::harness::tls::WEB_TLS;
use crate::harness::{CLOSED_PORT, CertificateAuthority, Gate, Origin, Weir, config_with, eventually};

const LOG: &str = "access_log.output = \"file:{dir}/access.log\"\n";

/// Weir without an upstream of its own at the listener.
fn start_routes(servers: &[String], settings: &str) -> (CertificateAuthority, Weir) {
    let authority = CertificateAuthority::new();
    let text = config_with(servers, &format!("process.workers = 1\n{WEB_TLS}{HTTP3}{settings}"));
    let text = text.replace("listener.web.upstream = \"app\"\n", "");
    let weir = Weir::start_in(authority.folder_for_web(), &text);
    (authority, weir)
}

/// Answers with these fields and the number of the request as the body.
pub(super) fn counting(fields: &'static str, gate: &Gate) -> Origin {
    let (count, gate) = (AtomicUsize::new(0), gate.clone());
    Origin::start(move |conn| {
        loop {
            conn.request()?;
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            gate.wait("the test lets the request go on");
            conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 1\r\n\r\n{number}"))?;
        }
    })
}

pub(super) fn open_gate() -> Gate {
    let gate = Gate::new();
    gate.open();
    gate
}

#[test]
fn limits_are_by_client_and_by_key() {
    let origin = echo();
    let (authority, weir) = start(
        &origin,
        "listener.web.limited_by = [\"user\"]\n\
         limit.user = { rate = \"1/h\", key = \"{header.x-user}\" }\n",
    );
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut ask = |user: &str| {
        let response = client.get_with("/", &[("x-user", user)]);
        (response.status, response.field("retry-after").is_some())
    };
    assert_eq!([ask("ann"), ask("ann"), ask("bob")], [(200, false), (429, true), (200, false)]);
    let other = echo();
    let settings = "listener.web.limited_by = [\"client\"]\nlimit.client = { rate = \"1/h\" }\n";
    let (authority, weir) = start(&other, settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/").status, 200);
    // The same client by another version.
    let mut tcp = authority.connect(weir.web());
    tcp.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!((client.get("/").status, tcp.response().status), (429, 429));
}

#[test]
fn a_limit_of_requests_at_once_counts_streams() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let settings = "listener.web.limited_by = [\"two\"]\nlimit.two.concurrent = 2\n";
    let (authority, weir) = start(&origin, settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let held = [client.send("GET", "/held/1", b""), client.send("GET", "/held/2", b"")];
    // What waits makes progress with what is asked next.
    eventually("both are at the server", || {
        client.get("/third").status == 429 && origin.requests().len() == 2
    });
    gate.open();
    for held in held {
        assert_eq!(client.response(held).status, 200);
    }
    eventually("there is room again", || client.get("/again").status == 200);
}

#[test]
fn a_stored_response_is_given_again() {
    let origin = counting("Cache-Control: max-age=60\r\n", &open_gate());
    let settings = "cache.pages.memory = \"4MiB\"\ncache.pages.response_max = \"1MiB\"\n\
        listener.web.route = [{ path = \"/\", upstream = \"app\", cache = { name = \"pages\" } }]\n";
    let (authority, weir) = start(&origin, settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let [first, second] = [client.get("/"), client.get("/")];
    assert_eq!((first.text(), second.text()), ("1".to_owned(), "1".to_owned()));
    assert!(second.field("cache-status").is_some_and(|status| status.contains("hit")), "{second:?}");
    // Stored by one version, and found by another.
    let mut tcp = authority.connect(weir.web());
    tcp.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(tcp.response().text(), "1");
    let head = client.send("HEAD", "/", b"");
    assert_eq!(client.response(head).field("content-length"), Some("1"));
    let part = client.get_with("/", &[("range", "bytes=0-0")]);
    assert_eq!((part.status, part.text()), (206, "1".to_owned()));
}

#[test]
fn requests_for_the_same_are_one() {
    let gate = Gate::new();
    let origin = counting("Cache-Control: max-age=60\r\n", &gate);
    let settings = "cache.pages.memory = \"4MiB\"\ncache.pages.response_max = \"1MiB\"\n\
        listener.web.route = [{ path = \"/\", upstream = \"app\", cache = { name = \"pages\" } }]\n";
    let (authority, weir) = start(&origin, settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let pending: Vec<_> = (0..5).map(|_| client.send("GET", "/", b"")).collect();
    // All five are on their way before the first is answered.
    let mut last =
        client.open(&[(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")]);
    client.finish(&mut last);
    origin.wait_for_requests(1);
    gate.open();
    for pending in pending {
        assert_eq!(client.response(pending).text(), "1");
    }
    assert_eq!(client.rest(&mut last).body, b"1");
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn requests_are_copied_to_a_mirror() {
    let (origin, mirror) = (echo(), echo());
    let settings = format!(
        "upstream.new.servers = [{}]\n\
         listener.web.route = [{{ path = \"/\", upstream = \"app\", mirror = {{ upstream = \"new\", methods = [\"GET\", \"POST\"] }} }}]\n",
        mirror.entry()
    );
    let (authority, weir) = start(&origin, &settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/one").text(), "/one");
    assert_eq!(client.post("/two", &[], b"hello").text(), "/twohello");
    let copies = mirror.wait_for_requests(2);
    let posted = copies.iter().find(|copy| copy.target() == "/two").expect("it is copied");
    assert_eq!((posted.text(), posted.field("x-weir-mirror")), ("hello".to_owned(), Some("1")));
}

#[test]
fn a_request_that_failed_is_tried_elsewhere() {
    let origin = echo();
    let servers = [format!("\"{CLOSED_PORT}\""), origin.entry()];
    let (authority, weir) = start_routes(
        &servers,
        "listener.web.route = [{ path = \"/\", upstream = \"app\" }]\nupstream.app.retry.attempts_max = 2\n",
    );
    let mut client = Http3Client::connect(weir.web(), &authority);
    for number in 0..6 {
        let path = format!("/{number}");
        assert_eq!(client.get(&path).text(), path);
        assert_eq!(client.post(&path, &[], b"body").text(), format!("{path}body"), "nothing of it was sent");
    }
}

#[test]
fn servers_of_fastcgi_are_told_the_version() {
    let (told, requests) = std::sync::mpsc::channel();
    let origin = Origin::start(move |conn| {
        let request = FastcgiRequest::read(conn)?;
        let params = ["SERVER_PROTOCOL", "REQUEST_SCHEME", "HTTPS", "HTTP_HOST", "CONTENT_LENGTH"];
        let params = params.map(|name| request.param(name).map(str::to_owned));
        told.send((params, request.body)).ok()?;
        conn.send(response("Content-Type: text/plain\r\n\r\nhello"))
    });
    let (authority, weir) = start_routes(
        &[origin.entry()],
        "upstream.app.protocol = \"fastcgi\"\n\
         listener.web.route = [{ path = \"/\", upstream = \"app\", fastcgi = { root = \"/srv\", script = \"/index.php\", check_script = false } }]\n",
    );
    let mut client = Http3Client::connect(weir.web(), &authority);
    let response = client.post("/", &[("content-length", "3")], b"abc");
    assert_eq!((response.status, response.text()), (200, "hello".to_owned()));
    let (params, body) = requests.recv().expect("it came");
    let [protocol, scheme, https, host, length] = &params;
    assert_eq!(protocol.as_deref(), Some("HTTP/3.0"));
    assert_eq!((scheme.as_deref(), https.as_deref()), (Some("https"), Some("on")));
    assert_eq!((host.as_deref(), length.as_deref()), (Some("a.test"), Some("3")));
    assert_eq!(body, b"abc");
}

#[test]
fn files_are_served_with_ranges_and_conditions() {
    let authority = CertificateAuthority::new();
    let folder = authority.folder_for_web();
    std::fs::create_dir(folder.path().join("site")).expect("the folder takes another");
    let content: Vec<u8> = (0..200_000u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(folder.path().join("site/a.bin"), &content).expect("the folder takes a file");
    let text = config_with(
        &["'127.0.0.1:1'".to_owned()],
        &format!(
            "{WEB_TLS}{HTTP3}listener.web.route = [{{ path = \"/\", files = {{ root = \"site\" }} }}]\n"
        ),
    );
    let weir = Weir::start_in(folder, &text);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let whole = client.get("/a.bin");
    assert!(whole.body == content, "{} bytes", whole.body.len());
    let tag = whole.field("etag").expect("it has one").to_owned();
    let part = client.get_with("/a.bin", &[("range", "bytes=100-199")]);
    assert_eq!((part.status, &part.body[..]), (206, &content[100..200]));
    assert_eq!(part.field("content-range"), Some("bytes 100-199/200000"));
    let parts = client.get_with("/a.bin", &[("range", "bytes=0-0,5-6")]);
    assert!(
        parts.field("content-type").is_some_and(|it| it.starts_with("multipart/byteranges")),
        "{parts:?}"
    );
    assert_eq!(client.get_with("/a.bin", &[("range", "bytes=300000-")]).status, 416);
    let same = client.get_with("/a.bin", &[("if-none-match", &tag)]);
    assert_eq!((same.status, same.body.len()), (304, 0));
    let head = client.send("HEAD", "/a.bin", b"");
    let head = client.response(head);
    assert_eq!((head.field("content-length"), head.body.len()), (Some("200000"), 0));
    assert_eq!(client.get("/none").status, 404);
}

#[test]
fn responses_are_compressed() {
    let page: String = (0..2_000).map(|line| format!("<p>line {line}</p>\n")).collect();
    let sent = page.clone();
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{sent}",
                sent.len()
            ))?;
        }
    });
    let settings = "listener.web.route = [{ path = \"/\", upstream = \"app\", compression = { algorithms = [\"gzip\"] } }]\n";
    let (authority, weir) = start(&origin, settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let response = client.get_with("/", &[("accept-encoding", "gzip")]);
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert!(response.body.len() < page.len() / 2, "{} bytes", response.body.len());
    let mut out = vec![0; page.len() + 1];
    let mut inflate = zlib_rs::Inflate::new(true, 31);
    let status = inflate.decompress(&response.body, &mut out, zlib_rs::InflateFlush::Finish);
    assert_eq!((status, inflate.total_out()), (Ok(zlib_rs::Status::StreamEnd), page.len() as u64));
    assert_eq!(client.get("/").text(), page);
}

#[test]
fn another_server_decides_who_may_pass() {
    let judge = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let is_known = request.field("authorization") == Some("let-in");
            conn.send(match is_known {
                true => "HTTP/1.1 200 OK\r\nX-User: ann\r\nContent-Length: 0\r\n\r\n",
                false => "HTTP/1.1 401 No\r\nWWW-Authenticate: Own\r\nContent-Length: 6\r\n\r\nlog in",
            })?;
        }
    });
    let origin = Origin::serving("served");
    let settings = format!(
        "upstream.auth.servers = [{}]\n\
         listener.web.route = [{{ path = \"/\", upstream = \"app\", forward_auth = {{ upstream = \"auth\", path = \"/verify\", response_headers = [\"x-user\"] }} }}]\n",
        judge.entry()
    );
    let (authority, weir) = start(&origin, &settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let refused = client.get_with("/", &[("x-user", "root")]);
    assert_eq!((refused.status, refused.text()), (401, "log in".to_owned()));
    assert_eq!(refused.field("www-authenticate"), Some("Own"));
    let body = vec![b'x'; 100_000];
    let passed = client.post("/", &[("authorization", "let-in"), ("x-user", "root")], &body);
    assert_eq!((passed.status, passed.text()), (200, "served".to_owned()));
    let request = origin.last_request();
    assert_eq!((request.field("x-user"), request.body.bytes.len()), (Some("ann"), body.len()));
    assert_eq!(origin.requests().len(), 1);
}

/// Nothing goes to the server before the request is complete.
#[test]
fn requests_are_buffered() {
    let origin = measuring();
    let settings = "listener.web.route = [{ path = \"/\", upstream = \"app\", buffer_requests = { memory = \"16KiB\", file = \"1MiB\" } }]\n";
    let (authority, weir) = start(&origin, settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream =
        client.open(&[(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")]);
    for _ in 0..10 {
        client.send_data(&mut stream, &[b'x'; 30_000]);
        assert_eq!(client.post("/small", &[], b"abc").text(), "3");
    }
    assert!(origin.targets().iter().all(|target| target == "/small"), "{:?}", origin.targets());
    client.finish(&mut stream);
    assert_eq!(client.rest(&mut stream).body, b"300000");
    // What is larger goes on as it comes.
    assert_eq!(client.post("/large", &[], &vec![b'x'; 1_200_000]).text(), "1200000");
}

#[test]
fn responses_are_buffered() {
    let body: String = "abc".repeat(100_000);
    let sent = body.clone();
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for piece in sent.as_bytes().chunks(7_001) {
                conn.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
            }
            conn.send("0\r\n\r\n")?;
        }
    });
    let settings = "listener.web.route = [{ path = \"/\", upstream = \"app\", buffer_responses = { memory = \"16KiB\", file = \"1MiB\" } }]\n";
    let (authority, weir) = start(&origin, settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    for _ in 0..3 {
        assert!(client.get("/").text() == body);
    }
}

#[test]
fn pages_of_errors_are_ours() {
    let authority = CertificateAuthority::new();
    let folder = authority.folder_for_web();
    std::fs::write(folder.path().join("page.html"), "our own page").expect("the folder takes a file");
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\ntheir")?;
        }
    });
    let text = config_with(
        &[origin.entry()],
        &format!(
            "{WEB_TLS}{HTTP3}listener.web.error_pages = [{{ status = \"400-599\", html = \"page.html\", of_servers = true }}]\n\
             upstream.app.retry.attempts_max = 1\n"
        ),
    );
    let weir = Weir::start_in(folder, &text);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let response = client.get_with("/", &[("accept", "text/html")]);
    assert_eq!((response.status, response.text()), (503, "our own page".to_owned()));
    let head = client.send("HEAD", "/", b"");
    let head = client.response(head);
    assert_eq!((head.status, head.body.len()), (503, 0));
}

#[test]
fn the_access_log_knows_version_cipher_and_bytes() {
    let origin = Origin::serving("fine");
    let settings = format!(
        "access_log.format = '{{version}} {{scheme}} {{method}} {{target}} {{status}} {{tls.version}} {{tls.cipher_suite}} {{tls.server_name}} {{bytes_out}}'\n{LOG}"
    );
    let (authority, weir) = start(&origin, &settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/a?b").status, 200);
    let line = weir.access_log(1)[0].clone();
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(&words[..6], ["HTTP/3.0", "https", "GET", "/a?b", "200", "1.3"], "{line}");
    assert!(words[6].starts_with("TLS_"), "{line}");
    assert_eq!(words[7], "a.test");
    assert!(words[8].parse::<u64>().is_ok_and(|bytes| bytes >= 4), "{line}");
}

#[test]
fn servers_are_told_of_the_client() {
    let origin = echo();
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    client.get_with("/", &[("cookie", "a=b"), ("cookie", "c=d"), ("te", "trailers")]);
    let request = origin.last_request();
    for (name, value) in [
        ("host", "a.test"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("cookie", "a=b; c=d"),
    ] {
        assert_eq!(request.field(name), Some(value), "{name}");
    }
}

#[test]
fn why_explains_a_failure() {
    let authority = CertificateAuthority::new();
    let text = config_with(
        &[format!("\"{CLOSED_PORT}\"")],
        &format!("{WEB_TLS}{HTTP3}upstream.app.retry.attempts_max = 1\n"),
    );
    let weir = Weir::start_in(authority.folder_for_web(), &text);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let response = client.get_with("/broken", &[("accept", "application/json")]);
    let record: serde_json::Value = serde_json::from_str(&response.text()).expect("it is JSON");
    assert_eq!((response.status, &record["reason"]), (502, &"connect-refused".into()));
    let id = record["request_id"].as_str().expect("it has one").to_owned();
    let admin = weir.address("admin").to_string();
    eventually("it is known", || {
        let told = crate::harness::run(&["why", &id, "--admin", &admin]);
        let is_told = told.stdout.contains("GET /broken for a.test")
            && told.stdout.contains("on listener web over QUIC (HTTP/3)");
        assert!(told.code != Some(0) || is_told, "{}", told.stdout);
        is_told
    });
}

/// A client that breaks the protocol is told so, counted, and the only one that suffers.
#[test]
fn a_fault_of_a_client_has_a_reason() {
    let origin = echo();
    let (authority, weir) = start(&origin, "");
    let [mut bad, mut good] = [(), ()].map(|()| Http3Client::connect(weir.web(), &authority));
    let mut stream =
        bad.open(&[(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")]);
    // A frame of HTTP/2.
    let _ = bad.try_send_raw(&mut stream, &frame(6, b"12345678"));
    eventually("it is counted", || {
        good.get("/next").text() == "/next"
            && !weir.metrics().all("weir_listener_failures_total", &["reason=\"http3"]).is_empty()
    });
}

#[test]
fn early_hints_pass() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n")?;
        conn.send(ok("page"))
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream =
        client.open(&[(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")]);
    client.finish(&mut stream);
    let all = client.rest(&mut stream);
    assert_eq!((all.status(), &all.body[..]), (200, &b"page"[..]));
    assert_eq!(all.interim.first().and_then(|hints| hints.first("link")), Some("</a.css>"));
}
