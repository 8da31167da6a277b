//! Tables of counters: what is counted and when, rules that ask for counts, and what operators see and change.

use crate::harness::http2::H2C;
use crate::harness::scripts::{echo, echo_gated};
use crate::harness::websocket::{open_tunnel, switch_and_return_bytes};
use crate::harness::{Client, Gate, Http2Client, Origin, Response, Weir, config_with, eventually};

/// Of `s3cret`.
const BCRYPT: &str = "$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm";

/// A config in which the table `seen` with these keys counts every request.
fn config(origin: &Origin, table: &str, settings: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 2\nadmin.socket = \"unix:{{dir}}/weir.sock\"\nlistener.web.track = \"seen\"\n\
             table.seen = {{ {table} }}\n{settings}"
        ),
    )
}

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// A counter of a key, as `show table` has it; 0 without an entry.
fn counter(weir: &Weir, key: &str, name: &str) -> u64 {
    let shown = weir.ask_socket("show table seen");
    let line = shown.lines().find(|line| line.contains(&format!(" key={key} ")));
    let mut values = line.unwrap_or_default().split(' ').filter_map(|word| word.split_once('='));
    let value = values.find(|(known, _)| known.split('(').next() == Some(name));
    value.map_or(0, |(_, value)| value.parse().expect("a number"))
}

/// A server that answers 404 below `/missing`, 503 below `/failing`, and else 200.
fn moody() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = match request.target() {
                target if target.starts_with("/missing") => "404 Not Found",
                target if target.starts_with("/failing") => "503 Service Unavailable",
                _ => "200 OK",
            };
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    })
}

/// `http-request track-sc0 src`, `http-request deny if { sc_http_req_rate(0) gt 5 }`: over both protocols and all workers. What is refused counts as well.
#[test]
fn requests_over_a_rate_are_denied_and_count_on() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "store = [\"http_req_rate(1d)\", \"http_err_cnt\"]",
        &format!(
            "{H2C}listener.web.lists = \"fast\"\n\
             list.fast = {{ action = \"deny\", when = 'table.seen.http_req_rate > 5', status = 429 }}\n"
        ),
    ));
    let mut second = Http2Client::connect(weir.web());
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(get(&weir, "/a", "").status);
        statuses.push(second.fetch("/b").status);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
    assert_eq!(origin.requests().len(), 5);
    eventually("refusals are errors", || counter(&weir, "127.0.0.1", "http_err_cnt") == 3);
    assert_eq!(counter(&weir, "127.0.0.1", "http_req_rate"), 8);
    assert_eq!(weir.ask_socket("clear table seen key 127.0.0.1"), "\n");
    assert_eq!(get(&weir, "/a", "").status, 200, "it is forgotten");
}

/// A client with too many errors is shut out everywhere, as `fail2ban` does it, until its entry expires.
#[test]
fn clients_with_errors_are_shut_out() {
    let origin = moody();
    let weir = Weir::start(&config(
        &origin,
        "key = \"{header.x-user}\", store = [\"gpc0\", \"http_err_cnt\", \"http_fail_cnt\", \"http_req_cnt\"], \
         increment.gpc0 = 'status == 404 && path.startsWith(\"/missing/login\")'",
        "listener.web.lists = \"banned\"\n\
         list.banned = { action = \"deny\", when = 'table.seen.gpc0 >= 2' }\n\
         listener.web.response_headers.set = { x-errors = \"{table.seen.http_err_cnt}\", x-gpc = \"{table.seen.gpc0}\" }\n",
    ));
    let shown = |response: &Response| {
        let field = |name| response.field(name).unwrap_or("none").to_owned();
        (response.status, field("x-errors"), field("x-gpc"))
    };
    let (ann, bob) = ("X-User: ann\r\n", "X-User: bob\r\n");
    let expected = |status, errors: &str, gpc: &str| (status, errors.to_owned(), gpc.to_owned());
    assert_eq!(shown(&get(&weir, "/missing", ann)), expected(404, "0", "0"));
    eventually("it is counted", || counter(&weir, "ann", "http_err_cnt") == 1);
    assert_eq!(shown(&get(&weir, "/missing/login", ann)), expected(404, "1", "0"));
    eventually("it is counted", || counter(&weir, "ann", "gpc0") == 1);
    assert_eq!(shown(&get(&weir, "/failing", ann)), expected(503, "2", "1"));
    assert_eq!(shown(&get(&weir, "/missing/login", ann)), expected(404, "2", "1"));
    eventually("it is counted", || counter(&weir, "ann", "gpc0") == 2);
    assert_eq!(get(&weir, "/fine", ann).status, 403);
    assert_eq!(get(&weir, "/fine", bob).status, 200);
    let none = get(&weir, "/fine", "");
    assert_eq!(none.status, 200, "no key, no entry, no relation");
    assert_eq!(none.field("x-errors").unwrap_or_default(), "");
    eventually("all is counted", || counter(&weir, "ann", "http_err_cnt") == 4);
    assert_eq!(counter(&weir, "ann", "http_fail_cnt"), 1);
    assert_eq!(counter(&weir, "ann", "http_req_cnt"), 5);
    assert_eq!(weir.ask_socket("set table seen key bob data.gpc0 7"), "\n");
    assert_eq!(get(&weir, "/fine", bob).status, 403, "an operator has set it");
}

