//! The client against listeners that answer well, badly or not at all.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use super::*;

/// A listener that answers one request with `answer`; gives where it is, and what it was asked.
fn answering(answer: &'static [u8]) -> (AdminEndpoint, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = AdminEndpoint::of_listener(listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut buf = [0; 1024];
        while !asked.windows(4).any(|window| window == b"\r\n\r\n") {
            let len = stream.read(&mut buf).unwrap();
            asked.extend_from_slice(&buf[..len]);
        }
        stream.write_all(answer).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        String::from_utf8(asked).unwrap()
    });
    (endpoint, asked)
}

fn client(endpoint: AdminEndpoint) -> AdminClient {
    AdminClient { endpoint, authorization: None, time_max: TIME_MAX }
}

/// The message when it fails.
fn complaint<T: std::fmt::Debug>(outcome: Result<T, CommandError>) -> String {
    match outcome.expect_err("it fails") {
        CommandError::Failed { error, help } => format!("{error:#}; {}", help.unwrap_or_default()),
        CommandError::Usage { what, help } => format!("{what}; {}", help.unwrap_or_default()),
        CommandError::Config(diagnostics) => diagnostics.to_string(),
    }
}

#[test]
fn an_answer_is_read_to_its_end() {
    let (endpoint, asked) =
        answering(b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nno\nno");
    let host = endpoint.to_string();
    let answer = client(endpoint).get("/api/thing?a=b").unwrap();
    assert_eq!(
        answer,
        AdminResponse { status: 404, content_type: "text/plain".into(), body: b"no\nno".into() }
    );
    let asked = asked.join().unwrap();
    assert!(asked.starts_with("GET /api/thing?a=b HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains(&format!("\r\nHost: {host}\r\n")) && !asked.contains("Authorization"), "{asked}");
}

#[test]
fn a_post_has_its_body_and_its_credentials() {
    let (endpoint, asked) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "open sesame\n").unwrap();
    let arguments = AdminArguments {
        admin: Some(endpoint),
        user: Some(format!("ali:{}", file.display())),
        ..AdminArguments::default()
    };
    let client = arguments.client().unwrap().within(Duration::from_secs(20));
    assert_eq!(client.post("/x", "text/plain", b"").unwrap().status, 200);
    let asked = asked.join().unwrap();
    assert!(asked.contains("\r\nAuthorization: Basic YWxpOm9wZW4gc2VzYW1l\r\n"), "{asked}");
    assert!(asked.contains("\r\nContent-Length: 0\r\n"), "{asked}");
    let arguments = AdminArguments { token_file: Some(file), ..AdminArguments::default() };
    assert_eq!(arguments.authorization().unwrap().as_deref(), Some("Bearer open sesame"));
}

#[test]
fn what_is_no_answer_says_why() {
    for (answer, what) in [
        (
            &b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"[..],
            "requires credentials (401); give --user",
        ),
        (b"220 mail.example.test ready\r\n", "does not speak HTTP; something else than Weir"),
        (b"", "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "closed the connection without an answer"),
    ] {
        let (endpoint, asked) = answering(answer);
        let message = complaint(client(endpoint).get("/"));
        assert!(message.contains(what), "{message}");
        asked.join().unwrap();
    }
    let (endpoint, asked) = answering(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    let known = AdminClient { authorization: Some("Bearer x".into()), ..client(endpoint) };
    assert!(complaint(known.get("/")).contains("does not know these credentials (401)"));
    asked.join().unwrap();
}

#[test]
fn silence_has_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client =
        client(AdminEndpoint::of_listener(listener.local_addr().unwrap())).within(Duration::from_millis(30));
    assert!(complaint(client.get("/")).contains("did not answer in time"));
}

#[test]
fn a_missing_listener_is_reported_with_advice() {
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let message = complaint(client(AdminEndpoint::of_listener(nowhere)).get("/"));
    assert!(message.contains("nothing listens there") && message.contains("`admin.address`"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.sock");
    let message = complaint(client(AdminEndpoint::Unix(path.clone())).get("/"));
    assert!(message.contains("weir.sock is not there"), "{message}");
    drop(UnixListener::bind(&path).unwrap());
    let message = complaint(client(AdminEndpoint::Unix(path)).get("/"));
    assert!(message.contains("the Weir that made the file has ended"), "{message}");
    let (what, help) = of_permission();
    assert!(what.contains("may not be opened by this user") && help.contains("write permission"), "{what}");
}

/// Root may open every socket, so the error is made.
fn of_permission() -> (String, String) {
    let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    AdminEndpoint::Unix("/run/weir.sock".into()).explain(&weir_client::ClientError::Unconnected(denied))
}

#[test]
fn a_socket_is_asked_like_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buf = [0; 1024];
        let len = stream.read(&mut buf).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        String::from_utf8_lossy(&buf[..len]).into_owned()
    });
    assert_eq!(client(AdminEndpoint::Unix(path)).get("/").unwrap().text(), "ok");
    assert!(asked.join().unwrap().contains("\r\nHost: localhost\r\n"));
}

#[test]
fn the_config_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    let of = |admin: &str| {
        let rest = "listener.web.address = \"127.0.0.1:8080\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"127.0.0.1:1\"]\n";
        std::fs::write(&file, format!("{admin}\n{rest}")).unwrap();
        AdminArguments { config: Some(file.clone()), ..AdminArguments::default() }.client()
    };
    let found = of("admin.address = \"0.0.0.0:9000\"").unwrap();
    assert_eq!(found.endpoint, AdminEndpoint::Tcp("127.0.0.1:9000".into()));
    assert!(complaint(of("")).contains("set `admin.address"));
    assert!(complaint(of("admin.address = \"127.0.0.1:0\"")).contains("leaves the port to the system"));
    assert!(complaint(AdminArguments::default().client()).contains("--admin ADDRESS"));
    // Broken since Weir read it, in another table, or no TOML any more.
    for broken in ["listener.web.adress = 1\n", "[upstream.b\nx\n"] {
        let found = of(&format!("admin.socket = \"unix:/run/w.sock\"\n{broken}")).unwrap();
        assert_eq!(found.endpoint, AdminEndpoint::Unix("/run/w.sock".into()), "{broken}");
    }
    assert!(matches!(of("listener.web.adress = 1"), Err(CommandError::Config(_))));
    for path in ["/run/w.sock", "unix:/run/w.sock"] {
        let arguments = AdminArguments { socket: Some(path.into()), ..AdminArguments::default() };
        assert_eq!(arguments.client().unwrap().endpoint, AdminEndpoint::Unix("/run/w.sock".into()));
    }
}

#[test]
fn endpoints_are_read_from_text() {
    let tcp = |text: &str| Ok(AdminEndpoint::Tcp(text.into()));
    for (text, expected) in [
        ("127.0.0.1:9000", tcp("127.0.0.1:9000")),
        ("[::1]:9000", tcp("[::1]:9000")),
        ("weir.example.test:9000", tcp("weir.example.test:9000")),
        (":9000", tcp("127.0.0.1:9000")),
        ("unix:/run/weir.sock", Ok(AdminEndpoint::Unix("/run/weir.sock".into()))),
    ] {
        assert_eq!(text.parse(), expected, "{text}");
    }
    for (text, what) in [
        ("unix:", "a path is missing"),
        ("/run/weir.sock", "`unix:/run/weir.sock`"),
        ("localhost", "host and port"),
        ("localhost:http", "`http` is no port"),
        ("http://localhost:9000", "host and port alone"),
    ] {
        let message = text.parse::<AdminEndpoint>().unwrap_err();
        assert!(message.contains(what), "{text}: {message}");
    }
}
