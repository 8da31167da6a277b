//! Forty-eight groups of malformed or ambiguous HTTP/1.1 input, checked by the bytes that the server receives and by the response.
//!
//! `rows` lists the groups; each other file holds the tests of one topic, and each test names its rows. A request is one [`Case`]:
//! bytes in, and what must come of them. [`judge`] plays a table on one Weir and reports every case that went wrong, not just the
//! first.

mod rows;
mod lines;
mod framing;
mod chunks;
mod targets;
mod hop_by_hop;
mod upgrade;
mod expect;
mod interim;
mod responses;
mod connections;
mod sizes;
mod spoofing;
mod leniency;

use rows::row;

use crate::harness::message::Fields;
use crate::harness::{Client, End, Origin, Request, Weir, latin1};

/// One request and what must come of it.
struct Case {
    row: u8,
    variant: String,
    send: Vec<u8>,
    want: Want,
}

/// What must come of a request.
#[derive(Debug, Clone)]
enum Want {
    /// One of these statuses and a closed connection; not one byte reaches the origin.
    Refused(&'static [u16]),
    /// The fault is inside the body: refused likewise, and the origin never holds a complete request.
    RefusedInBody(&'static [u16]),
    /// The origin receives exactly this, once, and the connection goes on.
    Forwarded(Forwarded),
    /// Either is fine.
    Either(&'static [u16], Forwarded),
}

/// A request as the origin must receive it.
#[derive(Debug, Clone, Default)]
struct Forwarded {
    start_line: String,
    /// The field lines in order, without those that Weir adds and without framing.
    fields: Vec<String>,
    /// The one line that frames the body, none for a request without body.
    framing: Option<String>,
    body: String,
}

const BAD_REQUEST: Want = Want::Refused(&[400]);
const BAD_BODY: Want = Want::RefusedInBody(&[400]);

/// What Weir itself may add to a forwarded request.
const ADDED: &[&str] = &[
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "forwarded",
    "via",
    "x-request-id",
    "connection",
];
const FRAMING: &[&str] = &["content-length", "transfer-encoding"];

fn case(row: u8, variant: impl Into<String>, send: impl Into<Vec<u8>>, want: Want) -> Case {
    Case { row, variant: variant.into(), send: send.into(), want }
}

/// `GET /` with Host and one more line, which may be any bytes.
fn get_with(line: impl AsRef<[u8]>) -> Vec<u8> {
    [b"GET / HTTP/1.1\r\nHost: a.test\r\n", line.as_ref(), b"\r\n\r\n"].concat()
}

/// `POST /` with Host, one more line and a body.
fn post_with(line: impl AsRef<[u8]>, body: impl AsRef<[u8]>) -> Vec<u8> {
    [b"POST / HTTP/1.1\r\nHost: a.test\r\n", line.as_ref(), b"\r\n\r\n", body.as_ref()].concat()
}

/// A chunked `POST /` with these bytes as its body.
fn chunked(body: impl AsRef<[u8]>) -> Vec<u8> {
    post_with("Transfer-Encoding: chunked", body)
}

/// A GET as it must arrive.
fn forwarded_get(target: &str, fields: &[&str]) -> Forwarded {
    Forwarded {
        start_line: format!("GET {target} HTTP/1.1"),
        fields: fields.iter().map(|&line| line.to_owned()).collect(),
        ..Forwarded::default()
    }
}

/// A `POST /` as it must arrive.
fn forwarded_post(framing: &str, body: &str) -> Forwarded {
    Forwarded {
        start_line: "POST / HTTP/1.1".to_owned(),
        fields: vec!["Host: a.test".to_owned()],
        framing: Some(framing.to_owned()),
        body: body.to_owned(),
    }
}

/// Plays all `cases` on one Weir with its default settings; panics with every case that went wrong.
fn judge(cases: &[Case]) {
    judge_on(Weir::proxying, cases);
}

/// Plays all `cases` on the Weir that `start` puts in front of an origin.
fn judge_on(start: impl FnOnce(&Origin) -> Weir, cases: &[Case]) {
    // The origin closes after each answer, so that each request that reaches it has a connection of its own and the
    // connections tell, in order of acceptance, what was forwarded.
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nseen")?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let got = play(&weir, &origin, case).err()?;
            let sent: String = latin1(&case.send).chars().take(400).collect();
            Some(format!(
                "{}: {}\n  sent     {sent:?}\n  expected {:?}\n  got      {got}",
                row(case.row),
                case.variant,
                case.want
            ))
        })
        .collect();
    assert_none_is_wrong(cases.len(), &wrong);
}

/// Panics with a report of every case that went wrong.
fn assert_none_is_wrong(cases: usize, wrong: &[String]) {
    assert!(wrong.is_empty(), "{} of {cases} cases are wrong:\n\n{}\n", wrong.len(), wrong.join("\n\n"));
}

fn play(weir: &Weir, origin: &Origin, case: &Case) -> Result<(), String> {
    let before = origin.connections();
    let mut client = Client::connect(weir.web());
    // A refusal may come while the rest is still being sent.
    let _ = client.send_what_is_taken(&case.send);
    let method = latin1(&case.send).split(' ').next().unwrap_or_default().to_owned();
    let answer = client.try_response_to(&method).map_err(|end| format!("no answer: {end}"))?;
    let refused = |statuses: &[u16], client: &mut Client| {
        if !statuses.contains(&answer.status) {
            return Err(format!("status {}, reason {:?}", answer.status, answer.reason()));
        }
        assert_refusal(&answer.head.fields, client)
    };
    match &case.want {
        Want::Refused(statuses) => {
            refused(statuses, &mut client)?;
            nothing_arrived(weir, origin, before)
        }
        Want::RefusedInBody(statuses) => {
            refused(statuses, &mut client)?;
            nothing_completed(weir, origin, before)
        }
        Want::Forwarded(want) => {
            compare(&forwarded(weir, origin, before, answer.status)?, want)?;
            goes_on(&mut client)
        }
        // Weir may answer this itself without giving up the connection, when the framing is beyond doubt.
        Want::Either(statuses, _) if statuses.contains(&answer.status) && !answer.closes() => {
            nothing_arrived(weir, origin, before)?;
            goes_on(&mut client)
        }
        Want::Either(statuses, _) if answer.status != 200 => {
            refused(statuses, &mut client)?;
            nothing_arrived(weir, origin, before)
        }
        Want::Either(_, want) => {
            compare(&forwarded(weir, origin, before, answer.status)?, want)?;
            goes_on(&mut client)
        }
    }
}

/// A refusal names its reason, announces the close and closes.
fn assert_refusal(fields: &Fields, client: &mut Client) -> Result<(), String> {
    if fields.one("weir-reason").is_none_or(str::is_empty) {
        return Err(format!("a refusal without weir-reason: {fields:?}"));
    }
    if !fields.lists("connection", "close") {
        return Err(format!("a refusal without `Connection: close`: {fields:?}"));
    }
    match client.take_to_end() {
        (rest, End::Closed) if rest.is_empty() => Ok(()),
        (rest, end) => Err(format!("after the refusal came {:?}, then {end}", latin1(&rest))),
    }
}

/// Sends one more request through Weir; returns the numbers of the connections since `before` that are not its own.
/// All that was forwarded before the answer to `before` is ahead of this request in the accept queue.
fn others_since(weir: &Weir, origin: &Origin, before: usize) -> Vec<usize> {
    let response = Client::get(weir.web(), "/fence");
    assert_eq!(response.status, 200, "the fence must pass: {response:?}");
    let fence = origin.last_request().connection;
    (before..fence).collect()
}

fn nothing_arrived(weir: &Weir, origin: &Origin, before: usize) -> Result<(), String> {
    let others = others_since(weir, origin, before);
    if others.is_empty() {
        return Ok(());
    }
    let seen = others.into_iter().map(|index| {
        let end = origin.wait_for_end(index);
        format!("{:?} then {end}", latin1(&origin.connection(index).received))
    });
    Err(format!("the refusal, but the origin received {}", seen.collect::<Vec<_>>().join(" and ")))
}

fn nothing_completed(weir: &Weir, origin: &Origin, before: usize) -> Result<(), String> {
    for index in others_since(weir, origin, before) {
        let end = origin.wait_for_end(index);
        if let Some(request) = origin.requests().iter().find(|request| request.connection == index) {
            return Err(format!(
                "the refusal, but the origin holds a complete request: {request:?}, then {end}"
            ));
        }
    }
    Ok(())
}

fn forwarded(weir: &Weir, origin: &Origin, before: usize, status: u16) -> Result<Request, String> {
    let others = others_since(weir, origin, before);
    let requests: Vec<_> = origin.requests().into_iter().filter(|r| others.contains(&r.connection)).collect();
    match <[Request; 1]>::try_from(requests) {
        Ok([request]) if status == 200 => Ok(request),
        Ok([request]) => Err(format!("status {status}, though the origin received {request:?}")),
        Err(requests) => {
            Err(format!("status {status} and {} requests at the origin: {requests:?}", requests.len()))
        }
    }
}

fn compare(got: &Request, want: &Forwarded) -> Result<(), String> {
    let is = |name: &str, list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
    let lines = |keep: &dyn Fn(&str) -> bool| -> Vec<String> {
        let kept = got.head.fields.0.iter().filter(|(name, _)| keep(name));
        kept.map(|(name, value)| format!("{name}: {value}")).collect()
    };
    let fields = lines(&|name| !is(name, ADDED) && !is(name, FRAMING));
    let framing = lines(&|name| is(name, FRAMING));
    let want_framing: Vec<String> = want.framing.iter().cloned().collect();
    let same_framing = framing.len() == want_framing.len()
        && framing.iter().zip(&want_framing).all(|(got, want)| got.eq_ignore_ascii_case(want));
    let same = got.head.start_line == want.start_line
        && fields == want.fields
        && same_framing
        && got.text() == want.body
        && got.body.extensions.is_empty();
    if same {
        Ok(())
    } else {
        Err(format!("forwarded {:?} {fields:?} {framing:?} {:?}", got.head.start_line, got.body))
    }
}

fn goes_on(client: &mut Client) -> Result<(), String> {
    let sent = client.send_what_is_taken("GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let next = sent.and_then(|()| client.try_response_to("GET"));
    match next {
        Ok(response) if response.status == 200 => Ok(()),
        Ok(response) => {
            Err(format!("the case itself passed, the next request was answered {}", response.status))
        }
        Err(end) => Err(format!("the case itself passed, the next request was not answered: {end}")),
    }
}
