//! The order in which features really act, compared with the table that says it: exchanges on routes that have all of them.
//!
//! Features note where they act ([`acting`]), in their own code. Rows whose work needs a disk, a thread or a peer that speaks another protocol are
//! left to the end-to-end tests.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::LocalSet;
use weir_access::BasicCredentials;
use weir_config::{CheckedConfig, Config, Feature, ORDER, Stage};

use super::client::ClientWorld;
use super::world::{Event, World, body_bytes};
use super::{SERVERS, client, exchange_task, worker};
use crate::exchange::acting;
use crate::exchange::features::authentication::basic_auth;
use crate::net::clock::{self, Instant};
use crate::state::worker::Worker;

const CONFIG: &str = r#"
list.net = { action = "tag", entries = ["192.0.2.0/24 near"] }
list.team = { action = "allow", key = "{user}", entries = ["bob"] }
limit.rate = { rate = "1000000/s", fields_in_responses = true }
limit.user = { rate = "1000000/s", key = "{user}" }
limit.slow.bandwidth = "1kB/s"
cache.pages.memory = "16MiB"
table.clients = { store = ["http_req_rate(10s)", "gpc0"], increment.gpc0 = "status >= 400" }
table.users = { store = "http_req_cnt", key = "{user}" }
listener.web.address = "127.0.0.1:0"
listener.web.request_id = { in_response = true }
listener.web.rewrite = [{ pattern = '^/never$', replacement = "/" }]
[[listener.web.route]]
path = "/many/"
upstream = "many"
rewrite = [{ pattern = '^/many/never$', replacement = "/many/", flag = "break" }]
lists = ["net", "team"]
limited_by = ["rate", "user"]
track = ["clients", "users"]
basic = { users = { ann = "$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm" } }
cache = "pages"
buffer_requests = {}
buffer_responses = {}
compression = {}
cors = { origins = ["https://a.test"] }
mirror = { upstream = "one", compare = ["status", "headers", "body"] }
error_pages = [{ status = "404", html = "PAGE", of_servers = true }]
request_headers.set = { x-user = "{user}" }
response_headers.set = { x-cache = "{cache}" }
[[listener.web.route]]
path = "/slow/"
upstream = "one"
limited_by = ["slow"]
mirror = { upstream = "one", compare = ["body"] }
[[listener.web.route]]
path = "/fixed"
cors = { origins = ["https://a.test"] }
respond = { status = 200, body = "a body that is long enough to be compressed, be it only because there is no least length" }
compression = { min_length = "1B" }
[[listener.web.route]]
path = "/rewritten"
respond = { status = 200, body = "a body" }
rewrite_body = { types = ["*"], rules = [{ text = "a", to = "b" }] }
[upstream.many]
servers = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]
affinity = { cookie = "srv" }
retry = { attempts_max = 3, on_status = [503], budget_per_second = 1000 }
[upstream.one]
servers = ["10.0.1.1:80"]
"#;

/// What the only user sends.
const CREDENTIALS: &str = "Basic YW5uOnNlY3JldA==";

/// Rows that no exchange in memory comes to.
const ELSEWHERE: [(Stage, Feature); 10] = [
    // A collector of traces, an authority, a disk.
    (Stage::RequestHead, Feature::Telemetry),
    (Stage::Server, Feature::Telemetry),
    (Stage::RequestHead, Feature::AcmeChallenge),
    (Stage::BeforeServer, Feature::Files),
    // Servers that speak gRPC, or set cookies.
    (Stage::ResponseFields, Feature::Grpc),
    (Stage::Server, Feature::Affinity),
    // Fields of a client that are left out, as others are that a route takes out.
    (Stage::Server, Feature::Rewriting),
    // Servers that ask for something, and send requests on.
    (Stage::ResponseHead, Feature::Accel),
    (Stage::ResponseFields, Feature::Accel),
    // A response that is stored and then stale.
    (Stage::Server, Feature::Cache),
];

