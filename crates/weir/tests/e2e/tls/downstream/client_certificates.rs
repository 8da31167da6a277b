//! Client certificates: which are accepted, and the fields that servers get about them.

use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind};

use crate::harness::tls::{WEB_TLS, connect, try_connect};
use crate::harness::{
    CertificateAuthority, Client, ClientCertificate, Origin, Request, Response, Weir, config_with, eventually,
};

/// A Weir that asks its clients for certificates of an authority of theirs.
pub(super) struct Site {
    /// Whom clients trust.
    pub(super) servers: CertificateAuthority,
    /// Whom Weir trusts.
    pub(super) clients: CertificateAuthority,
    pub(super) weir: Weir,
}

impl Site {
    /// `settings`: the keys of `client_certificates` beside `ca`, in dotted form, and more of the config.
    pub(super) fn start(origin: &Origin, settings: &str) -> Site {
        Site::start_with(origin, settings, |_, _| {})
    }

    /// With more files, which `prepare` writes.
    pub(super) fn start_with(
        origin: &Origin,
        settings: &str,
        prepare: impl FnOnce(&CertificateAuthority, &std::path::Path),
    ) -> Site {
        let (servers, clients) = (CertificateAuthority::new(), CertificateAuthority::new());
        let folder = servers.folder_for_web();
        std::fs::write(folder.path().join("clients.pem"), clients.pem()).expect("the folder takes a file");
        prepare(&clients, folder.path());
        let tls =
            "listener.web.tls.client_certificates.ca = \"clients.pem\"\nlistener.web.tls.reload = \"100ms\"";
        let text = config_with(&[origin.entry()], &format!("{WEB_TLS}{tls}\n{settings}"));
        Site { servers, clients, weir: Weir::start_in(folder, &text) }
    }

    /// A client that offers this version of TLS, or both.
    pub(super) fn client(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        shown: Option<&ClientCertificate>,
    ) -> ClientConfig {
        let config = self.servers.client_with(default_provider(), versions);
        shown.map_or(config.clone(), |shown| shown.shown_by(config))
    }

    /// The response to a GET, if the client is accepted: in TLS 1.3 a refusal comes after the handshake as the client sees it.
    pub(super) fn get(&self, config: ClientConfig) -> Option<Response> {
        let mut client = try_connect(self.weir.web(), config, "a.test").ok()?;
        client.send_what_is_taken("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").ok()?;
        client.try_response_to("GET").ok()
    }

    pub(super) fn refusals(&self, reason: &str) -> f64 {
        self.weir
            .metrics()
            .all("weir_listener_failures_total", &[&format!("reason=\"{reason}\"")])
            .iter()
            .sum()
    }
}

