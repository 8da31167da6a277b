//! `/metrics` of a large config: written piece by piece as the client reads, and of what it asks for; one server is looked up alone.

use std::time::Duration;

use crate::harness::metrics::Metrics;
use crate::harness::watchdog::now;
use crate::harness::{Client, Origin, Weir, eventually};

const SERVERS: usize = 20_000;

/// Twenty upstreams of a thousand servers that get no requests.
fn large() -> Weir {
    let mut config = String::from(
        "process.workers = 1\nadmin = { address = \"127.0.0.1:0\", socket = \"127.0.0.1:0\" }\n\
         [listener.web]\naddress = \"127.0.0.1:0\"\nupstream = \"u0\"\n",
    );
    for upstream in 0..SERVERS / 1_000 {
        let servers: Vec<String> =
            (0..1_000).map(|server| format!("\"127.0.0.1:{}\"", 10_000 + server)).collect();
        config.push_str(&format!("[upstream.u{upstream}]\nservers = [{}]\n", servers.join(", ")));
    }
    let weir = Weir::start(&config);
    let (mut peak, mut since) = (0, now());
    eventually("the memory of the process does not grow any more", || {
        let found = weir.resident_peak_bytes();
        if found > peak {
            (peak, since) = (found, now());
        }
        since.elapsed() > Duration::from_secs(3)
    });
    weir
}

#[test]
fn a_scrape_takes_no_memory_for_its_text() {
    let weir = large();
    let before = weir.resident_peak_bytes();
    let text = Client::get_by_address(weir.address("admin"), "/metrics").text();
    let grown = weir.resident_peak_bytes() - before;
    assert!(text.len() > 20 << 20, "{} bytes of text", text.len());
    assert_eq!(text.matches("\nweir_server_up{").count(), SERVERS);
    assert_eq!(text.matches("_bucket{").count(), 0, "histograms without a value");
    assert!(grown < 6 << 20, "{grown} bytes more for {} bytes of text", text.len());

    // One that reads nothing takes no more, does not keep others waiting, and is not waited for.
    let mut slow = Client::connect_narrow(weir.address("admin"));
    slow.send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let too_slow = || {
        let refusals =
            Metrics::new(&Client::get_by_address(weir.address("admin"), "/metrics?metrics=weir_admin_"));
        refusals.sum("weir_admin_refusals_total", &["reason=\"timeout\""])
    };
    let began = now();
    assert_eq!(too_slow(), 0.0);
    assert!(began.elapsed() < Duration::from_secs(5));
    eventually("it is given up", || too_slow() == 1.0);
    let (received, _) = slow.take_to_end();
    assert!(received.len() < 10 << 20 && !received.ends_with(b"0\r\n\r\n"), "{} bytes", received.len());
    let grown = weir.resident_peak_bytes() - before;
    assert!(grown < 6 << 20, "{grown} bytes more");

    look_up_one(&weir);
}

