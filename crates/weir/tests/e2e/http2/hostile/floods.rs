//! Frames that cost a client little, without end (the CVEs of 2019): all draw from one budget, and each type has its reason.

use super::{OnStream, Site};
use crate::harness::http2::frame::{self, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM};
use crate::harness::http2::{start, start_with};
use crate::harness::scripts::echo_gated;
use crate::harness::{End, Gate, Http2Client, Origin, eventually, origin::ok};

const MANY: usize = 20_000;

#[test]
fn frames_without_content() {
    let site = Site::new();
    let rows: [(&str, &str, Vec<u8>); 9] = [
        ("PING (CVE-2019-9512)", "ping", frame::frame(frame::PING, 0, 0, b"12345678")),
        ("PING that answers nothing", "ping", frame::frame(frame::PING, frame::ACK, 0, b"12345678")),
        ("SETTINGS (CVE-2019-9515)", "settings", frame::settings(&[])),
        ("SETTINGS that change", "settings", frame::settings(&[(4, 1_000), (4, 65_535)])),
        ("SETTINGS that acknowledge nothing", "settings", frame::frame(frame::SETTINGS, frame::ACK, 0, &[])),
        ("WINDOW_UPDATE of the connection", "window-update", frame::window_update(0, 1)),
        ("PRIORITY (CVE-2019-9513)", "priority", frame::frame(frame::PRIORITY, 0, 1, &[0, 0, 0, 3, 16])),
        ("PRIORITY_UPDATE", "priority", frame::priority_update(1, "u=1")),
        ("a frame of an unknown type", "other-frame", frame::frame(0xfa, 0, 0, b"what")),
    ];
    for (what, kind, bytes) in rows {
        let reason = format!("http2-{kind}-flood");
        site.assert_cut_off(what, ENHANCE_YOUR_CALM, &reason, |_| bytes.repeat(MANY));
    }
}

#[test]
fn frames_without_content_on_a_stream() {
    let site = Site::new();
    let rows: [(&str, &str, OnStream); 4] = [
        ("empty DATA (CVE-2019-9518)", "empty-data", |stream| frame::frame(frame::DATA, 0, stream, &[])),
        ("DATA of padding", "empty-data", |stream| frame::frame(frame::DATA, frame::PADDED, stream, &[1, 0])),
        ("WINDOW_UPDATE of the stream", "window-update", |stream| frame::window_update(stream, 1)),
        ("PRIORITY_UPDATE of the stream", "priority", |stream| frame::priority_update(stream, "u=1, i")),
    ];
    for (what, kind, bytes) in rows {
        let reason = format!("http2-{kind}-flood");
        site.assert_cut_off(what, ENHANCE_YOUR_CALM, &reason, |client| {
            let stream = client.post("/", &[]);
            bytes(stream).repeat(MANY)
        });
    }
}

#[test]
fn frames_on_a_stream_that_is_reset() {
    let site = Site::new();
    let rows: [(&str, &str, OnStream); 2] = [
        ("WINDOW_UPDATE", "window-update", |stream| frame::window_update(stream, 1)),
        ("RST_STREAM", "closed-stream", |stream| frame::reset(stream, 8)),
    ];
    for (what, kind, bytes) in rows {
        let reason = format!("http2-{kind}-flood");
        site.assert_cut_off(what, ENHANCE_YOUR_CALM, &reason, |client| {
            let stream = client.post("/", &[]);
            client.reset(stream, 8);
            bytes(stream).repeat(MANY)
        });
    }
}

/// While its exchange is being torn down, such a head draws from the budget of resets; later, it ends the connection.
#[test]
fn heads_on_a_stream_that_is_reset() {
    let site = Site::new();
    let mut attacker = site.client();
    let stream = attacker.post("/", &[]);
    attacker.reset(stream, 8);
    let first = attacker.block(&[("x-a", "1")]);
    let again = attacker.block(&[("x-a", "1")]);
    let head = |block: &[u8]| frame::frame(frame::HEADERS, END_HEADERS | END_STREAM, stream, block);
    let flood = attacker.flood([head(&first), head(&again).repeat(MANY)].concat());
    let code = attacker.end_code();
    assert!([frame::STREAM_CLOSED, ENHANCE_YOUR_CALM].contains(&code), "{code}");
    let _ = flood.join().expect("the thread does not panic");
    assert_eq!(site.client().fetch("/fine").status, 200);
}

