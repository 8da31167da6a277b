//! `{servers}` and the like: all servers that were tried, what they have answered and how long it took, in fields of responses and in the log.

use crate::harness::http2::H2C;
use crate::harness::{CLOSED_PORT, Client, Http2Client, Origin, Response, Weir, config_with, eventually};

/// A server that answers everything with this status, and its path as `X-Accel-Redirect`.
fn answering(status: u16) -> Origin {
    Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n"))?;
        }
    })
}

const SHOWN: &str = "response_headers.set = { x-servers = \"{servers}|{servers.status}\" }\n";

fn shown(response: &Response) -> &str {
    response.field("x-servers").unwrap_or_default()
}

fn last_line(weir: &Weir) -> String {
    let text = std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    text.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn all_servers_that_were_tried_are_shown() {
    let origins = [answering(503), answering(200)];
    let servers = [
        format!("{{ name = \"gone\", address = \"{CLOSED_PORT}\" }}"),
        origins[0].named("busy"),
        origins[1].named("good"),
    ];
    let weir = Weir::start(&config_with(
        &servers,
        &format!(
            "{H2C}process.workers = 1\nlistener.web.{SHOWN}\
             access_log.format = '{{servers}}|{{servers.status}}|{{servers.seconds}}'\naccess_log.output = \"file:{{dir}}/access.log\"\n\
             upstream.app.balance = \"round-robin\"\n\
             upstream.app.retry = {{ on_status = [503], budget = \"1000%\", attempts_max = 4 }}\n"
        ),
    ));
    let mut client = Http2Client::connect(weir.web());
    // From wherever the turns begin: each of three requests begins with another server.
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..3 {
        let of_http1 = Client::get(weir.web(), "/");
        assert_eq!(of_http1.status, 200);
        seen.push(shown(&of_http1).to_owned());
        let of_http2 = client.fetch("/");
        seen.push(of_http2.field("x-servers").unwrap_or_default().to_owned());
    }
    for shown in &seen {
        let (names, statuses) = shown.split_once('|').expect("both are there");
        let expected: Vec<&str> = names
            .split(", ")
            .map(|name| match name {
                "gone" => "502",
                "busy" => "503",
                "good" => "200",
                other => panic!("{other} in {shown}"),
            })
            .collect();
        assert_eq!(statuses, expected.join(", "), "{shown}");
        assert!(names.ends_with("good"), "{shown}");
    }
    assert!(seen.iter().any(|shown| shown.matches(", ").count() >= 2), "some have tried several: {seen:?}");
    eventually("the line is there", || last_line(&weir).matches('|').count() == 2);
    let line = last_line(&weir);
    let parts: Vec<usize> = line.split('|').map(|part| part.split(", ").count()).collect();
    assert_eq!((parts[0], parts[1]), (parts[2], parts[2]), "{line}");
    assert!(
        line.rsplit('|').next().is_some_and(|times| times.split(", ").all(|time| time.len() >= 5)),
        "{line}"
    );
}

/// What an error page that is another route shows: the servers of the route before it, then its own.
#[test]
fn servers_of_the_route_before_come_first() {
    let origins = [answering(404), answering(200)];
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\nprocess.workers = 1\n[listener.web]\naddress = \"127.0.0.1:0\"\n{SHOWN}\
         [[listener.web.route]]\npath = \"/\"\nupstream = \"first\"\n\
         error_pages = [{{ status = 404, of_servers = true, then = \"/other\", status_of_target = true }}]\n\
         [[listener.web.route]]\npath = \"/other\"\nupstream = \"second\"\n\
         [[listener.web.route]]\npath = \"/own\"\nrespond.body = \"own\"\n\
         [upstream.first]\nservers = [{}]\n[upstream.second]\nservers = [{}]\n",
        origins[0].named("one"),
        origins[1].named("two"),
    ));
    for (target, expected) in [("/", "one, two|404, 200"), ("/other", "two|200"), ("/own", "")] {
        let response = Client::get(weir.web(), target);
        assert_eq!((response.status, shown(&response)), (200, expected), "{target}");
    }
}

/// Where no server may take a request, or no other one: the upstream, as in nginx.
#[test]
fn an_upstream_without_a_server_is_named() {
    let origin = answering(503);
    let keys = format!("process.workers = 1\nlistener.web.{SHOWN}upstream.app.retry.on_status = [503]\n");
    let weir = Weir::start(&config_with(&[origin.named("only")], &keys));
    assert_eq!(shown(&Client::get(weir.web(), "/")), "only, app|503");
    let down = format!("{{ name = \"only\", address = \"{}\", mode = \"maintenance\" }}", origin.address());
    let weir = Weir::start(&config_with(&[down], &keys));
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, shown(&response).split('|').next()), (503, Some("app")));
}