/// Routes are chosen by counts, which are those before the request; a path known as hostile counts at once.
#[test]
fn routes_and_request_conditions() {
    let origin = echo();
    let weir = Weir::start(
        &config(
            &origin,
            "store = [\"gpc1\", \"gpc0_rate(1d)\", \"conn_cnt\"], increment = { gpc1 = 'path == \"/wp-login.php\"', gpc0 = 'method == \"POST\"' }",
            "access_log = { output = \"file:{dir}/access.log\", format = \"{status} {table.seen.conn_cnt} {table.seen.gpc1}\" }\n\
             [[listener.web.route]]\npath = \"/\"\nwhen = 'table.seen.gpc1 > 0'\nrespond = { status = 410, body = \"gone\" }\n\
             [[listener.web.route]]\npath = \"/\"\nupstream = \"app\"\n",
        )
        .replace("listener.web.upstream = \"app\"\n", ""),
    );
    let requests = [
        ("GET /a", 200, "200 1 0"),
        ("GET /wp-login.php", 200, "200 2 1"),
        ("GET /a", 410, "410 3 1"),
        ("POST /a", 410, "410 4 1"),
    ];
    for (nth, (line, status, logged)) in requests.into_iter().enumerate() {
        let mut client = Client::connect(weir.web());
        client.send(format!("{line} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(client.response().status, status, "{line}");
        // The line is written behind the response: the next request must not be counted before.
        assert_eq!(weir.access_log(nth + 1)[nth], logged, "{line}");
    }
    assert_eq!(counter(&weir, "127.0.0.1", "gpc0_rate"), 1);
}

/// Requests that no route takes count for the tables of the listener, and each request once, wherever a table is named.
#[test]
fn each_request_counts_once() {
    let origin = echo();
    let weir = Weir::start(
        &config(
            &origin,
            "store = [\"http_req_cnt\", \"http_err_cnt\"]",
            "[[listener.web.route]]\npath = \"/here\"\nupstream = \"app\"\ntrack = [\"seen\", \"second\"]\n\
             error_pages = [{ status = 404, upstream = \"app\" }]\n\
             [table.second]\nstore = \"http_req_cnt\"\nwhen = 'method == \"HEAD\"'\n",
        )
        .replace("listener.web.upstream = \"app\"\n", ""),
    );
    assert_eq!(get(&weir, "/nowhere", "").status, 404);
    assert_eq!(get(&weir, "/here", "").status, 200);
    eventually("both are counted", || counter(&weir, "127.0.0.1", "http_err_cnt") == 1);
    assert_eq!(counter(&weir, "127.0.0.1", "http_req_cnt"), 2);
    let tables = weir.ask_socket("show table");
    assert!(tables.contains("# table: seen, type: ip, size:100000, used:1\n"), "{tables}");
    assert!(tables.contains("# table: second, type: ip, size:100000, used:0\n"), "{tables}");
}

/// What is open is counted until it is over, tunnels included, with the bytes of both directions.
#[test]
fn what_is_open_and_its_bytes() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let store = "store = [\"conn_cur\", \"bytes_in_cnt\", \"bytes_out_rate(1d)\"]";
    let weir = Weir::start(&config(
        &origin,
        store,
        "listener.web.lists = \"many\"\nlist.many = { action = \"deny\", when = 'table.seen.conn_cur > 2' }\n",
    ));
    let mut held = [0; 2].map(|_| Client::connect(weir.web()));
    held.iter_mut().for_each(|client| client.send_get("/held"));
    origin.wait_for_requests(2);
    assert_eq!(counter(&weir, "127.0.0.1", "conn_cur"), 2);
    assert_eq!(get(&weir, "/a", "").status, 403, "the third at once");
    weir.ask_socket("clear table seen");
    assert_eq!(counter(&weir, "127.0.0.1", "conn_cur"), 2, "what is open stays counted");
    let [first, mut second] = held;
    first.reset();
    eventually("one has left", || counter(&weir, "127.0.0.1", "conn_cur") == 1);
    gate.open();
    assert_eq!(second.response().status, 200);
    eventually("all are over", || counter(&weir, "127.0.0.1", "conn_cur") == 0);
    let origin = Origin::start(|conn| {
        conn.request()?;
        switch_and_return_bytes(conn)
    });
    let weir = Weir::start(&config(
        &origin,
        &format!("{store}, increment.gpc0 = 'status == 101'")
            .replace("\"conn_cur\"", "\"conn_cur\", \"gpc0\""),
        "",
    ));
    let tunnel = open_tunnel(weir.web());
    assert_eq!(counter(&weir, "127.0.0.1", "conn_cur"), 1);
    assert_eq!(counter(&weir, "127.0.0.1", "gpc0"), 1, "known as the tunnel begins");
    let before = counter(&weir, "127.0.0.1", "bytes_in_cnt");
    tunnel.finish();
    eventually("the tunnel is over", || counter(&weir, "127.0.0.1", "conn_cur") == 0);
    assert!(counter(&weir, "127.0.0.1", "bytes_in_cnt") > before + 40);
    assert!(counter(&weir, "127.0.0.1", "bytes_out_rate") > 40);
    assert_eq!(counter(&weir, "127.0.0.1", "gpc0"), 1);
}

#[test]
fn connections_of_a_tcp_listener() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "store = [\"conn_rate(1d)\", \"conn_cur\", \"bytes_out_cnt\"], prefix.ipv4 = 8",
        "listener.web.protocol = \"tcp\"\nlistener.web.lists = \"fast\"\n\
         list.fast = { action = \"deny\", when = 'table.seen.conn_rate > 2' }\n",
    ));
    let mut first = Client::connect(weir.web());
    assert_eq!(first.fetch("/a").status, 200);
    assert_eq!(counter(&weir, "127.0.0.0", "conn_cur"), 1);
    drop(first);
    let mut second = Client::connect(weir.web());
    assert_eq!(second.fetch("/a").status, 200);
    Client::connect(weir.web()).assert_closed();
    drop(second);
    eventually("all are over", || counter(&weir, "127.0.0.0", "conn_cur") == 0);
    assert_eq!(counter(&weir, "127.0.0.0", "conn_rate"), 3, "the refused one counts");
    assert!(counter(&weir, "127.0.0.0", "bytes_out_cnt") > 30);
}