/// Runs an exchange to its end: the rows that have acted on it.
fn rows_of(config: &Config, head: &str, body_len: usize, seed: u64) -> Vec<(Stage, Feature)> {
    clock::set(Some(Instant::test(Duration::from_secs(1_000))));
    let worker = worker(config, &[SERVERS, 1], seed);
    let client = Rc::new(ClientWorld::new(0, head.to_owned(), body_bytes(body_len, 0)));
    let world = World::new(seed, vec![client], SERVERS);
    know_password(&worker);
    world.after(0, Event::ClientSends(0));
    world.after(0, Event::ClientReads(0));
    let mut task = exchange_task(&worker, &world, 0);
    acting::take();
    while !task.is_over() {
        while task.poll() {}
        let next = [world.next_at(), worker.timers.next_due()].into_iter().flatten().min();
        let Some(next) = next else { break };
        clock::set(Some(next.max(clock::now())));
        worker.timers.fire();
        if world.next_at().is_some_and(|at| at <= clock::now()) {
            world.step();
        }
    }
    clock::set(None);
    acting::take()
}

/// The password of the only user is right, as a thread would find out.
fn know_password(worker: &Rc<Worker>) {
    let route = &worker.config.borrow().snapshot.listeners[0].route_plans[0];
    let users = route.access.as_ref().and_then(|access| access.users.as_ref()).expect("it has users").now();
    let basic =
        route.config.access.as_ref().and_then(|access| access.basic.as_ref()).expect("it has `basic`");
    let credentials = BasicCredentials::parse(CREDENTIALS.as_bytes()).expect("they are of this scheme");
    let credentials = credentials.expect("they are well-formed");
    let (client, address) = (client(worker, 0), [192, 0, 2, 0].into());
    let (digest, _) = basic_auth::ask(&client, address, &credentials, basic, &users).expect("it is known");
    worker.passwords.borrow_mut().insert(digest, true, Duration::from_secs(3600));
}

/// The place of a row in the table.
fn place(row: (Stage, Feature)) -> usize {
    let found = ORDER.iter().position(|known| (known.stage, known.feature) == row);
    found.unwrap_or_else(|| panic!("{} acts at {}, which the table does not say", row.1.name(), row.0.name()))
}

/// Whether `next` may act behind `before`: later in the table, again at once, or in the next attempt.
fn may_follow(before: (Stage, Feature), next: (Stage, Feature)) -> bool {
    let is_next_attempt = next.0 == Stage::Server && matches!(before.0, Stage::Server | Stage::ResponseHead);
    place(next) >= place(before) || is_next_attempt
}

#[test]
fn features_act_in_the_order_of_the_table() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
    let _in_runtime = runtime.enter();
    let local = LocalSet::new();
    let _in_local = local.enter();
    let page = tempfile::NamedTempFile::new().expect("there is room");
    let text = CONFIG.replace("PAGE", &page.path().to_string_lossy());
    let config = CheckedConfig::parse(&text, "order.toml").into_result().expect("the config is good");
    let get = |path: &str, more: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Id: 0\r\nOrigin: https://a.test\r\n{more}\r\n")
    };
    let post = |path: &str, more: &str| {
        let authorized = format!("Authorization: {CREDENTIALS}\r\n{more}");
        get(path, &authorized).replacen("GET", "POST", 1)
    };
    let mut seen = Vec::new();
    let requests = [
        (get("/many/a", &format!("Authorization: {CREDENTIALS}\r\n")), 0),
        (get("/slow/a", ""), 0),
        (get("/fixed", "Accept-Encoding: gzip\r\n"), 0),
        (get("/rewritten", ""), 0),
        (post("/many/a", "Content-Length: 500\r\n"), 500),
        (
            post(
                "/slow/a",
                "Content-Type: application/grpc\r\ngrpc-timeout: 5S\r\nTransfer-Encoding: chunked\r\n",
            ),
            100,
        ),
        (
            get("/fixed", "")
                .replace("GET", "OPTIONS")
                .replace("Origin", "Access-Control-Request-Method: PUT\r\nOrigin"),
            0,
        ),
    ];
    for (head, body_len) in requests {
        for seed in 1..40 {
            let rows = rows_of(&config, &head, body_len, seed);
            for pair in rows.windows(2) {
                assert!(may_follow(pair[0], pair[1]), "seed {seed}, {head}: {:?}", rows);
            }
            seen.extend(rows);
        }
    }
    let missing: Vec<_> = ORDER.iter().map(|row| (row.stage, row.feature)).collect();
    let missing: Vec<_> =
        missing.into_iter().filter(|row| !seen.contains(row) && !ELSEWHERE.contains(row)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}
