//! Interim responses around real exchanges: with bodies in both directions, on reused connections.

use crate::harness::{Client, Gate, Origin, Weir, origin::ok};

#[test]
fn an_interim_response_reaches_the_client_before_the_final_one_exists() {
    let hint_seen = Gate::new();
    let gate = hint_seen.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")?;
        gate.wait("the client has the 103");
        conn.send(ok("done"))?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/").status, 103);
    hint_seen.open();
    assert_eq!(client.response().text(), "done");
}

#[test]
fn interim_responses_during_an_upload() {
    let origin = Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            conn.send("HTTP/1.1 102 Processing\r\n\r\n")?;
            let request = conn.request_body(head)?;
            conn.send("HTTP/1.1 102 Processing\r\n\r\n")?;
            conn.send(ok(&request.text()))?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello");
        assert_eq!(client.response().status, 102);
        client.send("world");
        assert_eq!(client.response().status, 102);
        assert_eq!(client.response().text(), "helloworld");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn interim_responses_byte_by_byte() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send_bytewise(
                "HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: c\r\n\r\n",
            )?;
            conn.send_bytewise(ok("done"))?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..2 {
        client.send_get("/");
        let hints = [client.response(), client.response()];
        assert_eq!([hints[0].field("a"), hints[1].field("a")], [Some("b"), Some("c")]);
        assert_eq!(client.response().text(), "done");
    }
}