/// A table by the user counts those who have proved who they are.
#[test]
fn users_are_counted_after_authentication() {
    let origin = echo();
    let weir = Weir::start(
        &config(
            &origin,
            "key = \"{user}\", store = \"http_req_cnt\"",
            &format!(
                "listener.web.lists = \"busy\"\n\
                 list.busy = {{ action = \"deny\", when = 'table.seen.http_req_cnt > 1' }}\n\
                 [[listener.web.route]]\npath = \"/\"\nupstream = \"app\"\nbasic = {{ users = {{ ann = \"{BCRYPT}\" }} }}\n"
            ),
        )
        .replace("listener.web.upstream = \"app\"\n", ""),
    );
    let right = "Authorization: Basic YW5uOnMzY3JldA==\r\n";
    let wrong = "Authorization: Basic YW5uOndyb25n\r\n";
    assert_eq!(get(&weir, "/", wrong).status, 401);
    assert_eq!(get(&weir, "/", wrong).status, 401);
    assert_eq!(get(&weir, "/", right).status, 200);
    assert_eq!(get(&weir, "/", right).status, 403);
    assert_eq!(counter(&weir, "ann", "http_req_cnt"), 2);
}

/// Counts are exact, however many connections, streams and workers there are.
#[test]
fn counts_are_exact_over_workers() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "key = \"{header.x-user}\", store = [\"http_req_cnt\", \"conn_cur\", \"gpc0\"], increment.gpc0 = 'status == 200'",
        H2C,
    ));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Client::connect(weir.web());
                for _ in 0..100 {
                    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nX-User: ann\r\n\r\n");
                    assert_eq!(client.response().status, 200);
                }
            });
        }
    });
    eventually("all are over", || counter(&weir, "ann", "conn_cur") == 0);
    assert_eq!((counter(&weir, "ann", "http_req_cnt"), counter(&weir, "ann", "gpc0")), (800, 800));
}

