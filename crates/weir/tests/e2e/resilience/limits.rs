//! Limits on what a client sends and on how many there are: each with its status, each exactly where the config puts it.

use crate::harness::scripts::{echo_gated, gated, measuring};
use crate::harness::{Client, End, Gate, Origin, Weir, eventually};

/// Panics unless Weir with this setting forwards the first request, which is exactly at the limit, and answers the second one
/// with this status and reason.
fn assert_limit(setting: &str, [fits, exceeds]: [String; 2], refusal: (u16, &str)) {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, setting);
    assert_eq!(Client::exchange(weir.web(), &fits).status, 200, "exactly at the limit");
    let refused = Client::exchange(weir.web(), &exceeds);
    assert_eq!((refused.status, refused.reason()), (refusal.0, Some(refusal.1)));
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn the_size_of_a_head() {
    let request = |len: usize| {
        let head = "GET / HTTP/1.1\r\nHost: a.test\r\nX: \r\n\r\n";
        head.replace("X: ", &format!("X: {}", "x".repeat(len - head.len())))
    };
    let requests = [request(2048), request(2049)];
    assert_limit("listener.web.limits.head_size = \"2KiB\"", requests, (431, "head-too-large"));
}

#[test]
fn the_number_of_headers() {
    let request = |more: usize| format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n", "X: y\r\n".repeat(more));
    assert_limit("listener.web.limits.headers = 10", [request(9), request(10)], (431, "too-many-fields"));
}

#[test]
fn the_size_of_a_target() {
    let request = |len: usize| format!("GET /{} HTTP/1.1\r\nHost: a.test\r\n\r\n", "t".repeat(len - 1));
    let requests = [request(256), request(257)];
    assert_limit("listener.web.limits.target_size = \"256B\"", requests, (414, "target-too-long"));
}

#[test]
fn the_size_of_a_body_by_its_length() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "listener.web.limits.body_size = \"1000B\"");
    let post = |len: usize| format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len}\r\n\r\n");
    let fits = format!("{}{}", post(1000), "b".repeat(1000));
    assert_eq!(Client::exchange(weir.web(), &fits).status, 200, "exactly at the limit");
    // Refused on the head alone: the body is never sent.
    let refused = Client::exchange(weir.web(), &post(1001));
    assert_eq!((refused.status, refused.reason()), (413, Some("body-too-large")));
    // A client that waits for 100 gets the response before it sends anything.
    let waiting = post(1001).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(Client::exchange(weir.web(), &waiting).status, 413);
    assert_eq!((origin.requests().len(), origin.connections()), (1, 1));
}

#[test]
fn the_size_of_a_body_in_chunks() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "listener.web.limits.body_size = \"1000B\"");
    let post = |chunks: &[usize]| {
        let body: String = chunks.iter().map(|len| format!("{len:x}\r\n{}\r\n", "b".repeat(*len))).collect();
        format!("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n")
    };
    assert_eq!(Client::exchange(weir.web(), &post(&[400, 600])).status, 200, "exactly at the limit");
    for chunks in [&[1001][..], &[400, 601], &[1000, 1], &[100_000]] {
        let mut client = Client::connect(weir.web());
        let _ = client.send_what_is_taken(post(chunks));
        let response = client.response();
        assert_eq!((response.status, response.reason()), (413, Some("body-too-large")), "{chunks:?}");
        client.assert_closed();
    }
    assert_eq!(Client::get(weir.web(), "/fence").status, 200);
    assert_eq!(origin.requests().len(), 2, "a body that is too large is never complete");
}

#[test]
fn the_size_of_a_body_by_route() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.limits.body_size = \"10B\"\nupstream.app.servers = [\"{}\"]\n\
         listener.web.route = [\n  {{ path = \"/\", upstream = \"app\" }},\n\
         {{ path = \"/large\", upstream = \"app\", limits = {{ body_size = \"1MiB\" }} }},\n\
         {{ path = \"/any\", upstream = \"app\", limits = {{ body_size = \"off\" }} }},\n]\n",
        origin.address()
    ));
    let post = |target: &str, len: usize| {
        let body = "b".repeat(len);
        Client::exchange(
            weir.web(),
            &format!("POST {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len}\r\n\r\n{body}"),
        )
        .status
    };
    assert_eq!([post("/", 10), post("/", 11)], [200, 413]);
    assert_eq!([post("/large", 1 << 20), post("/large", (1 << 20) + 1)], [200, 413]);
    assert_eq!(post("/any", 3 << 20), 200);
}