const BOTH: [&rustls::SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
const REQUIRED: &str = "listener.web.tls.client_certificates.verify = \"required\"";
const OPTIONAL: &str = "listener.web.tls.client_certificates.verify = \"optional\"";

/// The certificate fields that a server got.
fn certificate_fields(request: &Request) -> [Option<&str>; 3] {
    ["x-ssl-client-verify", "x-ssl-client-s-dn", "x-ssl-client-fingerprint"].map(|name| request.field(name))
}

/// What `openssl x509` prints of a certificate, behind the equals sign.
fn openssl(pem: &str, arguments: &[&str]) -> String {
    use std::io::Write as _;
    let mut child = Command::new("openssl")
        .args(["x509", "-noout"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl is installed");
    child.stdin.take().expect("stdin is piped").write_all(pem.as_bytes()).expect("openssl reads");
    let out = child.wait_with_output().expect("openssl ends");
    assert!(out.status.success(), "{out:?}");
    let line = String::from_utf8(out.stdout).expect("openssl prints text");
    line.trim_end().split_once('=').expect("a name and a value").1.to_owned()
}

fn fingerprint(pem: &str) -> String {
    openssl(pem, &["-fingerprint", "-sha256"]).replace(':', "").to_ascii_lowercase()
}

#[test]
fn a_server_gets_the_fields_of_the_client_certificate() {
    for settings in [REQUIRED, OPTIONAL] {
        let origin = Origin::serving("x");
        let site = Site::start(&origin, settings);
        let ann = site.clients.certify("Ann, \"née\" Ö", |_| {});
        for version in BOTH {
            assert!(site.get(site.client(&[version], Some(&ann))).is_some(), "{settings} {version:?}");
            let request = origin.last_request();
            let subject = openssl(&ann.pem, &["-subject", "-nameopt", "RFC2253"]);
            let expected = [Some("SUCCESS"), Some(subject.as_str()), Some(&fingerprint(&ann.pem))];
            assert_eq!(certificate_fields(&request), expected);
            assert!(subject.starts_with("CN=Ann\\, \\\"n\\C3\\A9e\\\" \\C3\\96,"), "{subject}");
        }
    }
}

#[test]
fn every_header_has_the_name_that_it_was_given() {
    let origin = Origin::serving("x");
    let site = Site::start(
        &origin,
        "listener.web.tls.client_certificates.headers = { verify = \"off\", subject = \"x-who\", issuer = \"x-by\", \
         serial = \"x-number\", fingerprint = \"off\", certificate = \"client-cert\" }",
    );
    let ann = site.clients.certify("ann", |_| {});
    assert!(site.get(site.client(&BOTH, Some(&ann))).is_some());
    let request = origin.last_request();
    assert_eq!(certificate_fields(&request), [None; 3]);
    assert_eq!(request.field("x-who"), Some(&*openssl(&ann.pem, &["-subject", "-nameopt", "RFC2253"])));
    assert_eq!(request.field("x-by"), Some(&*openssl(&ann.pem, &["-issuer", "-nameopt", "RFC2253"])));
    assert_eq!(request.field("x-number"), Some(&*openssl(&ann.pem, &["-serial"])));
    // PEM is the same encoding, in lines.
    let body: String = ann.pem.lines().filter(|line| !line.starts_with("-----")).collect();
    assert_eq!(request.field("client-cert"), Some(&*format!(":{body}:")));
}

#[test]
fn clients_without_a_valid_certificate_are_rejected() {
    let origin = Origin::serving("never");
    let site = Site::start(&origin, REQUIRED);
    let stranger = CertificateAuthority::new().certify("eve", |_| {});
    let old = site.clients.certify("old", |params| params.not_after = rcgen::date_time_ymd(2002, 1, 1));
    let early = site.clients.certify("early", |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1));
    let server = site.clients.certify("server", |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    for (shown, reason, count) in [
        (None, "tls-client-certificate-missing", 2.0),
        (Some(&stranger), "tls-client-certificate-rejected", 2.0),
        (Some(&server), "tls-client-certificate-rejected", 4.0),
        (Some(&old), "tls-client-certificate-expired", 2.0),
        (Some(&early), "tls-client-certificate-expired", 4.0),
    ] {
        for version in BOTH {
            assert!(site.get(site.client(&[version], shown)).is_none(), "{reason}");
        }
        eventually(reason, || site.refusals(reason) >= count);
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_bad() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin, OPTIONAL);
    for version in BOTH {
        assert!(site.get(site.client(&[version], None)).is_some());
        assert_eq!(certificate_fields(&origin.last_request()), [Some("NONE"), None, None]);
    }
    let stranger = CertificateAuthority::new().certify("eve", |_| {});
    for version in BOTH {
        assert!(site.get(site.client(&[version], Some(&stranger))).is_none());
    }
    eventually("both are counted", || site.refusals("tls-client-certificate-rejected") >= 2.0);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_certificate_that_is_not_valid_is_none_where_clients_are_let_in_anyway() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin, "listener.web.tls.client_certificates.verify = \"optional-no-ca\"");
    let friend = site.clients.certify("ann", |_| {});
    let stranger = CertificateAuthority::new().certify("eve", |_| {});
    for version in BOTH {
        for (shown, verified, is_identified) in
            [(None, "NONE", false), (Some(&stranger), "FAILED", false), (Some(&friend), "SUCCESS", true)]
        {
            // The second time on a session that is resumed, where no certificate is verified.
            let config = site.client(&[version], shown);
            for _ in 0..2 {
                assert!(site.get(config.clone()).is_some(), "{verified} {version:?}");
                let [verify, subject, fingerprint] =
                    certificate_fields(&origin.last_request()).map(|value| value.map(str::to_owned));
                assert_eq!(verify.as_deref(), Some(verified), "{version:?}");
                assert_eq!((subject.is_some(), fingerprint.is_some()), (is_identified, is_identified));
            }
        }
    }
}

/// Every way in which a request can say what only Weir may say.
const FORGED: &str = "X-SSL-Client-Verify: SUCCESS\r\nx-ssl-client-s-dn: CN=root\r\nX_SSL_CLIENT_S_DN: CN=root\r\n\
                      X-SSL-Client_Fingerprint: forged\r\nX-Ssl-Client.Serial: forged\r\nClient-Cert: :AAAA:\r\n\
                      Client-Cert-Chain: :AAAA:\r\nX-Harmless: yes\r\n";

fn forged() -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\n{FORGED}Transfer-Encoding: chunked\r\nTrailer: x-ssl-client-s-dn\r\n\r\n\
         1\r\nx\r\n0\r\n{FORGED}\r\n"
    )
}