/// A client that makes up keys fills the table and no more; what was used last stays.
#[test]
fn a_full_table_forgets_the_oldest_key() {
    let origin = echo();
    let weir = Weir::start(&config(
        &origin,
        "key = \"{header.x-user}\", store = [\"http_req_cnt\"], keys_max = 10",
        "",
    ));
    for user in 0..100 {
        assert_eq!(get(&weir, "/", &format!("X-User: {user:03}{}\r\n", "x".repeat(user * 10))).status, 200);
        assert_eq!(get(&weir, "/", "X-User: stays\r\n").status, 200);
    }
    let sum = |name| weir.metrics().sum(name, &["table=\"seen\""]);
    assert_eq!((sum("weir_table_keys"), sum("weir_table_evictions_total")), (10.0, 91.0));
    assert_eq!((sum("weir_table_keys_max"), sum("weir_table_untracked_total")), (10.0, 0.0));
    assert_eq!(counter(&weir, "stays", "http_req_cnt"), 100);
    let table = &weir.admin_json("/api/tables")[0];
    assert_eq!((&table["keys"], &table["evictions"]), (&10.into(), &91.into()));
    let shown = weir.ask_socket("show table seen data.http_req_cnt gt 1");
    assert_eq!(shown.lines().count(), 3, "a header, an entry, an empty line: {shown}");
}

/// A table whose keys and counters stay as they are goes on over a reload, and in the process that replaces this one.
#[test]
fn counts_outlive_reload_and_upgrade() {
    let origin = echo();
    let text = |table: &str| config(&origin, table, "");
    let store = "store = [\"http_req_cnt\", \"http_req_rate(1d)\", \"gpc0\"]";
    let mut weir = Weir::start(&text(store));
    let counts =
        |weir: &Weir| ["http_req_cnt", "http_req_rate", "gpc0"].map(|name| counter(weir, "127.0.0.1", name));
    for _ in 0..3 {
        get(&weir, "/", "");
    }
    weir.reload(&text(&format!("{store}, increment.gpc0 = 'path == \"/a\"'")));
    get(&weir, "/a", "");
    assert_eq!(counts(&weir), [4, 4, 1]);
    weir.upgrade();
    weir.wait_for_exit_of_the_first();
    assert_eq!(counts(&weir), [4, 4, 1]);
    get(&weir, "/a", "");
    assert_eq!(counts(&weir), [5, 5, 2]);
    let weir = Weir::start(&text(store));
    get(&weir, "/a", "");
    assert_eq!(counts(&weir), [1, 1, 0]);
    weir.reload(&text("store = [\"http_req_cnt\"]"));
    assert_eq!(counts(&weir), [0, 0, 0], "other counters begin anew");
}

/// Changes need the permission that changes of servers need.
#[test]
fn tables_are_changed_with_permission() {
    let origin = echo();
    let weir = Weir::start(&config(&origin, "store = \"gpc0\"", "admin.socket_changes = false\n"));
    get(&weir, "/", "");
    assert!(weir.ask_socket("show table seen").contains("key=127.0.0.1"));
    for command in ["clear table seen", "set table seen key 127.0.0.1 data.gpc0 5"] {
        assert!(weir.ask_socket(command).contains("Permission denied"), "{command}");
    }
    assert_eq!(weir.ask_socket("show table none"), "No such table.\n\n");
    assert_eq!(counter(&weir, "127.0.0.1", "gpc0"), 0);
}
