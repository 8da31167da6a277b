//! Pages of the config: for Weir's own failures, for responses of servers where that is asked for, and what they may say.

use crate::harness::http2::H2C;
use crate::harness::{
    CLOSED_PORT, Client, Gate, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

const HTML: &str = "<style>p{color:red}</style><p>{status} {title}: {reason} {detail} {host} {header.x-own} {request_id}</p>";
const JSON: &str = "{\"code\":{status},\"why\":\"{reason}\",\"own\":\"{header.x-own}\"}";

fn start(origin: &Origin, settings: &str) -> Weir {
    let folder = temporary_folder();
    for (name, text) in
        [("page.html", HTML), ("page.json", JSON), ("listener.html", "of the listener: {reason}")]
    {
        std::fs::write(folder.path().join(name), text).expect("the folder takes files");
    }
    let text = config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}{settings}\nupstream.down = {{ servers = [\"{CLOSED_PORT}\"], retry = {{ attempts_max = 1 }} }}"
        ),
    );
    Weir::start_in(folder, &text)
}

fn fetch(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// Answers with the status that is the path, and a body.
fn statuses() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status =
                request.target().trim_start_matches('/').split('/').next().unwrap_or_default().to_owned();
            conn.send(format!(
                "HTTP/1.1 {status} X\r\nRetry-After: 7\r\nWWW-Authenticate: Basic realm=\"r\"\r\nX-Server: s\r\nContent-Length: 6\r\n\r\nsecret"
            ))?;
        }
    })
}