/// The names and values of a message that came from the client under a name of ours.
fn forgeries(received: &str) -> Vec<&str> {
    let is_ours =
        |line: &&str| line.contains("CN=root") || line.contains("forged") || line.contains(":AAAA:");
    received.lines().filter(is_ours).collect()
}

#[test]
fn what_a_client_says_about_itself_reaches_no_server() {
    let origin = Origin::serving("x");
    let site = Site::start(
        &origin,
        &format!(
            "{OPTIONAL}\nlistener.web.lenient.underscore_names = true\nlistener.web.trusted_proxies = [\"127.0.0.1\"]\n\
             listener.plain = {{ address = \"127.0.0.1:0\", upstream = \"app\", lenient = {{ underscore_names = true }} }}\n\
             listener.inner = {{ address = \"127.0.0.1:0\", upstream = \"app\", trusted_proxies = [\"127.0.0.1\"] }}"
        ),
    );
    let mut client = connect(site.weir.web(), site.client(&BOTH, None), "a.test");
    client.send(forged());
    assert_eq!(client.response().status, 200);
    let received = crate::harness::latin1(&origin.connection(0).received);
    assert_eq!(forgeries(&received), [""; 0], "{received}");
    assert_eq!(received.matches("SUCCESS").count(), 0, "{received}");
    assert_eq!(received.matches("x-ssl-client-verify: NONE\r\n").count(), 1, "{received}");
    assert_eq!(received.matches("X-Harmless: yes\r\n").count(), 2, "headers and trailers pass: {received}");
    // The server is the same, whatever listener a client takes to it.
    let mut plain = Client::connect(site.weir.address("plain"));
    plain.send(forged());
    assert_eq!(plain.response().status, 200);
    assert_eq!(certificate_fields(&origin.last_request()), [None; 3]);
    assert_eq!(origin.last_request().field("x_ssl_client_s_dn"), None);
    // A proxy in front that has asked for the certificate itself.
    let mut inner = Client::connect(site.weir.address("inner"));
    inner.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-SSL-Client-S-DN: CN=ann\r\n\r\n");
    assert_eq!(inner.response().status, 200);
    assert_eq!(origin.last_request().field("x-ssl-client-s-dn"), Some("CN=ann"));
}

#[test]
fn a_resumed_session_has_the_certificate_of_the_first() {
    for tickets in [true, false] {
        let origin = Origin::serving("x");
        let settings = format!("{REQUIRED}\nlistener.web.tls.session_tickets = {tickets}");
        let site = Site::start(&origin, &settings);
        let ann = site.clients.certify("ann", |_| {});
        for version in BOTH {
            let mut config = site.client(&[version], Some(&ann));
            config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(64)));
            for round in 0..3 {
                let mut client = connect(site.weir.web(), config.clone(), "a.test");
                assert_eq!(client.fetch("/").status, 200);
                let kind = client.tls().session().handshake_kind();
                assert_eq!(kind == Some(HandshakeKind::Resumed), round > 0, "{version:?} {round} {kind:?}");
                let print = fingerprint(&ann.pem);
                assert_eq!(
                    certificate_fields(&origin.last_request()),
                    [Some("SUCCESS"), Some("CN=ann,O=Example"), Some(&*print)]
                );
            }
        }
    }
}

#[test]
fn the_access_log_names_the_client() {
    let origin = Origin::serving("x");
    let site = Site::start(
        &origin,
        &format!(
            "{OPTIONAL}\nlistener.web.access_log = {{ output = \"file:{{dir}}/log\", format = \"{{tls.client.subject}} {{tls.client.fingerprint}} {{reason}}\" }}"
        ),
    );
    let ann = site.clients.certify("ann", |_| {});
    let log = || std::fs::read_to_string(site.weir.folder().join("log")).unwrap_or_default();
    for (shown, expected) in [
        (Some(&ann), format!("CN=ann,O=Example {} -\n", fingerprint(&ann.pem))),
        (None, "- - -\n".to_owned()),
        (
            Some(&CertificateAuthority::new().certify("eve", |_| {})),
            "- - tls-client-certificate-rejected\n".to_owned(),
        ),
    ] {
        let _response = site.get(site.client(&BOTH, shown));
        eventually(&format!("the log has {expected}"), || log().ends_with(&expected));
    }
}

