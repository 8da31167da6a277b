//! Requests before the handshake is over (0-RTT), and the features that they meet.

use super::early::{EARLY, SilentWay, careful};
use super::features::{counting, open_gate};
use crate::harness::fastcgi::{FastcgiRequest, response};
use crate::harness::http2::server::Http2Server;
use crate::harness::http2::start_with_tls;
use crate::harness::http3::{Http3Client, KnownClient, PendingResponse};
use crate::harness::origin::{Origin, ok, status};
use crate::harness::scripts::echo;
use crate::harness::tls::WEB_TLS;
use crate::harness::{CertificateAuthority, Gate, Weir, config_with, eventually};

/// A client whose requests are early for as long as its gate is closed.
struct EarlyClient {
    client: Http3Client,
    gate: Gate,
}

impl EarlyClient {
    fn come(weir: &Weir, known: &KnownClient) -> Self {
        let gate = Gate::new();
        let way = SilentWay::to(weir.web(), &gate);
        let client = Http3Client::connect_early(way.address, known).expect("the session takes early data");
        Self { client, gate }
    }

    fn get(&mut self, path: &str, field: Option<(&str, &str)>) -> PendingResponse {
        let request = http::Request::builder().uri(format!("https://a.test{path}"));
        let request = field.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        self.client.send_with(request, b"")
    }

    /// Lets it have answers, and the handshake its end.
    fn open(&self) {
        self.gate.open();
    }
}

fn start(origin: &Origin, settings: &str) -> (CertificateAuthority, Weir, KnownClient) {
    let (authority, weir) = start_with_tls(origin, &format!("{EARLY}{settings}"));
    let known = Http3Client::get_known(weir.web(), &authority);
    (authority, weir, known)
}

const CACHED: &str = "cache.pages.memory = \"4MiB\"\ncache.pages.response_max = \"1MiB\"\n\
    listener.web.route = [{ path = \"/\", upstream = \"app\", cache = { name = \"pages\" } }]\n";

#[test]
fn a_stored_response_answers_an_early_request_and_an_early_request_fills() {
    let origin = counting("Cache-Control: max-age=60\r\n", &open_gate());
    let (authority, weir, known) = start(&origin, CACHED);
    let mut early = EarlyClient::come(&weir, &known);
    let stored = early.get("/first", None);
    early.client.progress_until("it is found in the cache", || {
        weir.metrics().sum("weir_cache_requests_total", &["result=\"hit\""]) == 1.0
    });
    let fills = early.get("/second", None);
    early
        .client
        .progress_until("the other is stored", || weir.metrics().sum("weir_cache_stored_total", &[]) == 2.0);
    assert_eq!(origin.last_request().field("early-data"), Some("1"));
    let mut tcp = authority.connect(weir.web());
    tcp.send("GET /second HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(tcp.response().text(), "2", "others have it before the handshake is over");
    early.open();
    assert_eq!(early.client.response(stored).text(), "1");
    assert_eq!(early.client.response(fills).text(), "2");
    assert_eq!(origin.requests().len(), 2);
}

/// Answers 425 to what is early, and may be stored otherwise.
fn careful_and_stored() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let target = request.target();
            conn.send(if request.field("early-data").is_some() {
                "HTTP/1.1 425 Too Early\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n".to_owned()
            } else {
                format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{target}",
                    target.len()
                )
            })?;
        }
    })
}

/// A client may leave its handshake open for as long as it likes.
#[test]
fn others_that_want_the_same_do_not_wait_for_a_handshake() {
    let origin = careful_and_stored();
    let (authority, weir, known) = start(&origin, &CACHED.replace("\"pages\"", "\"pages\", wait = \"1h\""));
    let mut early = EarlyClient::come(&weir, &known);
    let first = early.get("/page", None);
    early.client.progress_until("it was refused", || origin.requests().len() == 2);
    let mut other = Http3Client::connect(weir.web(), &authority);
    assert_eq!(other.get("/page").text(), "/page");
    early.open();
    assert_eq!(early.client.response(first).text(), "/page");
    assert_eq!(other.get("/page").text(), "/page");
    assert_eq!(
        weir.metrics().sum("weir_upstream_responses_total", &["class=\"4xx\""]),
        0.0,
        "none was passed on"
    );
}

