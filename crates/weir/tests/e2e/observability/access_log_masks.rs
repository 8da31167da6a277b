//! Lines of the access log that hide a part of addresses and queries, and lines of a share of the exchanges.

use crate::harness::{Client, Http2Client, Origin, Weir, eventually};

fn logging(origin: &Origin, format: &str, keys: &str) -> Weir {
    Weir::proxying_with(
        origin,
        &format!(
            "process.workers = 1\nlistener.web.trusted_proxies = [\"127.0.0.1\"]\nlistener.web.http2.prior_knowledge = \"allowed\"\n\
             access_log.format = '{format}'\naccess_log.output = \"file:{{dir}}/access.log\"\n{keys}"
        ),
    )
}

#[test]
fn addresses_and_queries_are_masked() {
    let origin = Origin::serving("fine");
    let format = r#"{client_address|network:24} {peer_address|network:8,32} {query|without:token,password} {args|without:token} "{request_line|without:token}" {referer|without:token} {header.x-url|without:token} {target|without:x}"#;
    let weir = logging(&origin, format, "");
    let target = "/a?x=1&t%6Fken=s3cret&password=hunter2;Token=x";
    for client in ["192.0.2.77", "2001:db8:1:2:3::4"] {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\nReferer: http://r.test/?token=s3cret\r\nX-Url: /b?token=s3cret&c\r\n\r\n"
        );
        assert_eq!(Client::exchange(weir.web(), &request).status, 200);
        assert_eq!(origin.last_request().target(), target, "the server gets all of it");
    }
    let mut second = Http2Client::connect(weir.web());
    let stream = second.get_with(target, &[("x-forwarded-for", "192.0.2.77")]);
    assert_eq!(second.response(stream).status, 200);
    let rest = r#"?x=1&t%6Fken=&password=;Token= x=1&t%6Fken=&password=hunter2;Token= "GET /a?x=1&t%6Fken=&password=hunter2;Token="#;
    let lines = weir.access_log(3);
    let fields = "http://r.test/?token= /b?token=&c /a?x=&t%6Fken=s3cret&password=hunter2;Token=x";
    assert_eq!(lines[0], format!("192.0.2.0 127.0.0.0 {rest} HTTP/1.1\" {fields}"));
    assert_eq!(lines[1], format!("2001:db8:1:: 127.0.0.0 {rest} HTTP/1.1\" {fields}"));
    assert!(
        lines[2].starts_with(&format!("192.0.2.0 127.0.0.0 {rest} HTTP/2.0\" - - /a?x=&")),
        "{}",
        lines[2]
    );
}

/// The keys of a JSON object are those of the whole values.
#[test]
fn masks_in_json() {
    let origin = Origin::serving("fine");
    let weir = logging(&origin, "json {client_address|network:24} {target|without:token} {status}", "");
    assert_eq!(Client::get(weir.web(), "/?token=%22s3cret").status, 200);
    assert_eq!(weir.access_log(1), [r#"{"client_address":"127.0.0.0","target":"/?token=","status":200}"#]);
}

/// One draw for each exchange; failures have their lines where that is asked for, whatever the draw says.
#[test]
fn a_share_of_the_exchanges_has_lines() {
    let origin = Origin::serving("fine");
    let weir = logging(&origin, "{path} {status}", "access_log.sample = \"25%\"");
    let mut client = Client::connect(weir.web());
    for _ in 0..400 {
        assert_eq!(client.fetch("/").status, 200);
    }
    let count =
        || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default().lines().count();
    // Six standard deviations of a fair draw to either side.
    eventually("about a quarter has lines", || (48..=152).contains(&count()));
    drop(client);
    let none =
        "access_log.sample = \"0%\"\naccess_log.sample_errors = true\naccess_log.when = 'path != \"/quiet\"'";
    let weir = logging(&origin, "{path} {status} {reason}", none);
    let request = |head: &str| Client::exchange(weir.web(), head).status;
    assert_eq!(request("GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n"), 200);
    assert_eq!(request("GET /b HTTP/1.1\r\nHost: a.test\r\nExpect: nonsense\r\n\r\n"), 417);
    assert_eq!(request("GET /quiet HTTP/1.1\r\nHost: a.test\r\nExpect: nonsense\r\n\r\n"), 417);
    assert_eq!(request("GET /c HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(request("GET /d HTTP/1.1\r\nHost: a.test\r\n\r\n"), 200);
    let lines = weir.access_log(2);
    assert_eq!(lines[0], "/b 417 expectation-failed");
    assert!(lines[1].contains(" 400 "), "{lines:?}");
}
