//! The screen in a terminal that exists here only.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::*;

fn server(name: &str, status: &str, requests: f64, p99_us: Option<u64>, in_flight: u64) -> Value {
    json!({
        "name": name, "status": status, "in_flight": in_flight,
        "rates": { "requests": { "now": requests }, "failures": { "now": 0.0 } },
        "response_time": { "p50_us": p99_us.map(|us| us / 4), "p99_us": p99_us },
    })
}

fn look() -> Value {
    let upstream = |name: &str, waiting: u64, failures: f64, servers: Vec<Value>| {
        let requests: f64 =
            servers.iter().filter_map(|server| server["rates"]["requests"]["now"].as_f64()).sum();
        let usable = servers.iter().filter(|server| server["status"] == "up").count();
        json!({
            "name": name, "servers_usable": usable, "queue_length": { "now": waiting },
            "rates": { "requests": { "now": requests }, "failures": { "now": failures } },
            "response_time": { "p50_us": 1_500, "p99_us": 2_500_000 }, "servers": servers,
        })
    };
    json!({
        "process": { "name": "edge-1", "at_ms": 9_000_000, "started_ms": 0, "is_stopping": false, "connections_open": { "now": 24 } },
        "listeners": [{ "rates": { "requests": { "now": 431.4 }, "failures": { "now": 2.0 } } }],
        "upstreams": [
            upstream("api", 0, 0.0, vec![
                server("api-1", "up", 85.0, Some(77_800), 1),
                server("api-2", "up", 131.0, Some(900), 2),
                server("api-3", "down", 0.0, None, 0),
            ]),
            upstream("shop", 7, 2.0, vec![server("shop-1", "draining", 1.5, Some(2_500_000), 40)]),
        ],
    })
}

fn drawn(screen: &mut TopScreen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
}

fn press_char(screen: &mut TopScreen, key: char) -> bool {
    press(screen, KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))
}

/// The names of the rows, from the top.
fn names(screen: &mut TopScreen) -> Vec<String> {
    let lines = drawn(screen, 80, 24);
    let rows = lines[3..23].iter().filter(|line| !line.is_empty());
    rows.map(|line| line.split_whitespace().next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn everything_fits_into_80_by_24() {
    let mut screen = TopScreen::new(look(), RowOrder::Rate);
    let lines = drawn(&mut screen, 80, 24);
    assert_eq!(lines[0], "edge-1  up 2h  431 requests/s  2.0 failed/s  24 connections");
    assert_eq!(lines[1], "sorted by requests");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(words(&lines[2]), "STATE REQ/S P50 P99 RUN WAIT FAIL/S");
    assert_eq!(words(&lines[3]), "api 2 of 3 216 1.5ms 2.5s 3 0 0.0");
    assert_eq!(words(&lines[4]), "api-2 up 131 225us 900us 2 0.0");
    assert_eq!(words(&lines[6]), "api-3 down 0.0 - - 0 0.0");
    assert_eq!(words(&lines[8]), "shop-1 draining 1.5 625ms 2.5s 40 0.0");
    assert!(lines[23].starts_with("r requests") && lines[23].ends_with("q quit"), "{}", lines[23]);
}

#[test]
fn keys_sort_fold_and_leave() {
    let mut screen = TopScreen::new(look(), RowOrder::Rate);
    for (key, expected) in [
        ('p', &["api", "api-1", "api-2", "api-3", "shop", "shop-1"][..]),
        ('w', &["shop", "shop-1", "api", "api-2", "api-1", "api-3"]),
        ('f', &["shop", "shop-1", "api", "api-1", "api-2", "api-3"]),
        ('n', &["api", "api-1", "api-2", "api-3", "shop", "shop-1"]),
        ('r', &["api", "api-2", "api-1", "api-3", "shop", "shop-1"]),
        ('u', &["api", "shop"]),
    ] {
        assert!(press_char(&mut screen, key));
        assert_eq!(names(&mut screen), expected, "{key}");
    }
    assert!(!press_char(&mut screen, 'q'));
    assert!(!press(&mut screen, KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
}

#[test]
fn scrolling_ends_at_the_last_row() {
    let mut screen = TopScreen::new(look(), RowOrder::Name);
    for _ in 0..50 {
        assert!(press(&mut screen, KeyEvent::new(KeyCode::PageDown, KeyModifiers::NONE)));
    }
    let lines = drawn(&mut screen, 80, 7);
    assert!(lines[5].trim_start().starts_with("shop-1"), "{lines:?}");
    assert!(press(&mut screen, KeyEvent::new(KeyCode::Home, KeyModifiers::NONE)));
    assert!(drawn(&mut screen, 80, 7)[3].starts_with("api"));
}

#[test]
fn old_figures_stay_and_say_so() {
    let mut screen = TopScreen::new(look(), RowOrder::Rate);
    screen.take(Err("no listener\u{1b}[2J at 127.0.0.1:1".to_owned()));
    let lines = drawn(&mut screen, 80, 24);
    assert_eq!(lines[0], "as of a while ago: no listener\u{fffd}[2J at 127.0.0.1:1");
    assert!(lines[3].starts_with("api"));
    screen.take(Ok(json!({})));
    assert!(drawn(&mut screen, 20, 3)[0].starts_with("weir"), "no figure, little room, no panic");
}

#[test]
fn tcp_has_connections_and_bytes() {
    let rates = json!({ "requests": { "now": 9.0 }, "connections": { "now": 3.0 }, "bytes_in": { "now": 1_200_000.0 }, "bytes_out": { "now": 340.0 } });
    let server = json!({ "name": "db-1", "status": "up", "in_flight": 4, "rates": rates });
    let upstream =
        json!({ "name": "db", "protocol": "tcp", "servers_usable": 1, "rates": rates, "servers": [server] });
    let mut screen = TopScreen::new(json!({ "upstreams": [upstream] }), RowOrder::Rate);
    let lines = drawn(&mut screen, 80, 24);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert_eq!(lines[1], "sorted by requests; TCP: connections/s, bytes/s from (<) and to (>) servers");
    assert_eq!(words(&lines[3]), "db 1 of 1 3.0 <1.2M >340B 4 0 0.0");
    assert_eq!(words(&lines[4]), "db-1 up 3.0 <1.2M >340B 4 0.0");
}

/// A closed terminal reports what the closed other end of a pipe does.
#[test]
fn a_terminal_that_is_gone_is_noticed() {
    let (reader, writer) = std::io::pipe().unwrap();
    assert!(!is_gone(&writer));
    drop(reader);
    assert!(is_gone(&writer));
    let (reader, mut writer) = std::io::pipe().unwrap();
    assert!(!wait_for_input(&reader).unwrap(), "nothing comes");
    std::io::Write::write_all(&mut writer, b"q").unwrap();
    assert!(wait_for_input(&reader).unwrap());
    drop(writer);
    assert!(!wait_for_input(&reader).unwrap(), "it is gone");
}