#[test]
fn copies_for_a_mirror_say_that_they_are_early() {
    let (origin, mirror) = (echo(), careful());
    let settings = format!(
        "upstream.new.servers = [{}]\n\
         listener.web.route = [{{ path = \"/\", upstream = \"app\", mirror = {{ upstream = \"new\" }} }}]\n",
        mirror.entry()
    );
    let (_authority, weir, known) = start(&origin, &settings);
    mirror.wait_for_requests(1);
    let mut early = EarlyClient::come(&weir, &known);
    let get = early.get("/copied", None);
    early
        .client
        .progress_until("both have it", || origin.requests().len() == 2 && mirror.requests().len() == 2);
    assert_eq!(origin.last_request().field("early-data"), Some("1"));
    let copy = mirror.last_request();
    assert_eq!((copy.field("early-data"), copy.field("x-weir-mirror")), (Some("1"), Some("1")));
    early.open();
    assert_eq!(early.client.response(get).text(), "/copied");
    assert_eq!((origin.requests().len(), mirror.requests().len()), (2, 2), "a copy is not repeated");
}

#[test]
fn servers_of_fastcgi_may_refuse_what_is_early() {
    let origin = Origin::start(|conn| {
        let request = FastcgiRequest::read(conn)?;
        let script = request.param("REQUEST_URI").unwrap_or_default();
        conn.send(match request.param("HTTP_EARLY_DATA") {
            Some(early) => response(&format!("Status: 425 Too Early\r\n\r\n{early}")),
            None => response(&format!("Content-Type: text/plain\r\n\r\n{script}")),
        })
    });
    let authority = CertificateAuthority::new();
    let settings = format!(
        "process.workers = 1\n{WEB_TLS}{EARLY}upstream.app.protocol = \"fastcgi\"\n\
         listener.web.route = [{{ path = \"/\", upstream = \"app\", fastcgi = {{ root = \"/srv\", script = \"/index.php\", check_script = false }} }}]\n"
    );
    let text = config_with(&[origin.entry()], &settings).replace("listener.web.upstream = \"app\"\n", "");
    let weir = Weir::start_in(authority.folder_for_web(), &text);
    let known = Http3Client::get_known(weir.web(), &authority);
    let mut early = EarlyClient::come(&weir, &known);
    let get = early.get("/page", None);
    early.client.progress_until("it was refused", || {
        weir.metrics().sum("weir_server_responses_total", &["class=\"4xx\""]) == 1.0
    });
    early.open();
    assert_eq!(early.client.response(get).text(), "/page");
}

/// A server that decides may refuse to do so early, and is asked again like any other.
#[test]
fn a_server_that_decides_is_asked_behind_the_handshake_if_it_wants_that() {
    let (origin, judge) = (echo(), careful());
    let settings = format!(
        "upstream.auth.servers = [{}]\n\
         listener.web.route = [{{ path = \"/\", upstream = \"app\", forward_auth = {{ upstream = \"auth\", path = \"/verify\" }} }}]\n",
        judge.entry()
    );
    let (authority, weir, known) = start(&origin, &settings);
    let mut early = EarlyClient::come(&weir, &known);
    let get = early.get("/asked", None);
    early.client.progress_until("it was asked", || judge.requests().len() == 2);
    assert_eq!(judge.last_request().field("early-data"), Some("1"));
    assert_eq!(origin.requests().len(), 1);
    early.open();
    let response = early.client.response(get);
    assert_eq!((response.status, response.text()), (200, "/asked".to_owned()));
    assert_eq!((judge.requests().len(), judge.last_request().field("early-data")), (3, None));
    assert_eq!(origin.last_request().field("early-data"), None);
    // A client that says so itself repeats it itself.
    let mut early = EarlyClient::come(&weir, &Http3Client::get_known(weir.web(), &authority));
    let said = early.get("/said", Some(("early-data", "1")));
    early.open();
    assert_eq!(early.client.response(said).status, 425);
}