/// What Weir keeps for a client that reads nothing is bounded: it stops reading itself, and the client is cut off in time.
#[test]
fn pings_whose_answers_nobody_reads() {
    let origin = Origin::start(|conn| {
        loop {
            if conn.request()?.target() != "/endless" {
                conn.send(ok("little"))?;
                continue;
            }
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
            while conn.send([b'x'; 100_000]).is_some() {}
        }
    });
    let limit = "listener.web.timeouts.send = { credit = \"500ms\", rate_min = \"100B/s\" }";
    let weir = start_with(&origin, limit);
    let mut good = Http2Client::connect(weir.web());
    assert_eq!(good.fetch("/before").status, 200);
    let before = weir.resident_bytes();
    let mut attacker = Http2Client::connect_narrow(weir.web(), &[(frame::INITIAL_WINDOW_SIZE, 1 << 30)]);
    attacker.send(frame::window_update(0, 1 << 30));
    attacker.get("/endless");
    let flood = attacker.flood(frame::frame(frame::PING, 0, 0, b"12345678").repeat(4_000_000));
    assert!(flood.join().expect("the thread does not panic").is_err(), "it is cut off before all is sent");
    assert_eq!(good.fetch("/afterwards").status, 200);
    let grown = weir.resident_bytes().saturating_sub(before);
    assert!(grown < 10 << 20, "{} KiB", grown >> 10);
    eventually("one connection is left", || {
        weir.metrics().sum("weir_listener_http2_connections_open", &[]) == 1.0
    });
}

/// A burst whose answers are more than Weir keeps is no flood: once they are taken, it reads on.
#[test]
fn reading_goes_on_behind_a_burst_of_pings() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start(&origin);
    for count in [400, 481, 482, 500, 900] {
        let mut client = Http2Client::connect(weir.web());
        // So that the connection is not idle, which has it looked at now and then.
        client.get("/held");
        client.settle();
        client.send(frame::frame(frame::PING, 0, 0, b"12345678").repeat(count));
        client.wait("each is answered", |client| {
            client.frames().iter().filter(|frame| frame.kind == frame::PING).count() == count + 1
        });
        assert_eq!(client.fetch("/next").text(), "/next", "{count}");
    }
    gate.open();
}

/// A client that takes a response in small pieces opens its windows often: what it takes earns what that costs.
#[test]
fn windows_that_are_opened_for_what_was_taken_are_no_flood() {
    const LEN: usize = 20 << 20;
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"))?;
            conn.send(vec![b'x'; LEN])?;
        }
    });
    let weir = start(&origin);
    // The client of the harness gives back each DATA frame twice.
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/").body.len(), LEN);
    // Another one has large windows, keeps all of it, and then takes it in small pieces, as programs in Go do.
    let mut client = Http2Client::connect_with(weir.web(), &[(frame::INITIAL_WINDOW_SIZE, 1 << 30)]);
    client.open_window(0, 1 << 30);
    client.gives_back = false;
    let stream = client.get("/");
    assert_eq!(client.response(stream).body.len(), LEN);
    let updates = [frame::window_update(0, 4_096), frame::window_update(stream, 4_096)].concat();
    client.send(updates.repeat(LEN / 4_096));
    client.settle();
    assert_eq!(client.goaways, []);
}

#[test]
fn more_settings_than_there_are_in_one_frame() {
    let site = Site::new();
    site.assert_cut_off("settings", ENHANCE_YOUR_CALM, "http2-too-many-settings", |_| {
        frame::settings(&[(4, 1); 33])
    });
}

/// RFC 9113 section 5.4.1: behind a GOAWAY with an error, the connection ends, and what is still sent does not keep it.
#[test]
fn a_flood_that_goes_on_behind_its_end_is_cut() {
    let site = Site::new();
    let mut attacker = site.client();
    let ping = frame::frame(frame::PING, frame::ACK, 0, b"12345678").repeat(1_000);
    let mut sent = 0;
    while attacker.send_what_is_taken(&ping).is_ok() {
        sent += 1;
        assert!(sent < 100_000, "Weir does not end it");
    }
    assert!(matches!(attacker.end(), End::Closed | End::Reset));
}
