//! The client against peers that answer well, badly or not at all.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use super::*;
use crate::destination::{HostAndPort, PeerAddress};

const WAIT: Duration = Duration::from_secs(20);

const BYTES_MAX: usize = 100_000;

/// A peer that answers one request after the other by what `answers` says, each connection by one list; it gives what it was sent.
fn answering(answers: &[&[&[u8]]]) -> (HttpClient, JoinHandle<Vec<String>>) {
    let owned = |answers: &&[&[u8]]| answers.iter().map(|answer| answer.to_vec()).collect();
    let answers: Vec<Vec<Vec<u8>>> = answers.iter().map(owned).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let received = std::thread::spawn(move || {
        let mut received = Vec::new();
        for connection in answers {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in connection {
                received.push(request(&mut stream));
                stream.write_all(&answer).unwrap();
            }
            let _gone = stream.shutdown(Shutdown::Write);
        }
        received
    });
    (HttpClient::new(HttpDestination::of_authority(&authority, None), WAIT), received)
}

fn request(stream: &mut impl Read) -> String {
    let mut received = Vec::new();
    let mut byte = [0];
    while !received.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&received));
        received.push(byte[0]);
    }
    String::from_utf8(received).unwrap()
}

fn get(target: &str) -> http::Request<Bytes> {
    http::Request::get(target).body(Bytes::new()).unwrap()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn body_of(client: &mut HttpClient, request: &http::Request<Bytes>) -> Result<String, ClientError> {
    let response = client.send(request, WAIT).await?.whole(BYTES_MAX, WAIT).await?;
    Ok(String::from_utf8(response.into_body()).unwrap())
}

#[test]
fn requests_have_the_form_of_origins() {
    let (mut client, received) = answering(&[&[&b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"[..]; 3]]);
    run(async {
        body_of(&mut client, &get("https://other.test/a?b=c")).await.unwrap();
        body_of(&mut client, &get("https://other.test")).await.unwrap();
        let post = http::Request::post("/p").header("x-consul-token", "t").body(Bytes::new()).unwrap();
        body_of(&mut client, &post).await.unwrap();
    });
    let PeerAddress::Tcp(HostAndPort { port, .. }) = client.destination.address else { unreachable!() };
    let host = format!("127.0.0.1:{port}");
    let received = received.join().unwrap();
    assert_eq!(received[0], format!("GET /a?b=c HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(received[1], format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let post = format!("POST /p HTTP/1.1\r\nX-Consul-Token: t\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(received[2], post);
}

#[test]
fn a_connection_is_kept_until_one_side_ends_it() {
    const KEPT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    const CLOSED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\ncd";
    // The second one ends by itself, the third as it has said, the fourth by its client.
    let (mut client, received) = answering(&[&[KEPT, KEPT, KEPT], &[CLOSED], &[KEPT], &[KEPT]]);
    run(async {
        for expected in ["ab", "ab", "ab", "cd", "ab"] {
            assert_eq!(body_of(&mut client, &get("/")).await.unwrap(), expected);
        }
        let response = client.send(&get("/"), WAIT).await.unwrap();
        assert_eq!(response.head.status, 200);
        drop(response);
        assert!(client.connection.is_none(), "its body was not read");
    });
    assert_eq!(received.join().unwrap().len(), 6);
}

#[test]
fn bodies_come_in_every_framing() {
    for (answer, expected) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nno\nno and more"[..], "no\nno"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n", "abcde"),
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", "to the end"),
        (b"HTTP/1.0 404 Not Found\r\n\r\nto the end", "to the end"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", "a"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
    ] {
        let (mut client, _received) = answering(&[&[answer]]);
        assert_eq!(run(body_of(&mut client, &get("/"))).unwrap(), expected);
    }
}

#[test]
fn a_body_without_an_end_comes_piece_by_piece() {
    let (first, second) =
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"2\r\nde\r\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    let mut client = HttpClient::new(HttpDestination::of_authority(&authority, None), WAIT);
    let (step, steps) = std::sync::mpsc::channel::<()>();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        request(&mut stream);
        stream.write_all(first).unwrap();
        steps.recv().unwrap();
        stream.write_all(second).unwrap();
        stream.read(&mut [0]).unwrap()
    });
    run(async {
        let mut response = client.send(&get("/"), WAIT).await.unwrap();
        let mut body = Vec::new();
        assert!(response.read(&mut body).await.unwrap());
        assert_eq!(body, b"abc");
        let more = tokio::time::timeout(Duration::from_millis(5), response.read(&mut body)).await;
        assert!(more.is_err(), "there is nothing yet");
        step.send(()).unwrap();
        assert!(response.read(&mut body).await.unwrap());
        assert_eq!(body, b"abcde");
    });
    assert_eq!(peer.join().unwrap(), 0, "who drops a response ends its connection");
}

#[test]
fn what_is_no_response_says_why() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(40_000)).into_bytes();
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(101)).into_bytes();
    let large = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[b'x'; BYTES_MAX + 1]].concat();
    for (answer, expected) in [
        (&b""[..], "Broken(Kind(UnexpectedEof))"),
        (b"HTTP/1.1 200", "Broken(Kind(UnexpectedEof))"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "Broken(Kind(UnexpectedEof))"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf", "Broken(Kind(UnexpectedEof))"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "Malformed("),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "Malformed("),
        (b"220 mail.example.test ready\r\n", "Malformed("),
        (&long, "Malformed("),
        (&many, "Malformed("),
        (&large, "TooLong"),
    ] {
        let (mut client, _received) = answering(&[&[answer]]);
        let error = format!("{:?}", run(body_of(&mut client, &get("/"))).unwrap_err());
        assert!(error.starts_with(expected), "{error} {}", answer[..answer.len().min(80)].escape_ascii());
        assert!(client.connection.is_none());
    }
}

#[test]
fn silence_and_absence_have_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let destination = HttpDestination::of_authority(&listener.local_addr().unwrap().to_string(), None);
    let mut client = HttpClient::new(destination.clone(), WAIT);
    let silent = run(async { client.send(&get("/"), Duration::from_millis(10)).await.map(|_| ()) });
    assert!(matches!(silent, Err(ClientError::TimedOut)), "{silent:?}");
    drop(listener);
    let refused = run(async { client.send(&get("/"), WAIT).await.map(|_| ()) });
    assert!(
        matches!(&refused, Err(ClientError::Unconnected(error)) if error.kind() == ErrorKind::ConnectionRefused),
        "{refused:?}"
    );
    let mut hurried = HttpClient::new(destination, Duration::ZERO);
    let late = run(async { hurried.send(&get("/"), WAIT).await.map(|_| ()) });
    assert!(matches!(late, Err(ClientError::Unconnected(_))), "{late:?}");
}

#[test]
fn a_socket_is_a_destination() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let received = request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        received
    });
    let mut client = HttpClient::new(HttpDestination::of_socket(path), WAIT);
    assert_eq!(run(body_of(&mut client, &get("/"))).unwrap(), "ok");
    assert!(peer.join().unwrap().contains("\r\nHost: localhost\r\n"));
}