#[test]
fn a_call_of_grpc_waits_for_the_handshake() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let early = asked.field("early-data").unwrap_or("none").to_owned();
            let head = [(":status", "200"), ("content-type", "application/grpc"), ("x-early", &early)];
            server.send_head(asked.stream, &head, false)?;
            server.send_head(asked.stream, &[("grpc-status", "0")], true)?;
        }
    });
    let (authority, weir, known) = start(&origin, "upstream.app.protocol = \"h2c\"\n");
    let mut early = EarlyClient::come(&weir, &known);
    let request = http::Request::builder()
        .method("POST")
        .uri("https://a.test/a.B/C")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    let call = early.client.send_with(request, &[0, 0, 0, 0, 0]);
    early.client.progress_until("Weir has the call", || {
        weir.metrics().sum("weir_listener_http3_early_requests_total", &[]) == 1.0
    });
    assert_eq!(Http3Client::connect(weir.web(), &authority).get("/meanwhile").status, 200);
    let requests = || weir.metrics().sum("weir_upstream_requests_total", &[]);
    assert_eq!(requests(), 2.0, "the call is not with the server");
    early.open();
    let response = early.client.response(call);
    assert_eq!((response.field("x-early"), response.trailer("grpc-status")), (Some("none"), Some("0")));
}

#[test]
fn a_body_that_was_kept_goes_again_behind_the_handshake() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(match request.field("early-data") {
                Some(_) => status(425),
                None => ok(&format!("{}{}", request.target(), request.text())),
            })?;
        }
    });
    let settings = "listener.web.route = [{ path = \"/\", upstream = \"app\", buffer_requests = { memory = \"16KiB\", file = \"1MiB\" } }]\n";
    let (_authority, weir, known) = start(&origin, settings);
    let mut early = EarlyClient::come(&weir, &known);
    let request = http::Request::builder().uri("https://a.test/kept");
    let get = early.client.send_with(request, b"body");
    early.client.progress_until("it was refused", || origin.requests().len() == 2);
    assert_eq!(origin.last_request().text(), "body");
    early.open();
    assert_eq!(early.client.response(get).text(), "/keptbody");
    assert_eq!(origin.requests().len(), 3);
}

/// Also where it goes to a server twice, or its packet is sent again by another.
#[test]
fn an_early_request_counts_once_towards_a_limit() {
    let origin = careful();
    let settings = "listener.web.limited_by = [\"user\"]\n\
        limit.user = { rate = \"2/h\", burst = 2, key = \"{header.x-user}\" }\n";
    let (authority, weir, known) = start(&origin, settings);
    let gate = Gate::new();
    let way = SilentWay::to(weir.web(), &gate);
    let mut client = Http3Client::connect_early(way.address, &known).expect("the session takes early data");
    let request = http::Request::builder().uri("https://a.test/").header("x-user", "ann");
    let get = client.send_with(request, b"");
    client.progress_until("it was refused", || origin.requests().len() == 2);
    gate.open();
    assert_eq!(client.response(get).status, 200);
    client.leave();
    eventually("the connection is over", || {
        weir.metrics().sum("weir_listener_http3_connections_open", &[]) == 0.0
    });
    let attacker = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback has a port");
    for datagram in &*way.sent.lock().expect("no thread panics with it") {
        attacker.send_to(datagram, weir.web()).expect("loopback takes it");
    }
    attacker.recv(&mut [0; 65_535]).expect("Weir begins a handshake with it");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut ask = || client.get_with("/", &[("x-user", "ann")]).status;
    assert_eq!([ask(), ask()], [200, 429]);
}

