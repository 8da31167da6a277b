//! Who a client is, to Weir and to servers: cookies of affinity, certificates, and connections that a client has authenticated.

use crate::harness::http2::{H2C, start};
use crate::harness::stream::Stream;
use crate::harness::tls::{WEB_TLS, try_connect_stream};
use crate::harness::{
    CertificateAuthority, Client, Http2Client, Origin, Weir, config_of, config_with, origin::ok,
};

#[test]
fn a_client_stays_where_its_cookie_says_whatever_its_crumbs() {
    let origins: Vec<Origin> = (0..3).map(|number| Origin::answering(ok(&number.to_string()))).collect();
    let weir =
        Weir::start(&format!("{}{H2C}", config_of(&origins, "affinity = {}\nbalance = \"round-robin\"")));
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..3 {
        let first = client.fetch("/");
        let set = first.field("set-cookie").expect("a new client gets its cookie").to_owned();
        let cookie = set.split(';').next().unwrap_or_default();
        for _ in 0..5 {
            let crumbs =
                [("cookie", "theme=dark"), ("cookie", cookie), ("x-between", "1"), ("cookie", "lang=en")];
            let stream = client.get_with("/", &crumbs);
            let next = client.response(stream);
            assert_eq!((next.text(), next.field("set-cookie")), (first.text(), None));
        }
    }
    let seen = origins
        .iter()
        .flat_map(Origin::requests)
        .filter_map(|request| request.field("cookie").map(str::to_owned));
    assert!(
        seen.into_iter().all(|cookies| cookies == "theme=dark; lang=en"),
        "servers see no cookie of Weir"
    );
}

/// An origin that knows the user of each connection, like a server with NTLM.
fn ntlm() -> Origin {
    Origin::start(|conn| {
        let (mut user, mut challenge) = (None, None);
        loop {
            let request = conn.request()?;
            let credentials = request.field("authorization").and_then(|value| value.strip_prefix("NTLM "));
            match credentials.map(|token| token.split_once(' ').unwrap_or((token, ""))) {
                Some(("T1", _)) => challenge = Some(format!("challenge-{}", conn.index)),
                Some((name, answer)) if challenge.as_deref() == Some(answer) => user = Some(name.to_owned()),
                _ => {}
            }
            let asks = format!("NTLM {}", challenge.as_deref().unwrap_or_default());
            match &user {
                Some(name) => conn.send(ok(name))?,
                None => conn.send(format!(
                    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: {}\r\nContent-Length: 0\r\n\r\n",
                    asks.trim_end()
                ))?,
            }
        }
    })
}

/// NTLM authenticates a connection, which HTTP/2 does not have between client and server. Whether it succeeds or not, no other request is
/// answered as that user.
#[test]
fn nobody_else_is_answered_as_a_user_who_has_authenticated() {
    let origin = ntlm();
    let weir = start(&origin);
    let mut ann = Http2Client::connect(weir.web());
    for _ in 0..3 {
        let stream = ann.get_with("/", &[("authorization", "NTLM T1")]);
        let challenge = ann.response(stream);
        assert_eq!(challenge.status, 401);
        let token = challenge.field("www-authenticate").unwrap_or_default().replacen("NTLM ", "", 1);
        let stream = ann.get_with("/", &[("authorization", &format!("NTLM ann {token}"))]);
        ann.response(stream);
        for _ in 0..5 {
            let mut other = Http2Client::connect(weir.web());
            assert_eq!(other.fetch("/").status, 401, "a stream of another client");
            assert_eq!(Client::get(weir.web(), "/").status, 401, "another client");
        }
    }
}

#[test]
fn each_stream_has_the_fields_of_the_certificate() {
    let origin = Origin::serving("x");
    let authority = CertificateAuthority::new();
    let folder = authority.folder_for_web();
    std::fs::write(folder.path().join("clients.pem"), authority.pem()).expect("the folder takes a file");
    let certificates = "listener.web.tls.client_certificates.ca = \"clients.pem\"\n\
                        listener.web.tls.client_certificates.headers.subject = \"x-who\"\n";
    let text = config_with(&[origin.entry()], &format!("{WEB_TLS}{certificates}"));
    let weir = Weir::start_in(folder, &text);
    let mut config = authority.certify("ann", |_| {}).shown_by(authority.client());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tls = try_connect_stream(weir.web(), config, "a.test").expect("the certificate is valid");
    let mut client = Http2Client::on(Stream::Tls(Box::new(tls)), "https");
    client.begin(&[]);
    for _ in 0..3 {
        let stream = client.get_with("/", &[("x-who", "CN=forged")]);
        assert_eq!(client.response(stream).status, 200);
        assert_eq!(origin.last_request().field("x-who"), Some("CN=ann,O=Example"));
    }
}
