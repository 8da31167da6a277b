//! `satisfy = "any"`: a list or authentication admits a request, and nothing passes that neither has admitted.

use std::time::Duration;

use data_encoding::BASE64;

use crate::harness::origin::ok;
use crate::harness::scripts::echo;
use crate::harness::watchdog::now;
use crate::harness::{CLOSED_PORT, Client, Http2Client, Origin, Response, Weir, config_with, eventually};

/// Of `s3cret`.
const BCRYPT: &str = "$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm";

/// The office, in a network that is closed otherwise.
const LISTS: &str = "list.office = { action = \"allow\", entries = [\"192.0.2.0/24\"] }
     list.rest = { action = \"deny\", entries = [\"0.0.0.0/0\", \"::/0\"] }
     list.users = { action = \"deny\", key = \"{user}\", entries = [\"bob\"] }";

/// Weir with the route `/` for the users `ann` and `bob`, or for the office.
fn start(origin: &Origin, route: &str, keys: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1
             listener.web.trusted_proxies = [\"127.0.0.1\"]
             listener.web.http2.prior_knowledge = \"allowed\"
             listener.web.access_log.format = \"{{client_address}} {{user}} {{status}} {{reason}} {{limit}} {{server}}\"
             listener.web.access_log.output = \"file:{{dir}}/access.log\"
             {LISTS}
             {keys}
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             satisfy = \"any\"
             request_headers.set.x-user = \"{{user}}\"
             {route}
             [listener.web.route.basic]
             users = {{ ann = \"{BCRYPT}\", bob = \"{BCRYPT}\" }}"
        ),
    ))
}

fn credentials(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

/// A request of a client with this password, or without any.
fn from(weir: &Weir, client: &str, user: Option<(&str, &str)>) -> Response {
    let login = user.map(|(user, password)| format!("Authorization: {}\r\n", credentials(user, password)));
    let login = login.unwrap_or_default();
    Client::exchange(
        weir.web(),
        &format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\n{login}\r\n"),
    )
}

const RIGHT: Option<(&str, &str)> = Some(("ann", "s3cret"));
const WRONG: Option<(&str, &str)> = Some(("ann", "guess"));

#[test]
fn a_list_or_a_password_is_enough() {
    let origin = echo();
    let weir = start(&origin, "lists = [\"office\", \"rest\"]", "");
    for (client, user, status, seen) in [
        ("192.0.2.7", None, 200, Some("")),
        // Not asked, so not believed either.
        ("192.0.2.7", WRONG, 200, Some("")),
        ("192.0.2.7", RIGHT, 200, Some("")),
        ("203.0.113.7", RIGHT, 200, Some("ann")),
        ("203.0.113.7", None, 401, None),
        ("203.0.113.7", WRONG, 401, None),
    ] {
        let before = origin.requests().len();
        let response = from(&weir, client, user);
        assert_eq!(response.status, status, "{client} {user:?}");
        assert_eq!(response.field("www-authenticate").is_some(), status == 401);
        let user_seen = (origin.requests().len() > before)
            .then(|| origin.last_request().field("x-user").unwrap_or_default().to_owned());
        assert_eq!(user_seen.as_deref(), seen, "{client} {user:?}");
        // What a server gets by the name that Weir verifies is verified.
        let forwards = (seen == Some("ann")).then(|| credentials("ann", "s3cret"));
        assert!(seen.is_none() || origin.last_request().field("authorization") == forwards.as_deref());
    }
    assert_eq!(
        weir.access_log(6),
        [
            "192.0.2.7 - 200 - - a",
            "192.0.2.7 - 200 - - a",
            "192.0.2.7 - 200 - - a",
            "203.0.113.7 ann 200 - - a",
            "203.0.113.7 - 401 credentials-missing rest -",
            "203.0.113.7 ann 401 credentials-wrong rest -",
        ]
    );
    let mut second = Http2Client::connect(weir.web());
    for (client, password, status) in
        [("192.0.2.7", "guess", 200), ("203.0.113.7", "guess", 401), ("203.0.113.7", "s3cret", 200)]
    {
        let login = credentials("ann", password);
        let fields = [("x-forwarded-for", client), ("authorization", &*login)];
        let stream = second.get_with("/", &fields);
        assert_eq!(second.response(stream).status, status, "{client} {password}");
    }
}

/// A list that says nothing of a client does not let it in.
#[test]
fn a_client_of_no_list_has_to_log_in() {
    let origin = echo();
    let weir = start(&origin, "lists = \"office\"", "");
    assert_eq!([None, WRONG, RIGHT].map(|user| from(&weir, "203.0.113.7", user).status), [401, 401, 200]);
    assert_eq!(from(&weir, "192.0.2.7", None).status, 200);
    // Of two lists, the one with the longer network decides.
    let weir = start(
        &origin,
        "lists = [\"office\", \"guests\"]",
        "list.guests = { action = \"deny\", entries = [\"192.0.2.128/25\"] }",
    );
    assert_eq!(from(&weir, "192.0.2.7", None).status, 200);
    assert_eq!([None, RIGHT].map(|user| from(&weir, "192.0.2.200", user).status), [401, 200]);
}

/// A list by the user is no alternative: a user that it refuses is refused.
#[test]
fn lists_by_the_user_are_asked_in_any_case() {
    let origin = echo();
    let weir = start(&origin, "lists = [\"office\", \"rest\", \"users\"]", "");
    let bob = Some(("bob", "s3cret"));
    assert_eq!([RIGHT, bob].map(|user| from(&weir, "203.0.113.7", user).status), [200, 403]);
    assert_eq!(from(&weir, "192.0.2.7", bob).status, 200, "no user is known of a client that a list lets in");
}

#[test]
fn without_it_all_has_to_hold() {
    let origin = echo();
    let weir = start(&origin, "lists = [\"office\", \"rest\"]", "");
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).unwrap();
    weir.reload(&text.replace("satisfy = \"any\"", "satisfy = \"all\""));
    assert_eq!(from(&weir, "192.0.2.7", None).status, 401);
    assert_eq!(from(&weir, "192.0.2.7", RIGHT).status, 200);
    assert_eq!(from(&weir, "203.0.113.7", RIGHT).status, 403);
    weir.reload(&text);
    assert_eq!(from(&weir, "192.0.2.7", None).status, 200);
}

/// Limits come before authentication as ever, and bound what guesses cost; a client of the list is under none.
#[test]
fn guesses_stay_bounded() {
    let origin = echo();
    let weir = start(
        &origin,
        "lists = [\"office\", \"rest\"]\nlimited_by = [\"guesses\", \"each\"]",
        "limit.guesses = { rate = \"3/h\", count_status = 401, key = \"{client_address}\" }
         limit.each = { rate = \"2/h\", key = \"{user}\" }",
    );
    assert_eq!([0; 5].map(|_| from(&weir, "203.0.113.7", WRONG).status), [401, 401, 401, 429, 429]);
    assert_eq!([0; 3].map(|_| from(&weir, "203.0.113.8", RIGHT).status), [200, 200, 429]);
    assert_eq!([0; 4].map(|_| from(&weir, "192.0.2.7", None).status), [200; 4]);
}

/// The refusal of a tarpit is put off, and says how to get in.
#[test]
fn a_tarpit_slows_guesses_down() {
    let origin = echo();
    let weir = start(
        &origin,
        "lists = [\"office\", \"slow\"]",
        "list.slow = { action = \"tarpit\", entries = [\"0.0.0.0/0\"], delay = \"300ms\" }",
    );
    let began = now();
    assert_eq!(from(&weir, "203.0.113.7", WRONG).status, 401);
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(from(&weir, "203.0.113.7", RIGHT).status, 200);
}

/// A server that decides about requests: `let-in` passes as `eve`, others are sent to log in.
fn judge(status: u16) -> Origin {
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            match request.field("x-ticket") {
                Some("let-in") => conn.send("HTTP/1.1 200 OK\r\nX-User: eve\r\nContent-Length: 0\r\n\r\n")?,
                _ => conn
                    .send(format!("HTTP/1.1 {status} No\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"))?,
            }
        }
    })
}