#[test]
fn lists_of_addresses_hold_for_early_requests() {
    let origin = echo();
    let (_authority, weir, known) = start(&origin, "");
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    let denied =
        "listener.web.lists = [\"bad\"]\nlist.bad = { action = \"deny\", entries = [\"127.0.0.1\"] }\n";
    // What a session was begun by does not matter.
    weir.reload(&text.replace(EARLY, &format!("{EARLY}{denied}")));
    let mut early = EarlyClient::come(&weir, &known);
    let get = early.get("/denied", None);
    early.client.progress_until("it was refused", || {
        weir.metrics().sum("weir_listener_responses_total", &["class=\"4xx\""]) == 1.0
    });
    early.open();
    assert_eq!(early.client.response(get).status, 403);
    assert_eq!(origin.targets(), ["/first"]);
}

/// A session remembers what Weir allows: less than that may not be said to a client whose requests have come by it (RFC 9000 section 7.4.1, RFC 9114
/// section 7.2.4.2).
#[test]
fn a_reload_that_allows_less_takes_no_early_data_of_before() {
    let origin = echo();
    let (authority, weir, _) = start(&origin, "");
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    let less = ["listener.web.http3.streams_max = 4\n", "listener.web.limits.head_size = \"8KiB\"\n"];
    for setting in less {
        weir.reload(&text);
        let known = Http3Client::get_known(weir.web(), &authority);
        weir.reload(&text.replace(EARLY, &format!("{EARLY}{setting}")));
        let early = weir.metrics().sum("weir_listener_http3_early_requests_total", &[]);
        let mut client = Http3Client::connect_early(weir.web(), &known).expect("the client believes so");
        let pending = client.send("GET", "/early", b"");
        assert!(client.try_response(pending).is_err(), "{setting}: its early data is rejected");
        let mut again = Http3Client::try_connect(weir.web(), known.tls.clone()).expect("there is HTTP/3");
        assert_eq!(again.get("/again").text(), "/again", "{setting}");
        assert_eq!(weir.metrics().sum("weir_listener_http3_early_requests_total", &[]), early, "{setting}");
    }
    // More is allowed.
    let known = Http3Client::get_known(weir.web(), &authority);
    weir.reload(&text);
    let mut early = EarlyClient::come(&weir, &known);
    let get = early.get("/more", None);
    early.client.progress_until("it is served", || origin.targets().iter().any(|target| target == "/more"));
    early.open();
    assert_eq!(early.client.response(get).text(), "/more");
}

#[test]
fn a_reload_leaves_early_requests_alone() {
    let origin = careful();
    let (_authority, weir, known) = start(&origin, "");
    let mut early = EarlyClient::come(&weir, &known);
    let get = early.get("/get", None);
    early.client.progress_until("it was refused", || origin.requests().len() == 2);
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    weir.reload(&text.replace(EARLY, ""));
    early.open();
    assert_eq!(early.client.response(get).text(), "/get");
}

/// Sessions and tokens end with the process that gave them; requests that it has begun on do not.
#[test]
fn nothing_is_early_behind_an_upgrade() {
    let origin = careful();
    let (authority, mut weir, known) = start(&origin, "");
    let behind = Http3Client::get_known(weir.web(), &authority);
    let mut early = EarlyClient::come(&weir, &known);
    let get = early.get("/before", None);
    let early_requests = || origin.requests().iter().filter(|it| it.field("early-data").is_some()).count();
    early.client.progress_until("it was refused", || early_requests() == 1);
    weir.upgrade();
    early.open();
    assert_eq!(early.client.response(get).text(), "/before", "its handshake ends at the process before");
    let mut client = Http3Client::connect_early(weir.web(), &behind).expect("the client believes so");
    let pending = client.send("GET", "/behind", b"");
    assert!(client.try_response(pending).is_err(), "its early data is rejected");
    assert!(!origin.targets().iter().any(|target| target == "/behind"));
    let mut again = Http3Client::try_connect(weir.web(), behind.tls).expect("there is HTTP/3");
    assert_eq!(again.get("/again").text(), "/again");
    assert_eq!(early_requests(), 1);
}