#[test]
fn trailers_and_chunk_extensions() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(
        &origin,
        "listener.web.limits.trailer_size = \"100B\"\nlistener.web.limits.chunk_extension_size = \"100B\"",
    );
    let post = |extension: usize, trailer: usize| {
        let (extension, trailer) = ("e".repeat(extension), "t".repeat(trailer));
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1;{extension}\r\nx\r\n0\r\nT: {trailer}\r\n\r\n"
        );
        Client::exchange(weir.web(), &request).status
    };
    assert_eq!(post(50, 50), 200);
    assert_eq!(post(50, 200), 431, "trailers");
    assert_eq!(post(200, 50), 400, "chunk extensions");
}

#[test]
fn connections_per_client() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "listener.web.connections_per_client_max = 2");
    let serve = |client: &mut Client| {
        assert_eq!(client.fetch("/").status, 200);
    };
    let mut first = Client::connect_from("127.0.0.1", weir.web());
    serve(&mut first);
    let mut second = Client::connect_from("127.0.0.1", weir.web());
    serve(&mut second);
    let mut third = Client::connect_from("127.0.0.1", weir.web());
    let (answer, end) = third.take_to_end();
    assert!(answer.is_empty() && matches!(end, End::Closed | End::Reset), "closed unread: {answer:?} {end}");
    serve(&mut Client::connect_from("127.0.0.2", weir.web()));
    serve(&mut first);
    drop(second);
    eventually("the place of the second is free", || {
        let mut again = Client::connect_from("127.0.0.1", weir.web());
        let sent = again.send_what_is_taken("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        sent.is_ok() && again.try_response_to("GET").is_ok_and(|response| response.status == 200)
    });
}

/// Bodies that trickle hold no buffer while they wait for more, so other requests are not delayed.
#[test]
fn slow_bodies_leave_buffers_to_others() {
    let origin = measuring();
    let weir = Weir::proxying_with(
        &origin,
        "process.workers = 1\nprocess.buffers_max = 64\nadmin.address = \"127.0.0.1:0\"",
    );
    let mut slow: Vec<Client> = (0..60)
        .map(|_| {
            let mut client = Client::connect(weir.web());
            client.send("POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n1");
            client
        })
        .collect();
    eventually("all of them have begun", || weir.metrics().sum("weir_worker_exchanges_open", &[]) == 60.0);
    for _ in 0..50 {
        assert_eq!(Client::get(weir.web(), "/quick").status, 200);
    }
    for part in ["2", "3"] {
        slow.iter_mut().for_each(|client| client.send(part));
        assert_eq!(Client::get(weir.web(), "/quick").status, 200);
    }
    for client in &mut slow {
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (200, "3"));
    }
    eventually("nothing is left of them", || weir.metrics().sum("weir_worker_exchanges_open", &[]) == 0.0);
    assert_eq!(Client::get(weir.web(), "/quick").status, 200);
}

/// What a trusted proxy sends on its connections is the traffic of many.
#[test]
fn trusted_proxies_are_no_single_client() {
    let origin = Origin::serving("fine");
    let limits =
        "listener.web.connections_per_client_max = 1\nlistener.web.trusted_proxies = [\"127.0.0.2\"]";
    let weir = Weir::proxying_with(&origin, limits);
    let mut connections: Vec<Client> = Vec::new();
    for address in ["127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.1"] {
        let mut client = Client::connect_from(address, weir.web());
        assert_eq!(client.fetch("/").status, 200, "{address}");
        connections.push(client);
    }
    let (answer, _) = Client::connect_from("127.0.0.1", weir.web()).take_to_end();
    assert!(answer.is_empty(), "a client that is not trusted has one: {answer:?}");
}

/// Clients of a list are under no limit on connections, also those that a PROXY header names; a file of it is followed.
#[test]
fn clients_of_a_list_are_exempt_from_limits_on_connections() {
    let origin = Origin::serving("fine");
    let limits = "listener.web.connections_per_client_max = 1\nlistener.web.connections_per_client_rate = \"1/h\"
        listener.web.connections_exempt = \"office\"\nlist.office.entries = [\"127.0.0.2\", \"192.0.2.0/24\"]";
    let weir = Weir::proxying_with(&origin, limits);
    let mut connections: Vec<Client> = Vec::new();
    for address in ["127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.1"] {
        let mut client = Client::connect_from(address, weir.web());
        assert_eq!(client.fetch("/").status, 200, "{address}");
        connections.push(client);
    }
    assert!(Client::connect_from("127.0.0.1", weir.web()).take_to_end().0.is_empty());
    // Those that have left the list count from the next connection on.
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).unwrap();
    weir.reload(&text.replace("\"127.0.0.2\", ", ""));
    let mut client = Client::connect_from("127.0.0.2", weir.web());
    assert_eq!(client.fetch("/").status, 200, "it is the first that counts");
    assert!(Client::connect_from("127.0.0.2", weir.web()).take_to_end().0.is_empty());
    drop(connections);

    let weir = Weir::proxying_with(
        &origin,
        &format!("{limits}\nlistener.web.proxy_protocol.from = [\"127.0.0.1\"]"),
    );
    let open = |client: &str| {
        let mut connection = Client::connect(weir.web());
        connection.send(format!(
            "PROXY TCP4 {client} 198.51.100.2 4660 443\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
        ));
        connection
    };
    let mut of_office = [open("192.0.2.1"), open("192.0.2.1"), open("203.0.113.1")];
    for connection in &mut of_office {
        assert_eq!(connection.response().status, 200);
    }
    assert!(open("203.0.113.1").take_to_end().0.is_empty());
}