/// Each kind of authentication is enough, and what one that refuses has heard is forgotten: a name that is not proved is no user.
#[test]
fn one_kind_of_authentication_is_enough() {
    for (status, expected) in [(403, 401), (302, 302), (401, 401)] {
        let (origin, judge) = (echo(), judge(status));
        let weir = start(
            &origin,
            "lists = [\"office\", \"rest\"]\nforward_auth = { upstream = \"auth\", path = \"/\", response_headers = [\"x-eve\"] }",
            &format!("upstream.auth.servers = [{}]", judge.entry()),
        );
        let send = |fields: &str| {
            let head = "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 203.0.113.7\r\n";
            Client::exchange(weir.web(), &format!("{head}{fields}\r\n"))
        };
        let login = |password| format!("Authorization: {}\r\n", credentials("ann", password));
        let ticket = "X-Ticket: let-in\r\n";
        assert_eq!(send(&login("s3cret")).status, 200);
        assert_eq!(origin.last_request().field("x-user"), Some("ann"));
        assert_eq!(judge.requests().len(), 0, "the first that admits it is the last that is asked");
        assert_eq!(send(&format!("{ticket}{}", login("guess"))).status, 200);
        let passed = origin.last_request();
        assert_eq!((passed.field("x-user"), passed.field("authorization")), (None, None), "{passed:?}");
        let refused = send(&login("guess"));
        assert_eq!(refused.status, expected);
        assert_eq!(
            refused.field("location").is_some(),
            status != 403,
            "as of nginx, a 403 does not replace a 401"
        );
        assert_eq!(origin.requests().len(), 2);
    }
}