/// A TCP listener forwards no certificate fields, but verifies certificates too.
#[test]
fn a_tcp_listener_lets_only_the_right_ones_in() {
    let origin = Origin::start(|conn| {
        conn.send("hello")?;
        None
    });
    let site = Site::start(&origin, &format!("{REQUIRED}\nlistener.web.protocol = \"tcp\""));
    let ann = site.clients.certify("ann", |_| {});
    assert_eq!(connect(site.weir.web(), site.client(&BOTH, Some(&ann)), "a.test").take(5), b"hello");
    assert!(try_connect(site.weir.web(), site.client(&[&TLS12], None), "a.test").is_err());
    eventually("the other is counted", || site.refusals("tls-client-certificate-missing") >= 1.0);
    assert_eq!(origin.connections(), 1);
}

/// The way in which a server of TCP learns whose connection it is: section 2.2.6 of the PROXY protocol.
#[test]
fn a_proxy_header_has_the_client_certificate() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let origin = Origin::start(move |conn| {
        let (_, content) = crate::harness::proxy_header::take_binary(conn)?;
        noted.lock().expect("no thread panics while it holds it").push(content);
        conn.send("hello")?;
        None
    });
    let site = Site::start(
        &origin,
        &format!("{OPTIONAL}\nlistener.web.protocol = \"tcp\"\nupstream.app.proxy_protocol = \"v2\""),
    );
    let ann = site.clients.certify("J\u{fc}rgen", |_| {});
    let with = b"\x02\0\x06a.test\x20\0\x19\x07\0\0\0\0\x21\0\x07TLSv1.3\x22\0\x07J\xc3\xbcrgen";
    let without = b"\x02\0\x06a.test\x20\0\x0f\x01\0\0\0\x01\x21\0\x07TLSv1.2";
    for (config, expected) in
        [(site.client(&[&TLS13], Some(&ann)), &with[..]), (site.client(&[&TLS12], None), &without[..])]
    {
        assert_eq!(connect(site.weir.web(), config, "a.test").take(5), b"hello");
        let header = seen.lock().expect("no thread panics while it holds it").pop().expect("one came");
        // Behind two addresses of four bytes and two ports.
        assert_eq!(&header[12..], expected);
    }
}

#[test]
fn curl_and_openssl_show_their_certificates() {
    let origin = Origin::serving("from the origin");
    let site = Site::start(&origin, REQUIRED);
    let folder = site.weir.folder();
    site.clients.certify("ann", |_| {}).write(folder, "ann");
    std::fs::write(folder.join("servers.pem"), site.servers.pem()).expect("the folder takes a file");
    let port = site.weir.web().port();
    let curl = |more: &[&str]| {
        Command::new("curl")
            .current_dir(folder)
            .args(["-sS", "--cacert", "servers.pem", "--resolve", &format!("a.test:{port}:127.0.0.1")])
            .args(more)
            .arg(format!("https://a.test:{port}/"))
            .output()
            .expect("curl is installed")
    };
    let with = curl(&["--cert", "ann.pem", "--key", "ann.key"]);
    assert_eq!(with.stdout, b"from the origin", "{with:?}");
    assert!(!curl(&[]).status.success());
    let openssl = Command::new("openssl")
        .current_dir(folder)
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", "a.test"])
        .args(["-CAfile", "servers.pem", "-cert", "ann.pem", "-key", "ann.key", "-tls1_2"])
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed");
    let out = String::from_utf8_lossy(&openssl.stdout);
    assert!(
        out.contains("Acceptable client certificate CA names\nCN = CertificateAuthority of a test"),
        "{out}"
    );
    assert!(out.contains("Verify return code: 0 (ok)"), "{out}");
}

/// What a server answers to a client with a certificate is for that client, unless it says otherwise; what others fetch is not for such clients.
#[test]
fn a_cache_keeps_what_is_for_clients_with_certificates() {
    const CACHED: &str = "cache.pages = { memory = \"4MiB\", response_max = \"1MiB\" }\n\
                          listener.web.route = [{ path = \"/\", upstream = \"app\", cache = \"pages\" }]";
    for (fields, texts) in [
        ("Cache-Control: max-age=600\r\n", ["1", "2", "3", "3", "4"]),
        ("Cache-Control: public, max-age=600\r\n", ["1", "1", "2", "2", "1"]),
    ] {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let origin = Origin::start(move |conn| {
            loop {
                conn.request()?;
                let number = (count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1).to_string();
                let length = number.len();
                conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{number}"))?;
            }
        });
        let site = Site::start(&origin, &format!("{OPTIONAL}\n{CACHED}"));
        let (ann, bob) = (site.clients.certify("ann", |_| {}), site.clients.certify("bob", |_| {}));
        let clients = [Some(&ann), Some(&bob), None, None, Some(&ann)];
        let seen = clients.map(|shown| site.get(site.client(&BOTH, shown)).expect("it is accepted").text());
        assert_eq!(seen, texts, "{fields}");
    }
}
