//! `/api/overview`: the state of every part with time and reason, and the rates of the last seconds.

use serde_json::{Value, json};

use crate::harness::{Client, Gate, Origin, Weir, eventually, origin::ok, run};

fn overview(weir: &Weir) -> Value {
    let response = Client::get_by_address(weir.address("admin"), "/api/overview");
    assert_eq!((response.status, response.field("Content-Type")), (200, Some("application/json")));
    serde_json::from_str(&response.text()).expect("the overview is JSON")
}

fn start(origin: &Origin) -> Weir {
    Weir::start(&format!(
        "process.workers = 1\nadmin = {{ address = \"127.0.0.1:0\", changes = true }}\n[listener.web]\naddress = \"127.0.0.1:0\"\n\
         route = [{{ path = \"/old/\", redirect = {{ to = \"/new\" }} }}, {{ upstream = \"app\" }}]\n[upstream.app]\n\
         servers = [{{ name = \"one\", address = \"{}\", weight = 7, max_requests = 9 }}]\n",
        origin.address()
    ))
}

#[test]
fn the_overview_shows_what_was_counted_and_where() {
    let origin = Origin::serving("hello");
    let weir = start(&origin);
    for _ in 0..3 {
        assert_eq!(Client::get(weir.web(), "/").text(), "hello");
    }
    assert_eq!(Client::get(weir.web(), "/old/a").status, 308);
    // An exchange is counted right after its last byte has left.
    eventually("all are counted", || overview(&weir)["listeners"][0]["responses"] == json!([0, 3, 1, 0, 0]));
    let shown = overview(&weir);
    let listener = &shown["listeners"][0];
    assert_eq!((listener["name"].as_str(), listener["requests"].as_u64()), (Some("web"), Some(4)));
    assert_eq!(listener["addresses"][0], weir.web().to_string());
    let routes = listener["routes"].as_array().expect("routes are listed");
    assert_eq!(routes[0]["matches"], "path prefix /old/");
    assert_eq!((&routes[0]["action"], &routes[1]["action"]), (&"redirect with 308".into(), &"to app".into()));
    assert_eq!((&routes[0]["requests"], &routes[1]["requests"]), (&1.into(), &3.into()));
    assert_eq!(routes[1]["responses"], json!([0, 3, 0, 0, 0]));
    let server = &shown["upstreams"][0]["servers"][0];
    for (key, value) in
        [("name", "one"), ("status", "up"), ("mode", "serving"), ("why", "the config names it")]
    {
        assert_eq!(server[key], value, "{key}");
    }
    for (key, value) in [("weight", 7), ("max_requests", 9), ("attempts", 3), ("connects", 1), ("reuses", 2)]
    {
        assert_eq!(server[key], value, "{key}");
    }
    assert_eq!(server["reuse_percent"], 66.7);
    assert_eq!(server["endpoints"][0], origin.address().to_string());
    assert_eq!(shown["process"]["is_stopping"], false);
    assert!(shown["process"]["memory_bytes"].as_u64() > Some(1 << 20), "{}", shown["process"]);
    // The pulse is taken once a second.
    eventually("the requests are in the history of the upstream", || {
        let shown = overview(&weir);
        let history = shown["upstreams"][0]["history"].as_array().cloned().unwrap_or_default();
        let heat = |moment: &Value| moment["heat"].as_array().cloned().unwrap_or_default();
        let answered: u64 = history.iter().flat_map(heat).filter_map(|count| count.as_u64()).sum();
        answered == 3 && shown["upstreams"][0]["response_time"]["count"] == 3
    });
}

#[test]
fn a_server_has_the_time_and_reason_of_its_last_change() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        held.wait("the server was taken out");
        conn.send(ok("late"))
    });
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("the request is on the server", || {
        overview(&weir)["upstreams"][0]["servers"][0]["in_flight"] == 1
    });
    let began = overview(&weir)["upstreams"][0]["servers"][0]["since_ms"].as_u64();
    let wish = "POST /servers HTTP/1.1\r\nHost: a\r\nContent-Length: 42\r\n\r\nupstream=app&server=one&mode=maintenance\r\n";
    assert_eq!(Client::exchange(weir.address("admin"), wish).status, 400, "a line break belongs to no mode");
    let wish = "POST /servers HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\nupstream=app&server=one&mode=maintenance";
    assert_eq!(Client::exchange(weir.address("admin"), wish).status, 200);
    let server = overview(&weir)["upstreams"][0]["servers"][0].clone();
    assert_eq!((&server["status"], &server["in_flight"]), (&"maintenance".into(), &1.into()));
    assert_eq!(server["why"], "an operator set the mode to maintenance");
    assert!(server["since_ms"].as_u64() >= began);
    assert_eq!(overview(&weir)["upstreams"][0]["servers_usable"], 0);
    gate.open();
    assert_eq!(client.response().text(), "late");
}