/// 300 times the weight of a server take less CPU time than ten times everything.
fn look_up_one(weir: &Weir) {
    let ask = |what: &str| {
        let line = format!("{}\n", vec![what; 60].join(";"));
        let mut client = Client::connect(weir.address("runtime"));
        client.send(line);
        let (answer, _) = client.take_to_end();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let cpu_time = || {
        let page = Client::get_by_address(weir.address("admin"), "/metrics?metrics=process_cpu_");
        Metrics::new(&page).sum("process_cpu_seconds_total", &[])
    };
    let began = cpu_time();
    for _ in 0..5 {
        let answer = ask("get weight u19/127.0.0.1:10999");
        assert_eq!(answer.matches("1 (initial 1)").count(), 60, "{answer}");
    }
    let of_one = cpu_time() - began;
    let began = cpu_time();
    for _ in 0..10 {
        let shown = Client::get_by_address(weir.address("admin"), "/api/raw?command=show%20info");
        assert!(shown.text().starts_with("Name: HAProxy"), "{}", shown.text());
    }
    let of_all = cpu_time() - began;
    assert!(of_one < of_all, "{of_one} s for one server, {of_all} s for all");
}

#[test]
fn a_scrape_shows_what_it_is_asked_for() {
    let weir = Weir::start(
        "admin.address = \"127.0.0.1:0\"\n[listener.web]\naddress = \"127.0.0.1:0\"\nupstream = \"app\"\n\
         [listener.other]\naddress = \"127.0.0.1:0\"\nupstream = \"api\"\n\
         [upstream.app]\nservers = [\"127.0.0.1:1\"]\n[upstream.api]\nservers = [\"127.0.0.1:2\"]\n\
         [upstream.more]\nservers = [\"127.0.0.1:3\"]\n",
    );
    let get = |query: &str| Client::get_by_address(weir.address("admin"), &format!("/metrics?{query}"));
    let series = |query: &str| {
        let response = get(query);
        assert_eq!((response.status, response.field("transfer-encoding")), (200, Some("chunked")), "{query}");
        let lines = response.text();
        let lines = lines.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').expect("a sample").0.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        series("metrics=weir_upstream_panic&upstream=api&upstream=app&upstream=api"),
        ["weir_upstream_panic{upstream=\"app\"}", "weir_upstream_panic{upstream=\"api\"}",]
    );
    assert_eq!(
        series("listener=other&metrics=weir_listener_requests_t&metrics=weir_server_up&upstream=app"),
        [
            "weir_listener_requests_total{listener=\"other\"}",
            "weir_server_up{upstream=\"app\",server=\"127.0.0.1:1\"}",
        ]
    );
    let named = series("upstream=%6Dor%65&metrics=weir_server_mode");
    assert_eq!(named.len(), 1, "{named:?}");
    assert!(series("").len() > 80);
    for (query, status, words) in [
        ("server=a", 400, "`server` is not known here"),
        ("metrics=weird", 400, "No name of a metric begins with `weird`"),
        ("upstream=app&upstream=none", 404, "There is no upstream `none`."),
        ("listener=none", 404, "There is no listener `none`."),
    ] {
        let response = get(query);
        assert_eq!(response.status, status, "{query}: {}", response.text());
        assert!(response.text().contains(words), "{query}: {}", response.text());
        assert_eq!(
            response.status == 400,
            response.text().contains("`metrics=PREFIX`"),
            "{}",
            response.text()
        );
    }
    // Without chunks, the text ends with the connection.
    let old = Client::exchange(
        weir.address("admin"),
        "GET /metrics?metrics=weir_build HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n",
    );
    assert_eq!((old.field("transfer-encoding"), old.field("content-length")), (None, None));
    assert_eq!(old.text().lines().count(), 3, "{}", old.text());
    let mut client = Client::connect(weir.address("admin"));
    client.send("HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_eq!(client.response_to("HEAD").status, 200);
    client.assert_closed();
}

#[test]
fn buckets_are_those_of_the_config_and_of_the_next_one() {
    let origin = Origin::serving("answer");
    let config = |buckets: &str| {
        format!(
            "admin.address = \"127.0.0.1:0\"\nmetrics.buckets = {buckets}\n[listener.web]\naddress = \"127.0.0.1:0\"\n\
             upstream = \"app\"\n[upstream.app]\nservers = [\"{}\"]\n",
            origin.address()
        )
    };
    let weir = Weir::start(&config("[\"1us\", \"10s\", \"15m\"]"));
    for _ in 0..3 {
        assert_eq!(Client::get(weir.web(), "/").text(), "answer");
    }
    let buckets = || {
        let query = "/metrics?metrics=weir_upstream_exchange_time";
        let text = Client::get_by_address(weir.address("admin"), query).text();
        let lines = text.lines().filter_map(|line| line.split_once("le=\""));
        lines.map(|(_, rest)| rest.replace("\"} ", " ")).collect::<Vec<_>>()
    };
    eventually("all are counted", || buckets() == ["0.000001 0", "10 3", "900 3", "+Inf 3"]);
    weir.reload(&config("[\"20s\"]"));
    assert_eq!(buckets(), ["20 3", "+Inf 3"]);
    weir.reload_in_vain(&config("[\"20s\", \"20s\"]"));
    weir.reload(&config("\"auto\""));
    assert_eq!(buckets().len(), 20);
    assert!(buckets()[0].starts_with("0.000128 "));
}