#[test]
fn failures_of_weir_have_the_page_of_their_route() {
    let origin = Origin::serving("fine");
    let weir = start(
        &origin,
        "listener.web.error_pages = [{ status = [\"400-599\"], html = \"listener.html\" }]
         listener.web.route = [
            { path = \"/a\", upstream = \"down\", error_pages = [{ status = \"502-504\", html = \"page.html\", json = \"page.json\" }] },
            { path = \"/b\", upstream = \"down\" },
         ]",
    );
    let response = fetch(&weir, "/a", "X-Own: <b>\"\r\nAccept: text/html\r\nX-Request-Id: 17\r\n");
    let text = response.text();
    let reason = response.reason().expect("the reason stays").to_owned();
    assert!(text.starts_with("<style>p{color:red}</style><p>50"), "{text}");
    assert!(text.contains(&format!(": {reason} ")) && text.contains(" a.test &lt;b&gt;&quot; "), "{text}");
    assert_eq!(response.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    let response = fetch(&weir, "/a", "X-Own: a\"b\\\r\nAccept: application/json\r\n");
    let text = response.text();
    assert!(text.ends_with("\"own\":\"a\\\"b\\\\\"}"), "{text}");
    assert_eq!(response.field("content-type"), Some("application/json"));
    assert_eq!(fetch(&weir, "/b", "").text(), format!("of the listener: {reason}"));
    // The listener has no page for programs.
    assert!(fetch(&weir, "/b", "Accept: application/json\r\n").text().starts_with("{\"status\":50"));
    // A request that no route was found for, and one that cannot be read.
    let response = Client::exchange(weir.web(), "GET / HTTP/1.1\r\n\r\n");
    assert_eq!((response.status, response.text().as_str()), (400, "of the listener: missing-host"));
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/b").text(), format!("of the listener: {reason}"));
}

/// A fixed response that has a body is what it is; one without has the page for its status.
#[test]
fn fixed_responses_without_a_body_have_the_page_of_their_route() {
    let origin = Origin::serving("fine");
    let weir = start(
        &origin,
        "listener.web.error_pages = [{ status = \"400-599\", html = \"listener.html\", json = \"page.json\" }]
         listener.web.route = [
            { path = \"/gone\", respond = { status = 410, headers = { x-own = \"1\" } } },
            { path = \"/body\", respond = { status = 503, body = \"own\" } },
            { path = \"/fine\", respond = { status = 204 } },
            { path = \"/split\", split = [{ respond = 503, weight = 1 }] },
         ]",
    );
    let gone = fetch(&weir, "/gone", "Accept: text/html\r\n");
    assert_eq!(
        (gone.status, gone.text().as_str(), gone.field("x-own")),
        (410, "of the listener: ", Some("1"))
    );
    assert_eq!(gone.field("content-type"), Some("text/html; charset=utf-8"));
    let gone = fetch(&weir, "/gone", "Accept: application/json\r\n");
    assert!(gone.text().starts_with("{\"code\":410"), "{}", gone.text());
    assert_eq!(fetch(&weir, "/body", "").text(), "own");
    assert_eq!((fetch(&weir, "/fine", "").status, fetch(&weir, "/fine", "").text()), (204, String::new()));
    assert_eq!(fetch(&weir, "/split", "").text(), "of the listener: ");
    let head = Client::exchange(weir.web(), "HEAD /gone HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!((head.status, head.field("content-length")), (410, Some("17")));
}

/// The page and its headers say which server has failed, and what the path has matched.
#[test]
fn a_page_names_the_server_and_groups_of_the_path() {
    let folder = temporary_folder();
    let page = "{upstream}/{server} {match.item} {attempts} `${path}`";
    std::fs::write(folder.path().join("page.html"), page).expect("the folder takes files");
    let weir = Weir::start_in(
        folder,
        &format!(
            "[listener.web]\naddress = \"127.0.0.1:0\"\n[[listener.web.route]]\npath_regex = '^/item/(?<item>[0-9]+)$'\n\
             upstream = \"down\"\nerror_pages = [{{ status = 502, html = \"page.html\" }}]\n\
             response_headers.set = {{ x-served-by = \"{{upstream}}/{{server}}\" }}\n\
             [upstream.down]\nservers = [{{ name = \"one\", address = \"{CLOSED_PORT}\" }}]\nretry.attempts_max = 1\n"
        ),
    );
    let response = fetch(&weir, "/item/17", "");
    assert_eq!((response.status, &*response.text()), (502, "down/one 17 1 `${path}`"));
    assert_eq!(response.field("x-served-by"), Some("down/one"));
}

#[test]
fn responses_of_servers_are_replaced_where_that_is_asked_for() {
    let origin = statuses();
    let weir = start(
        &origin,
        "listener.web.route = [
            { path = \"/\", upstream = \"app\", error_pages = [
                { status = 404, html = \"listener.html\" },
                { status = [401, \"500-599\"], html = \"page.html\", of_servers = true },
            ] },
         ]
         upstream.app.retry.attempts_max = 1",
    );
    let mut client = Client::connect(weir.web());
    for (status, is_replaced) in [(200, false), (404, false), (401, true), (503, true), (500, true)] {
        for _ in 0..2 {
            let response = client.fetch(&format!("/{status}"));
            assert_eq!(response.status, status);
            assert_eq!(response.text() == "secret", !is_replaced, "{status}");
            assert_eq!(response.field("x-server").is_none(), is_replaced, "{status}");
            assert_eq!(response.field("retry-after"), Some("7"), "what explains the status stays");
            assert_eq!(response.field("www-authenticate"), Some("Basic realm=\"r\""));
        }
    }
    assert_eq!(origin.connections(), 1, "the connection to the server goes on behind a body that was here");
    client.send("GET /503 HTTP/1.1\r\nHost: a.test\r\nAccept: application/json\r\n\r\n");
    assert_eq!(client.response().text(), "secret", "there is no page in this format");
    client.send("HEAD /503 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let head = client.response_to("HEAD");
    assert!(head.field("content-length").is_some_and(|len| len != "6"), "{head:?}");
    let mut client = Http2Client::connect(weir.web());
    assert!(client.fetch("/500").text().contains("500 Internal Server Error"));
}

#[test]
fn a_reload_reads_pages_again() {
    let origin = statuses();
    let settings =
        "listener.web.error_pages = [{ status = 503, html = \"listener.html\", of_servers = true }]";
    let weir = start(&origin, settings);
    assert_eq!(fetch(&weir, "/503", "").text(), "of the listener: ");
    std::fs::write(weir.folder().join("listener.html"), "new").expect("the folder takes a file");
    weir.hang_up("the config was reloaded");
    assert_eq!(fetch(&weir, "/503", "").text(), "new");
}

#[test]
fn a_failure_behind_a_reload_has_the_page_of_its_own_config() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        held.wait("the config was reloaded");
        None
    });
    let route = |path: &str| {
        format!(
            "{{ path = \"{path}\", upstream = \"app\", error_pages = [{{ status = 502, html = \"page.html\" }}] }},"
        )
    };
    let weir = start(
        &origin,
        &format!(
            "listener.web.route = [{}{}]\nupstream.app.retry.attempts_max = 1",
            route("/a"),
            route("/b")
        ),
    );
    let mut client = Client::connect(weir.web());
    client.send("GET /b HTTP/1.1\r\nHost: a.test\r\nAccept: text/html\r\n\r\n");
    eventually("the server has the request", || origin.requests().len() == 1);
    weir.reload(&config_with(&[origin.named("a")], ""));
    gate.open();
    let response = client.response();
    assert_eq!(response.status, 502);
    assert!(response.text().starts_with("<style>p{color:red}</style><p>502"), "{}", response.text());
}