#[test]
fn many_servers_are_shown_page_by_page() {
    let servers: Vec<String> =
        (0..1_200).map(|number| format!("\"127.0.0.1:{}\"", 10_000 + number)).collect();
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\n[listener.web]\naddress = \"127.0.0.1:0\"\n\
         route = [{{ path = \"/few/\", upstream = \"few\" }}, {{ upstream = \"app\" }}]\n\
         [upstream.app]\nservers = [{}]\n[upstream.few]\nservers = [\"127.0.0.1:1\"]\n",
        servers.join(", ")
    ));
    let get = |path: &str| Client::get_by_address(weir.address("admin"), path);
    let page = |query: &str| -> Value {
        serde_json::from_str(&get(&format!("/api/overview{query}")).text()).expect("it is JSON")
    };
    let shown = |overview: &Value| {
        let upstreams = overview["upstreams"].as_array().expect("there are upstreams");
        let of = |upstream: &Value| upstream["servers"].as_array().map_or(0, Vec::len);
        upstreams
            .iter()
            .map(|one| (one["name"].as_str().unwrap_or_default().to_owned(), of(one)))
            .collect::<Vec<_>>()
    };
    let first = page("");
    assert_eq!(shown(&first), [("app".to_owned(), 1_000)]);
    assert_eq!(first["page"]["pages"], 2);
    assert_eq!([&first["page"]["servers"], &first["page"]["upstreams"]], [1_201, 2]);
    assert_eq!(first["upstreams"][0]["servers_total"], 1_200);
    assert_eq!(first["upstreams"][0]["servers_usable"], 1_200, "figures of an upstream are whole");
    let second = page("?page=2");
    assert_eq!(shown(&second), [("app".to_owned(), 200), ("few".to_owned(), 1)]);
    assert_eq!(second["upstreams"][0]["servers"][0]["name"], "127.0.0.1:11000");
    assert_eq!(shown(&page("?upstream=few")), [("few".to_owned(), 1)]);
    for (path, status) in [("?page=3", 404), ("?page=0", 404), ("?page=x", 400), ("?upstream=none", 404)] {
        assert_eq!(get(&format!("/api/overview{path}")).status, status, "{path}");
        assert_eq!(get(&format!("/{path}")).status, status, "{path}");
    }
    assert!(get("/?page=2").text().contains("Page 2 of 2"));
    let printed = run(&["ctl", "show", "--admin", &weir.address("admin").to_string()]).stdout;
    let whole: Value = serde_json::from_str(&printed).expect("it is JSON");
    assert_eq!(shown(&whole), [("app".to_owned(), 1_200), ("few".to_owned(), 1)], "of all pages");
    let metrics = get("/metrics?upstream=few").text();
    assert!(
        metrics.contains("upstream=\"few\"") && !metrics.contains("upstream=\"app\""),
        "of one upstream alone"
    );
    assert!(metrics.contains("listener=\"web\""));
    assert_eq!(get("/metrics?upstream=none").status, 404);
}

/// `/stub_status` has the form that programs know from nginx; a route may show it.
#[test]
fn counts_are_shown_as_nginx_writes_them() {
    let origin = Origin::serving("hello");
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.response().text(), "hello");
    }
    let shown = || {
        let response = Client::get_by_address(weir.address("admin"), "/stub_status");
        assert_eq!(
            (response.status, response.field("Content-Type")),
            (200, Some("text/plain; charset=utf-8"))
        );
        response.text()
    };
    let expected = "Active connections: 1 \nserver accepts handled requests\n 1 1 2 \nReading: 0 Writing: 0 Waiting: 1 \n";
    eventually("all are counted", || shown() == expected);
    let refused = Client::exchange(
        weir.address("admin"),
        "POST /stub_status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(refused.status, 405);
}
