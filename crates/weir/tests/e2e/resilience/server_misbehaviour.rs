//! Servers that reset, stall, answer garbage, close early or dribble: the right status, no hang, and the next request served.

use crate::harness::{Client, Connection, End, Gate, Origin, ReservedAddress, Weir, origin::ok};

type Deed = fn(&mut Connection) -> Option<()>;

/// What the server does to a request, and the status of the answer; `None`: the response is cut off.
const DEEDS: &[(&str, Option<u16>, Deed)] = &[
    ("resets on the request", Some(502), |conn| {
        conn.reset();
        None
    }),
    ("closes on the request", Some(502), |_| None),
    ("finishes and stays", Some(502), |conn| {
        conn.finish();
        conn.wait_for_end();
        None
    }),
    ("stalls before the head", Some(504), |conn| {
        conn.wait_for_end();
        None
    }),
    ("stalls in the status line", Some(504), |conn| {
        conn.send("HTTP/1.1 2")?;
        conn.wait_for_end();
        None
    }),
    ("stalls in the head", Some(504), |conn| {
        conn.send("HTTP/1.1 200 OK\r\nContent-Le")?;
        conn.wait_for_end();
        None
    }),
    ("stalls after an interim response", Some(504), |conn| {
        conn.send("HTTP/1.1 103 Early Hints\r\n\r\n")?;
        conn.wait_for_end();
        None
    }),
    ("stalls in the body", None, |conn| {
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")?;
        conn.wait_for_end();
        None
    }),
    ("stalls in a chunk", None, |conn| {
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello")?;
        conn.wait_for_end();
        None
    }),
    ("answers garbage", Some(502), |conn| {
        conn.send(b"\xde\xad\xbe\xef\r\n\r\n\0\0\0\0")?;
        conn.wait_for_end();
        None
    }),
    ("answers garbage without end", Some(502), |conn| {
        loop {
            conn.send([b'x'; 4096])?;
        }
    }),
    ("sends a head without end", Some(502), |conn| {
        conn.send("HTTP/1.1 200 OK\r\n")?;
        loop {
            conn.send("X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n")?;
        }
    }),
    ("sends a huge field", Some(502), |conn| {
        conn.send(format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(200_000)))?;
        conn.wait_for_end();
        None
    }),
    ("closes in the head", Some(502), |conn| {
        conn.send("HTTP/1.1 200 OK\r\nX:")?;
        None
    }),
    ("closes in the body", None, |conn| {
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")?;
        None
    }),
    ("resets in the body", None, |conn| {
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")?;
        conn.reset();
        None
    }),
    ("closes before the last chunk", None, |conn| {
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")?;
        None
    }),
    ("dribbles", Some(200), |conn| {
        conn.send_bytewise("HTTP/1.1 200 OK\r\nServer: slow\r\nContent-Length: 5\r\n\r\nhello")
    }),
    ("sends two responses", Some(200), |conn| {
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")?;
        conn.wait_for_end();
        None
    }),
];

fn play(method: &str) {
    // All deeds share one Weir; the target says which deed it is.
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            match request.target().strip_prefix("/deed/") {
                Some(index) => DEEDS[index.parse::<usize>().expect("the target numbers the deed")].2(conn)?,
                None => conn.send(ok("sound"))?,
            }
        }
    });
    let weir = Weir::proxying_with(
        &origin,
        "upstream.app.timeouts.response = \"300ms\"\nupstream.app.timeouts.relay = \"300ms\"",
    );
    // Stalls take their time limit each, so the deeds run side by side.
    let clients: Vec<_> = DEEDS
        .iter()
        .enumerate()
        .map(|(index, _)| {
            let mut client = Client::connect(weir.web());
            client.send(format!(
                "{method} /deed/{index} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi"
            ));
            client
        })
        .collect();
    let mut wrong = Vec::new();
    for ((deed, status, _), mut client) in DEEDS.iter().zip(clients) {
        if let Err(got) = judge(*status, &mut client) {
            wrong.push(format!("a server that {deed}: expected {status:?}, got {got}"));
        }
        let next = Client::get(weir.web(), "/next");
        if next.text() != "sound" {
            wrong.push(format!("after a server that {deed}: the next request was answered {next:?}"));
        }
    }
    assert!(wrong.is_empty(), "{method}:\n{}", wrong.join("\n"));
}

fn judge(status: Option<u16>, client: &mut Client) -> Result<(), String> {
    let mut outcome = client.try_response_to("GET");
    while outcome.as_ref().is_ok_and(|response| response.status < 200) {
        outcome = client.try_response_to("GET");
    }
    match (status, outcome) {
        (None, Err(End::Closed | End::Reset)) => Ok(()),
        (Some(status), Ok(response))
            if response.status == status && (status == 200) != response.reason().is_some() =>
        {
            client.send_get("/next");
            match client.try_response_to("GET") {
                Ok(next) if next.text() == "sound" => Ok(()),
                Err(End::Closed) if response.closes() => Ok(()),
                other => Err(format!("the right status, then {other:?}")),
            }
        }
        (_, other) => Err(format!("{other:?}")),
    }
}

#[test]
fn each_deed_on_get() {
    play("GET");
}

#[test]
fn each_deed_on_post() {
    play("POST");
}

#[test]
fn a_server_that_refuses_connections() {
    let place = ReservedAddress::new();
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{}\"]\n",
        place.address()
    ));
    let mut client = Client::connect(weir.web());
    let response = client.fetch("/");
    assert_eq!((response.status, response.reason()), (502, Some("connect-refused")), "{response:?}");
    // The server comes back on the same address: the same client is served.
    let _origin = Origin::listen(place.listener(), |conn| {
        conn.request()?;
        conn.send(ok("back"))
    });
    assert_eq!(client.fetch("/").text(), "back");
}

/// A server that takes the connection and never reads: a body larger than every buffer must run into a time limit.
#[test]
fn a_server_that_never_reads() {
    let answered = Gate::new();
    let released = answered.clone();
    let origin = Origin::start(move |conn| {
        let head = conn.head()?;
        if head.word(0) == "GET" {
            return conn.send(ok("sound"));
        }
        released.wait("the client has its answer");
        None
    });
    let weir = Weir::proxying_with(&origin, "upstream.app.timeouts.send = \"300ms\"");
    let mut client = Client::connect(weir.web());
    client.send("POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000\r\n\r\n");
    let mut writer = client.duplicate();
    std::thread::spawn(move || while writer.send_what_is_taken([b'x'; 65_536]).is_ok() {});
    let response = client.response();
    answered.open();
    assert_eq!(response.status, 504, "{response:?}");
    assert!(response.reason().is_some());
    assert_eq!(Client::get(weir.web(), "/next").text(), "sound");
}
