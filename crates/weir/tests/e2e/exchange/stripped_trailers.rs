//! Trailers have no field that would stop in a head: names that only Weir may use, or that the route takes out, in any protocol.

use crate::harness::message::Fields;
use crate::harness::{Client, Http2Client, Origin, Weir, config_with};

/// A server that allows everything and says who asks.
fn judge() -> Origin {
    Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 200 OK\r\nRemote-User: ann\r\nContent-Length: 0\r\n\r\n")?;
        }
    })
}

fn start(origin: &Origin, judge: &Origin) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1
             listener.web.http2.prior_knowledge = \"allowed\"
             listener.web.request_headers.remove = [\"x-gone\"]
             listener.web.request_id.header = \"x-own-id\"
             upstream.auth.servers = [{}]
             upstream.new.servers = [{}]
             [[listener.web.route]]
             path = \"/plain\"
             upstream = \"app\"
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             mirror = {{ upstream = \"new\", methods = [\"GET\"], mark_header = \"x-copy\" }}
             request_headers = {{ set = {{ x-set = \"1\" }} }}
             response_headers = {{ set = {{ x-answer = \"set\" }}, remove = [\"x-inner\"] }}
             [listener.web.route.forward_auth]
             upstream = \"auth\"
             path = \"/\"
             response_headers = [\"Remote-User\"]",
            judge.entry(),
            judge.entry()
        ),
    ))
}

/// The trailers of a client, with a value that no server may get by most of these names.
const TRAILERS: [(&str, bool); 12] = [
    ("x-sum", true),
    ("remote-user", false),
    ("remote_user", false),
    ("x-set", false),
    ("x_set", false),
    ("x-gone", false),
    ("x.gone", false),
    ("x-copy", false),
    ("x-own-id", false),
    ("x_other", false),
    ("x-forwarded-prefix", false),
    ("x-forwarded-for", false),
];

fn assert_stripped(trailers: &Fields, what: &str) {
    for (name, passes) in TRAILERS {
        assert_eq!(trailers.all(name).contains(&"forged"), passes, "{what}: {name} in {trailers:?}");
    }
}

#[test]
fn trailers_of_requests() {
    let origin = Origin::serving("fine");
    let judge = judge();
    let weir = start(&origin, &judge);
    let lines: String = TRAILERS.iter().map(|(name, _)| format!("{name}: forged\r\n")).collect();
    for target in ["/", "/buffered"] {
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n{lines}\r\n"
        );
        assert_eq!(Client::exchange(weir.web(), &request).status, 200);
        let seen = origin.last_request();
        assert_eq!((seen.text(), seen.field("remote-user")), ("hello".into(), Some("ann")));
        assert_stripped(&seen.body.trailers, "HTTP/1");
    }
    let fields = TRAILERS.map(|(name, _)| (name, "forged"));
    let mut client = Http2Client::connect(weir.web());
    for target in ["/", "/plain"] {
        let stream = client.post(target, &[]);
        client.data(stream, "hello", false);
        client.trailers(stream, &fields);
        assert_eq!(client.response(stream).status, 200);
        let seen = origin.last_request();
        if target == "/" {
            assert_stripped(&seen.body.trailers, "HTTP/2");
        } else {
            assert_eq!(
                seen.body.trailers.all("x-gone"),
                [""; 0],
                "what the listener removes, on every route"
            );
            assert_eq!(seen.body.trailers.all("x-sum"), ["forged"]);
        }
    }
}

/// What a server may say to Weir and not to clients, it cannot say behind its body either.
#[test]
fn trailers_of_responses() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Inner: 1\r\n\r\n5\r\nhello\r\n0\r\nX-Inner: 1\r\nX-Answer: 1\r\nX-Sum: 1\r\n\r\n",
            )?;
        }
    });
    let judge = judge();
    let weir = start(&origin, &judge);
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    let response = client.response();
    assert_eq!((response.field("x-inner"), response.field("x-answer")), (None, Some("set")));
    let of = |name: &str| response.body.trailers.all(name).len();
    assert_eq!((of("x-sum"), of("x-inner"), of("x-answer")), (1, 0, 0));
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get_with("/", &[("te", "trailers")]);
    let trailers = client.response(stream).trailers.expect("there are trailers");
    assert_eq!((trailers.all("x-sum").len(), trailers.all("x-inner").len()), (1, 0));
}