/// One more than the limit waits in the backlog, and is served when a place is free.
#[test]
fn connections_per_listener_and_process() {
    for setting in ["listener.web.connections_max = 2", "process.connections_max = 2"] {
        let origin = Origin::serving("fine");
        let weir = Weir::proxying_with(&origin, setting);
        let mut clients = [Client::connect(weir.web()), Client::connect(weir.web())];
        for client in &mut clients {
            assert_eq!(client.fetch("/").status, 200, "{setting}");
            // Part of a request: an idle connection would make room.
            client.send("GET /again HTTP/1.1\r\n");
        }
        let mut third = Client::connect(weir.web());
        third.send_get("/third");
        for client in &mut clients {
            client.send("Host: a.test\r\n\r\nGET /half HTTP/1.1\r\n");
            assert_eq!(client.response().status, 200, "{setting}");
        }
        assert!(!origin.targets().contains(&"/third".to_owned()), "{setting}: the third has to wait");
        drop(clients);
        assert_eq!(third.response().status, 200, "{setting}");
    }
}

#[test]
fn requests_per_server() {
    let release = Gate::new();
    let origin = gated(&release, "/", "fine");
    let weir = Weir::proxying_with(&origin, "upstream.app.max_requests = 3");
    let mut clients: Vec<Client> = (0..10)
        .map(|n| {
            let mut client = Client::connect(weir.web());
            client.send_get(&format!("/{n}"));
            client
        })
        .collect();
    origin.wait_for_requests(3);
    assert_eq!((origin.requests().len(), origin.connections()), (3, 3), "no more at a time");
    release.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
}

/// Who waited longest is served first, on whichever worker they wait.
#[test]
fn the_queue_is_ordered() {
    let release = Gate::new();
    let origin = echo_gated(&release, "/first");
    let weir = Weir::proxying_with(&origin, "upstream.app.max_requests = 1\nadmin.address = \"127.0.0.1:0\"");
    let mut clients = Vec::new();
    for n in 0..20 {
        let mut client = Client::connect(weir.web());
        client.send_get(if n == 0 { "/first".to_owned() } else { format!("/{n}") }.as_str());
        if n == 0 {
            origin.wait_for_requests(1);
        } else {
            eventually("one more waits", || weir.queue_length() == n);
        }
        clients.push(client);
    }
    release.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    let expected: Vec<String> = (1..20).map(|n| format!("/{n}")).collect();
    assert_eq!(origin.targets()[1..], expected);
}

#[test]
fn a_full_queue() {
    let release = Gate::new();
    let origin = gated(&release, "/", "fine");
    let settings =
        "upstream.app.max_requests = 1\nupstream.app.queue.length_max = 1\nadmin.address = \"127.0.0.1:0\"";
    let weir = Weir::proxying_with(&origin, settings);
    let mut served = Client::connect(weir.web());
    served.send_get("/served");
    origin.wait_for_requests(1);
    let mut waiting = Client::connect(weir.web());
    waiting.send_get("/waiting");
    eventually("one waits", || weir.queue_length() == 1);
    for _ in 0..3 {
        let response = Client::get(weir.web(), "/refused");
        assert_eq!((response.status, response.reason()), (503, Some("queue-full")), "{response:?}");
    }
    release.open();
    assert_eq!(served.response().status, 200);
    assert_eq!(waiting.response().status, 200);
    assert_eq!(origin.targets(), ["/served", "/waiting"]);
}

#[test]
fn the_head_of_a_response() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let headers = match request.target() {
                "/large" => format!("X: {}\r\n", "x".repeat(3_000)),
                "/many" => "X: y\r\n".repeat(20),
                _ => String::new(),
            };
            conn.send(format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: 4\r\n\r\nfine"))?;
        }
    });
    let weir = Weir::proxying_with(
        &origin,
        "upstream.app.limits.head_size = \"2KiB\"\nupstream.app.limits.headers = 10",
    );
    for (target, reason) in [("/large", "response-head-too-large"), ("/many", "response-too-many-fields")] {
        let response = Client::get(weir.web(), target);
        assert_eq!((response.status, response.reason()), (502, Some(reason)), "{response:?}");
    }
    assert_eq!(Client::get(weir.web(), "/fine").status, 200);
}
