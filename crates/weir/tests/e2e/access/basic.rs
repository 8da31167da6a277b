//! HTTP Basic: users with passwords, and what guessing them costs others.

use data_encoding::BASE64;

use crate::harness::http2::start_with;
use crate::harness::scripts::tunnelling;
use crate::harness::{
    Client, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

/// Of `s3cret`, each made by `htpasswd`.
const BCRYPT: &str = "$2y$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm";
const SHA1: &str = "{SHA}/vNB+F2HQ559kaLUZbmHHvZrXpg=";
const MD5: &str = "$apr1$i/Nwo5cp$X9vbpH4taQ4tEcVud0Gi8.";
const SHA512: &str = "$6$0lexU70I7thB1Sxu$luQmD6RlY1T1UqgyavIR6q96RmL.pTyrRr3NqGNdMc9Gt3u3Rxk9h.LqHD6TC3wkumkid1nqc3Xm1Uw.GDWzb0";
const ARGON2: &str = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

/// Of `right`, and slow: about as much work as 64 of the other ones.
const SLOW: &str = "$2y$11$nEyYoQUfaYbeNRGP5DzSxOxsBb45OAbNfjSqst4nL08/FCtzXAW0C";

fn basic(credentials: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64.encode(credentials.as_bytes()))
}

fn fetch(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// Weir with the route `/` for users of the file `users`, and `/open` for all.
fn start(origin: &Origin, users: &str, keys: &str, settings: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("users"), users).expect("the folder of the test takes a file");
    let config = config_with(
        &[origin.named("a")],
        &format!(
            "listener.web.access_log.format = \"{{user}} {{status}} {{reason}} {{target}}\"
             listener.web.access_log.output = \"file:{{dir}}/access.log\"
             listener.web.route = [
                {{ path = \"/\", upstream = \"app\", basic = {{ users_file = \"users\", {keys} }}, request_headers = {{ set = {{ x-user = \"{{user}}\" }} }} }},
                {{ path = \"/open\", upstream = \"app\" }},
             ]
             {settings}"
        ),
    );
    Weir::start_in(folder, &config)
}

#[test]
fn a_user_with_the_right_password_comes_in() {
    let origin = Origin::serving("fine");
    let users = format!("ann:{BCRYPT}\nbob:{SHA1}\ncy:{MD5}\n# x\ndora:{SHA512}\neve:{ARGON2}\n");
    let weir = start(&origin, &users, "", "");
    // Twice each: verified, and remembered.
    for name in ["ann", "bob", "cy", "dora", "ann", "bob", "cy", "dora"] {
        let fields = format!("{}X-User: root\r\n", basic(&format!("{name}:s3cret")));
        assert_eq!(fetch(&weir, "/", &fields).status, 200, "{name}");
        let request = origin.last_request();
        assert_eq!(request.fields().all("x-user"), [name], "no client chooses it");
        assert!(request.field("authorization").is_some(), "servers may want to know it, too");
    }
    assert_eq!(fetch(&weir, "/", &basic("eve:password")).status, 200);
    assert_eq!(fetch(&weir, "/open", "").status, 200);
}

#[test]
fn others_are_asked_for_it() {
    let origin = Origin::serving("fine");
    let weir = start(&origin, &format!("ann:{BCRYPT}\nbob:{BCRYPT}\n"), "realm = \"Staff only\"", "");
    let mut client = Client::connect(weir.web());
    for (fields, reason) in [
        (String::new(), "credentials-missing"),
        ("Authorization: Bearer abc\r\n".to_owned(), "credentials-missing"),
        (basic("ann:wrong"), "credentials-wrong"),
        (basic("ann:wrong"), "credentials-wrong"),
        (basic("unknown:s3cret"), "credentials-wrong"),
        (basic(":"), "credentials-wrong"),
        (basic("ann:"), "credentials-wrong"),
        (basic("ann:s3cret "), "credentials-wrong"),
    ] {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
        let response = client.response();
        assert_eq!((response.status, response.reason()), (401, Some(reason)), "{fields}");
        assert_eq!(response.field("www-authenticate"), Some("Basic realm=\"Staff only\", charset=\"UTF-8\""));
        assert!(!response.closes(), "the next request on the connection may have credentials");
    }
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n", basic("bob:s3cret")));
    assert_eq!(client.response().status, 200);
    assert_eq!(origin.requests().len(), 1, "nothing else has reached the server");
    let log = weir.access_log(9);
    assert_eq!(log[0], "- 401 credentials-missing /");
    assert_eq!(log[4], "unknown 401 credentials-wrong /");
    assert_eq!(log[8], "bob 200 - /");
}

#[test]
fn malformed_credentials_are_refused() {
    let origin = Origin::serving("fine");
    let weir = start(&origin, &format!("ann:{BCRYPT}\n"), "", "");
    let right = basic("ann:s3cret");
    let long = "x".repeat(1100);
    for fields in [
        "Authorization: Basic\u{20}!!!\r\n".to_owned(),
        "Authorization: Basic YW5uOnMzY3JldA\r\n".to_owned(),
        "Authorization: Basic YW5uOnMzY3JldA== x\r\n".to_owned(),
        basic("ann"),
        basic("ann:s3cret\0"),
        basic("ann\0x:s3cret"),
        basic("ann:s3cret\r\nX-User: root"),
        basic(&format!("ann:{long}")),
        format!("{right}{right}"),
        format!("{right}{}", basic("ann:other")),
    ] {
        let response = fetch(&weir, "/", &fields);
        assert_eq!((response.status, response.reason()), (400, Some("credentials-malformed")), "{fields:?}");
    }
    let huge = format!("Authorization: Basic {}\r\n", "YQ==".repeat(20_000));
    assert_eq!(fetch(&weir, "/", &huge).status, 431);
    assert_eq!(origin.connections(), 0);
    assert_eq!(fetch(&weir, "/", &right).status, 200);
}

#[test]
fn http_2() {
    let origin = Origin::serving("fine");
    let weir = start_with(
        &origin,
        &format!(
            "listener.web.route = [{{ path = \"/\", upstream = \"app\", basic = {{ users = {{ ann = \"{}\" }}, forward_credentials = false }} }}]",
            BCRYPT.replace('$', "$$")
        ),
    );
    let mut client = Http2Client::connect(weir.web());
    let right = BASE64.encode(b"ann:s3cret");
    let streams: Vec<u32> = ["", "Basic eA==", "Basic YW5uOnc="]
        .iter()
        .map(|value| client.get_with("/", &[("authorization", *value)]))
        .collect();
    let found: Vec<u16> = streams.iter().map(|stream| client.response(*stream).status).collect();
    assert_eq!(found, [401, 400, 401]);
    // The same credentials at once, before they are known.
    let streams: Vec<u32> =
        (0..50).map(|_| client.get_with("/", &[("authorization", &format!("basic {right}"))])).collect();
    for stream in streams {
        assert_eq!(client.response(stream).status, 200);
    }
    assert_eq!(origin.last_request().field("authorization"), None);
    let stream = client.get("/");
    let response = client.response(stream);
    assert_eq!(response.field("www-authenticate"), Some("Basic realm=\"Restricted\", charset=\"UTF-8\""));
}

#[test]
fn every_action_is_behind_it_and_preflights_are_not() {
    let origin = tunnelling();
    let settings =
        "listener.web.route = [
            { path = \"/\", upstream = \"app\", basic = { users_file = \"users\" }, cors = { origins = [\"https://app.test\"], credentials = true } },
            { path = \"/to\", redirect = { to = \"https://b.test/\" }, basic = { users_file = \"users\" } },
            { path = \"/files\", strip_prefix = true, files = { root = \"{dir}\" }, basic = { users_file = \"users\" }, error_pages = [{ status = 401, html = \"page.html\" }] },
            { path = \"/text\", respond = { body = \"hello\" }, basic = { users_file = \"users\" } },
         ]";
    let folder = temporary_folder();
    std::fs::write(folder.path().join("users"), format!("ann:{BCRYPT}\n")).expect("it is written");
    std::fs::write(folder.path().join("page.html"), "own page").expect("it is written");
    let weir = Weir::start_in(folder, &config_with(&[origin.named("a")], settings));
    let right = basic("ann:s3cret");
    assert_eq!((fetch(&weir, "/to", "").status, fetch(&weir, "/text", "").status), (401, 401));
    assert_eq!(
        (fetch(&weir, "/to", &right).status, fetch(&weir, "/text", &right).text()),
        (308, "hello".into())
    );
    let response = fetch(&weir, "/files/page.html", "Accept: text/html\r\n");
    assert_eq!((response.status, response.text()), (401, "own page".to_owned()));
    assert_eq!(response.field("www-authenticate"), Some("Basic realm=\"Restricted\", charset=\"UTF-8\""));
    assert_eq!(fetch(&weir, "/files/page.html", &right).status, 200);
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(fetch(&weir, "/", upgrade).status, 401);
    assert_eq!(fetch(&weir, "/", &format!("{upgrade}{right}")).status, 101);
    let cors = "Origin: https://app.test\r\n";
    let preflight =
        format!("OPTIONS / HTTP/1.1\r\nHost: a.test\r\n{cors}Access-Control-Request-Method: PUT\r\n\r\n");
    assert_eq!(Client::exchange(weir.web(), &preflight).status, 204);
    // A script may learn that it has to log in.
    let response = fetch(&weir, "/", cors);
    assert_eq!(
        (response.status, response.field("access-control-allow-origin")),
        (401, Some("https://app.test"))
    );
    // And OPTIONS without the words of a preflight is a request like any other.
    let options = format!("OPTIONS / HTTP/1.1\r\nHost: a.test\r\n{cors}\r\n");
    assert_eq!(Client::exchange(weir.web(), &options).status, 401);
}

#[test]
fn a_body_that_comes_with_wrong_credentials_is_dropped() {
    let origin = Origin::serving("fine");
    let weir = start(&origin, &format!("ann:{BCRYPT}\n"), "", "");
    let mut client = Client::connect(weir.web());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().status, 401);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n{}\r\nhello",
        basic("ann:s3cret")
    ));
    assert_eq!(client.response().status, 200);
    assert_eq!(origin.last_request().text(), "hello");
    // One that is still to come ends the connection.
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5000000\r\n\r\nhello");
    let response = client.response();
    assert!(response.status == 401 && response.closes());
}

#[test]
fn a_changed_file_counts_and_a_bad_one_does_not() {
    let origin = Origin::serving("fine");
    let weir = start(&origin, &format!("ann:{BCRYPT}\n"), "reload = \"100ms\"", "");
    let write = |users: &str| std::fs::write(weir.folder().join("users"), users).expect("it is written");
    let status = |credentials: &str| fetch(&weir, "/", &basic(credentials)).status;
    assert_eq!((status("ann:s3cret"), status("bob:s3cret")), (200, 401));
    write(&format!("bob:{SHA1}\n"));
    eventually("the new user counts", || status("bob:s3cret") == 200);
    assert_eq!(status("ann:s3cret"), 401, "what was remembered of the user is forgotten");
    write("bob:nonsense\n");
    eventually("the log names the line", || {
        let log = weir.stderr();
        log.contains("line 1") && log.contains("cannot be used")
    });
    assert_eq!(status("bob:s3cret"), 200);
    write(&format!("bob:{ARGON2}\n"));
    eventually("the new password counts", || status("bob:password") == 200);
    assert_eq!(status("bob:s3cret"), 401, "and the old one no more");
}

#[test]
fn guessing_does_not_hold_up_others() {
    let origin = Origin::serving("fine");
    let weir = start(&origin, &format!("ann:{SLOW}\n"), "", "");
    let right = basic("ann:right");
    assert_eq!(fetch(&weir, "/", &right).status, 200);
    let mut flood: Vec<Client> = (0..40).map(|_| Client::connect(weir.web())).collect();
    for (number, client) in flood.iter_mut().enumerate() {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n", basic(&format!("ann:{number}"))));
    }
    // What is known, or asks for nothing, does not wait for the guesses: all of these are answered before the last of them.
    for _ in 0..5 {
        assert_eq!((fetch(&weir, "/", &right).status, fetch(&weir, "/open", "").status), (200, 200));
    }
    let done = std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    let verified = done.matches("credentials-wrong").count();
    assert!(verified < 8, "{verified} of 8 guesses were verified meanwhile");
    let responses: Vec<Response> = flood.iter_mut().map(Client::response).collect();
    for response in &responses {
        assert_eq!(response.field("retry-after").is_some(), response.status == 429);
    }
    let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    let count = |status: u16| statuses.iter().filter(|found| **found == status).count();
    assert!(count(429) > 20 && count(401) >= 8 && count(429) + count(401) == 40, "{statuses:?}");
    eventually("refusals are counted", || {
        weir.metrics().sum("weir_listener_failures_total", &["reason=\"credential-checks-pending\""]) > 20.0
    });
}