/// No answer is none: nothing passes for want of one.
#[test]
fn a_server_that_does_not_answer_lets_nothing_in() {
    let origin = echo();
    let weir = start(
        &origin,
        "lists = [\"office\", \"rest\"]\nforward_auth = { upstream = \"auth\", path = \"/\" }",
        &format!("upstream.auth.servers = [\"{CLOSED_PORT}\"]"),
    );
    assert_eq!(from(&weir, "203.0.113.7", None).status, 502);
    assert_eq!(from(&weir, "203.0.113.7", RIGHT).status, 200, "it was not needed");
    assert_eq!(from(&weir, "192.0.2.7", None).status, 200);
    assert_eq!(origin.requests().len(), 2);
}

/// What a client gets that a list lets in is not kept for users, and the other way round, unless the server says that it is for all.
#[test]
fn a_cache_keeps_apart_what_users_get() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let user = request.field("x-user").unwrap_or("none").to_owned();
            conn.send(ok(&user).replacen("\r\n", "\r\nCache-Control: max-age=60\r\n", 1))?;
        }
    });
    let weir =
        start(&origin, "lists = [\"office\", \"rest\"]\ncache = \"pages\"", "cache.pages.memory = \"16MiB\"");
    for _ in 0..2 {
        assert_eq!(from(&weir, "192.0.2.7", None).text(), "none");
        assert_eq!(from(&weir, "203.0.113.7", RIGHT).text(), "ann");
    }
}

#[test]
fn a_copy_has_the_user_that_was_admitted() {
    let (origin, copies) = (echo(), Origin::serving("copy"));
    let weir = start(
        &origin,
        "lists = [\"office\", \"rest\"]\nmirror = { upstream = \"copy\" }",
        &format!("upstream.copy.servers = [\"{}\"]", copies.address()),
    );
    assert_eq!(from(&weir, "203.0.113.7", WRONG).status, 401);
    assert_eq!(from(&weir, "192.0.2.7", WRONG).status, 200);
    assert_eq!(from(&weir, "203.0.113.7", RIGHT).status, 200);
    eventually("both copies have come", || copies.requests().len() == 2);
    let mut users: Vec<Option<String>> =
        copies.requests().iter().map(|copy| copy.field("x-user").map(str::to_owned)).collect();
    users.sort();
    assert_eq!(users, [None, Some("ann".to_owned())]);
}
