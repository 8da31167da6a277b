//! Profiles of the running process: `/api/profile/cpu`, `/api/profile/memory` and `weir ctl profile`.

use std::net::SocketAddr;
use std::thread;

use serde_json::Value;

use crate::harness::{BackgroundTraffic, Client, Origin, Response, Weir, eventually, run};

fn start(origin: &Origin) -> Weir {
    Weir::proxying_with(origin, "admin = { address = \"127.0.0.1:0\", changes = true }\nprocess.workers = 2")
}

fn post_with(admin: SocketAddr, target: &str, field: &str) -> Response {
    let request = format!("POST {target} HTTP/1.1\r\nHost: {admin}\r\n{field}\r\nContent-Length: 0\r\n\r\n");
    Client::exchange(admin, &request)
}

/// Whether every element ends, in order, and every text is escaped.
fn is_well_formed(xml: &str) -> bool {
    let mut open = Vec::new();
    for part in xml.split('<').skip(1) {
        let Some((tag, text)) = part.split_once('>') else { return false };
        let unescaped =
            text.split('&').skip(1).any(|rest| rest.split(';').next().is_none_or(|name| name.len() >= 5));
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or_default();
        if unescaped || tag.matches('"').count() % 2 == 1 {
            return false;
        }
        if tag.starts_with('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty() && xml.trim_end().ends_with("</svg>")
}

#[test]
fn the_cpu_time_of_each_thread_is_drawn_while_requests_go_on() {
    let origin = Origin::serving("hello");
    let weir = start(&origin);
    let traffic = BackgroundTraffic::start(weir.web());
    // On a machine that has no time for it, a second can be too short for a sample.
    eventually("a worker was sampled in the middle of its work", || {
        let response = weir.admin_post("/api/profile/cpu?seconds=1");
        assert_eq!((response.status, response.field("Content-Type")), (200, Some("image/svg+xml")));
        let svg = response.text();
        assert!(is_well_formed(&svg), "{svg}");
        let has = |name: &str| svg.contains(&format!("<title>{name}"));
        has("weir-worker-") && has("weir_proxy::worker::run") && has("weir_proxy::exchange::")
    });
    eventually("the same as text", || {
        let response = weir.admin_post("/api/profile/cpu?seconds=1&format=folded");
        let text = response.text();
        let lines = text.lines().map(|line| line.rsplit_once(' ').expect("a line ends in a number"));
        let counts = lines.map(|(stack, count)| (stack, count.parse::<u64>().expect("it is a number")));
        counts.filter(|(stack, _)| stack.starts_with("weir-worker-")).map(|(_, count)| count).sum::<u64>() > 0
    });
    traffic.end();
}

/// The debug information that names are looked up in is tens of MiB, and of no use afterwards.
#[test]
fn a_profile_leaves_no_memory() {
    let origin = Origin::serving("fine");
    let weir = start(&origin);
    let before = weir.resident_bytes();
    assert_eq!(weir.admin_post("/api/profile/cpu?seconds=1").status, 200);
    let peak = weir.resident_peak_bytes() - before;
    assert!(peak > 24 << 20, "names were looked up: {peak}");
    eventually("the memory is given back", || weir.resident_bytes() < before + (12 << 20));
}

#[test]
fn there_is_one_profile_at_a_time_and_requests_go_on() {
    let origin = Origin::serving("hello");
    let weir = start(&origin);
    let traffic = BackgroundTraffic::start(weir.web());
    eventually("two that are asked for at once meet", || {
        let ask = || weir.admin_post("/api/profile/cpu?seconds=2").status;
        let mut statuses = thread::scope(|scope| {
            [scope.spawn(ask), scope.spawn(ask)].map(|asked| asked.join().expect("it asks"))
        });
        statuses.sort_unstable();
        assert_eq!(statuses[0], 200);
        statuses[1] == 409
    });
    traffic.end();
    assert_eq!(weir.admin_post("/api/profile/memory").status, 200, "the one before has ended");
}

#[test]
fn every_page_of_memory_is_in_one_kind() {
    let origin = Origin::serving("hello");
    let weir = start(&origin);
    let _open: Vec<Client> = (0..7)
        .map(|_| {
            let mut client = Client::connect(weir.web());
            assert_eq!(client.fetch("/").status, 200);
            client
        })
        .collect();
    eventually("what the workers hold is accounted for", || {
        let response = weir.admin_post("/api/profile/memory");
        assert_eq!((response.status, response.field("Content-Type")), (200, Some("application/json")));
        let shown: Value = serde_json::from_str(&response.text()).expect("it is JSON");
        let sum = |key: &str, of: &str| {
            let all = shown[key].as_array().expect("it is a list");
            all.iter().map(|one| one[of].as_i64().expect("it is a number")).sum::<i64>()
        };
        assert_eq!(shown["resident_bytes"].as_i64(), Some(sum("kinds", "resident_bytes")));
        assert_eq!(shown["accounted_bytes"].as_i64(), Some(sum("classes", "bytes")));
        let heap = shown["kinds"][0]["resident_bytes"].as_i64().expect("it is a number");
        assert_eq!(shown["unaccounted_bytes"].as_i64(), Some(heap - sum("classes", "bytes")));
        for kind in shown["kinds"].as_array().expect("it is a list") {
            let (resident, mapped) = (kind["resident_bytes"].as_u64(), kind["mapped_bytes"].as_u64());
            assert!(resident <= mapped || kind["name"] == "anonymous", "{kind}");
        }
        // The kernel's figures of the whole process, at about the same time.
        let resident = shown["resident_bytes"].as_u64().expect("it is a number");
        assert!(resident.abs_diff(weir.resident_bytes()) < 8 << 20, "{shown}");
        let count = |name: &str| {
            let classes = shown["classes"].as_array().expect("it is a list");
            let class = classes.iter().find(|class| class["name"] == name);
            class.and_then(|class| class["count"].as_u64()).expect("there is such a class")
        };
        count("client connections") == 7 && count("buffers kept") > 0 && count("counters of workers") == 2
    });
}

#[test]
fn profiles_require_the_permission_to_change() {
    let origin = Origin::serving("hello");
    let weir = start(&origin);
    let admin = weir.address("admin");
    for what in ["cpu", "memory"] {
        for field in ["Origin: http://evil.test", "Origin: null", "Sec-Fetch-Site: cross-site"] {
            assert_eq!(post_with(admin, &format!("/api/profile/{what}"), field).status, 403, "{field}");
        }
        // A link on any page could send a GET, and not every browser sends `Origin` or `Sec-Fetch-Site`.
        let response = Client::get_by_address(admin, &format!("/api/profile/{what}"));
        assert_eq!((response.status, response.field("Allow")), (405, Some("POST")));
    }
    for query in ["seconds=0", "seconds=61", "seconds=x", "format=png", "secs=1"] {
        let response = weir.admin_post(&format!("/api/profile/cpu?{query}"));
        assert_eq!(response.status, 400, "{query}");
    }
    assert_eq!(weir.admin_post("/api/profile/disk").status, 404);

    let weir = Weir::proxying_with(&origin, "admin.address = \"127.0.0.1:0\"");
    for what in ["cpu", "memory"] {
        let response = weir.admin_post(&format!("/api/profile/{what}"));
        assert_eq!(response.status, 403);
        assert!(response.text().contains("`admin.changes`"), "{}", response.text());
    }
}

#[test]
fn a_command_writes_profiles_down() {
    let origin = Origin::serving("hello");
    let weir = start(&origin);
    let admin = weir.address("admin").to_string();
    let file = weir.folder().join("weir.svg");
    let path = file.to_str().expect("temporary paths are UTF-8");
    let run = |arguments: &[&str]| {
        let done = run(&[&["ctl", "profile"], arguments, &["--admin", &admin]].concat());
        (done.code, done.stdout, done.stderr)
    };
    let (code, printed, said) = run(&["cpu", "--seconds", "1", "-o", path]);
    assert_eq!((code, printed.as_str()), (Some(0), ""), "{said}");
    assert!(is_well_formed(&std::fs::read_to_string(&file).expect("it was written")));
    let (code, printed, said) = run(&["memory"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(printed.contains("\n  heap ") && printed.contains("\nunaccounted "), "{printed}");
    let (_, printed, _) = run(&["memory", "--json"]);
    let shown: Value = serde_json::from_str(&printed).expect("it is JSON");
    assert!(shown["resident_bytes"].as_u64() > Some(1 << 20), "{printed}");
    assert_eq!(run(&["cpu", "--seconds", "61"]).0, Some(2));
    let (code, _, said) = run(&["cpu", "--seconds", "1", "-o", "/no/such/folder/weir.svg"]);
    assert!(code == Some(1) && said.contains("/no/such/folder/weir.svg"), "{said}");
}
