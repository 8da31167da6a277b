//! TCP listeners: bytes both ways as they are, to the server that routes, balancer and queue choose.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use crate::harness::client_hello::hello;
use crate::harness::scripts::{mirror, send_and_take};
use crate::harness::watchdog::now;
use crate::harness::{Client, End, Gate, NOWHERE, Origin, Weir, eventually};

/// A Weir with a TCP listener and one upstream.
fn config(servers: &[&str], upstream: &str, listener: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    format!(
        "admin.address = \"127.0.0.1:0\"\n\
         [listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\nupstream = \"app\"\n{listener}\n\
         access_log = {{ format = \"{{listener}} {{upstream}} {{server}} {{attempts}} {{bytes_in}} {{bytes_out}} {{ended_by}} {{reason}}\", \
         output = \"file:{{dir}}/access.log\" }}\n\
         [upstream.app]\nservers = [{}]\n{upstream}\n",
        servers.join(", ")
    )
}

fn address(origin: &Origin) -> String {
    origin.address().to_string()
}

/// The lines of the log once there are `count`.
fn log_lines(weir: &Weir, count: usize) -> Vec<String> {
    let file = weir.folder().join("access.log");
    let read = || -> Vec<String> {
        std::fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect()
    };
    eventually(&format!("the log has {count} lines"), || read().len() >= count);
    read()
}

/// A server that greets before it is asked, then returns each byte increased by one, to the end of the client.
fn echo() -> Origin {
    Origin::start(|conn| {
        conn.send("hello")?;
        let mut buf = [0; 4096];
        while let Some(len) = conn.skim(&mut buf).filter(|len| *len > 0) {
            let answer: Vec<u8> = buf[..len].iter().map(|byte| byte.wrapping_add(1)).collect();
            conn.send(answer)?;
        }
        Some(())
    })
}

#[test]
fn the_server_may_speak_first_and_every_byte_passes() {
    let server = echo();
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    for byte in 0..=255_u8 {
        client.send([byte]);
        assert_eq!(client.take(1), [byte.wrapping_add(1)]);
    }
    client.finish();
    assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
    assert_eq!(log_lines(&weir, 1), [format!("web app {} 1 256 261 client -", server.address())]);
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_tunnels_total", &["listener=\"web\""]), 1.0);
    assert_eq!(metrics.sum("weir_listener_tunnels_open", &["listener=\"web\""]), 0.0);
    assert_eq!(metrics.sum("weir_listener_requests_total", &["listener=\"web\""]), 0.0);
    assert_eq!(metrics.sum("weir_upstream_requests_total", &["upstream=\"app\""]), 1.0);
}

/// A connection may last for days: its bytes are counted while it runs, and only once.
#[test]
fn bytes_are_counted_while_a_connection_lasts() {
    let server = echo();
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    client.send([1; 10]);
    client.take(10);
    let bytes = |name: &str| weir.metrics().sum(name, &["upstream=\"app\""]);
    let counted = || (bytes("weir_server_sent_bytes_total"), bytes("weir_server_received_bytes_total"));
    eventually("they are counted", || counted() == (10.0, 15.0));
    assert_eq!(weir.metrics().sum("weir_listener_tunnels_open", &[]), 1.0);
    client.finish();
    client.take_to_end();
    eventually("it has ended", || weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0);
    assert_eq!(counted(), (10.0, 15.0));
    let overview = Client::get_by_address(weir.address("admin"), "/api/overview").text();
    assert!(overview.contains("\"protocol\":\"tcp\""), "{overview}");
}

#[test]
fn an_end_of_one_direction_leaves_the_other_open() {
    let server = Origin::start(|conn| {
        let (received, end) = conn.wait_for_end();
        assert_eq!(end, End::Closed);
        // The client has ended its direction and still listens.
        conn.send(received.iter().rev().copied().collect::<Vec<u8>>())?;
        conn.finish();
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    client.send("question");
    client.finish();
    assert_eq!(client.take_to_end(), (b"noitseuq".to_vec(), End::Closed));
    assert_eq!(log_lines(&weir, 1), [format!("web app {} 1 8 8 client -", server.address())]);
}

#[test]
fn a_server_that_ends_first_leaves_the_client_its_direction() {
    let server = Origin::start(|conn| {
        conn.send("bye")?;
        conn.finish();
        let (received, _) = conn.wait_for_end();
        assert_eq!(received, b"one more thing");
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take_to_end(), (b"bye".to_vec(), End::Closed));
    client.send("one more thing");
    client.finish();
    assert_eq!(log_lines(&weir, 1), [format!("web app {} 1 14 3 server -", server.address())]);
    assert_eq!(server.wait_for_end(0), End::Closed);
}

#[test]
fn a_reset_of_the_client_is_passed_on_and_one_of_the_server_is_an_end() {
    let server = Origin::start(|conn| {
        conn.take(2)?;
        conn.reset();
        None
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    client.send("go");
    assert_eq!(client.take_to_end().1, End::Closed);
    let waiting = Origin::start(|conn| {
        conn.send("hello")?;
        conn.wait_for_end();
        Some(())
    });
    let other = Weir::start(&config(&[&address(&waiting)], "", ""));
    let mut client = Client::connect(other.web());
    assert_eq!(client.take(5), b"hello");
    client.reset();
    assert_eq!(waiting.wait_for_end(0), End::Reset);
    assert_eq!(
        log_lines(&weir, 1),
        [format!("web app {} 1 2 0 server relay-server-reset", server.address())]
    );
    assert_eq!(log_lines(&other, 1), [format!("web app {} 1 0 5 client client-reset", waiting.address())]);
}

#[test]
fn a_server_that_refuses_is_passed_over() {
    let server = echo();
    let weir = Weir::start(&config(&[NOWHERE, &address(&server)], "balance = \"round-robin\"", ""));
    for _ in 0..4 {
        assert_eq!(Client::connect(weir.web()).take(5), b"hello");
    }
    let lines = log_lines(&weir, 4);
    assert!(lines.iter().any(|line| line.contains(" 2 ")), "somebody met the dead one first: {lines:?}");
    assert!(lines.iter().all(|line| line.contains(&address(&server))), "{lines:?}");
}

#[test]
fn nobody_there_closes_the_connection_and_says_why() {
    let weir = Weir::start(&config(&[NOWHERE], "", ""));
    Client::connect(weir.web()).assert_closed();
    let lines = log_lines(&weir, 1);
    assert!(lines[0].ends_with("- connect-refused"), "{lines:?}");
}

#[test]
fn silence_ends_a_tunnel_and_bytes_keep_it() {
    let server = echo();
    let weir = Weir::start(&config(&[&address(&server)], "timeouts.tunnel = \"300ms\"", ""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    let began = now();
    let mut moved = began;
    while began.elapsed() < Duration::from_millis(700) {
        client.send([1]);
        moved = now();
        assert_eq!(client.take(1), [2]);
        crate::harness::watchdog::pause();
    }
    assert_eq!(client.take_to_end(), (Vec::new(), End::Reset));
    assert!(moved.elapsed() >= Duration::from_millis(300), "silence had to last");
    assert!(log_lines(&weir, 1)[0].ends_with("weir tunnel-idle"));
}

#[test]
fn the_age_of_a_connection_is_bounded_even_in_use() {
    let server = echo();
    let weir = Weir::start(&config(&[&address(&server)], "", "timeouts.session = \"400ms\""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    eventually("the connection is too old", || {
        client.send_what_is_taken([1]).is_err()
            || weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0
    });
    assert!(log_lines(&weir, 1)[0].ends_with("weir session-too-old"));
}

#[test]
fn rates_hold_in_each_direction() {
    const BYTES: usize = 60_000;
    let server = Origin::start(|conn| {
        let received = conn.take(BYTES)?;
        conn.send(received)?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&config(
        &[&address(&server)],
        "",
        "limits = { upload_rate = \"100kB/s\", download_rate = \"50kB/s\" }",
    ));
    let mut client = Client::connect(weir.web());
    let sent: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let began = now();
    client.send(&sent);
    client.finish();
    assert_eq!(client.take_to_end(), (sent, End::Closed));
    // Less than 0.6 s and 1.2 s, for each bucket begins full.
    assert!(began.elapsed() >= Duration::from_millis(400 + 1000), "{:?}", began.elapsed());
}

#[test]
fn connections_beyond_the_limit_of_a_server_wait_for_it() {
    let gate = Arc::new(Gate::new());
    let (held, opened) = (Arc::clone(&gate), "the first connection may end");
    let server = Origin::start(move |conn| {
        conn.send("x")?;
        held.wait(opened);
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "max_requests = 1", ""));
    let mut first = Client::connect(weir.web());
    assert_eq!(first.take(1), b"x");
    let mut second = Client::connect(weir.web());
    eventually("the second waits", || weir.metrics().sum("weir_upstream_queue_length", &[]) == 1.0);
    assert_eq!(server.connections(), 1);
    gate.open();
    // Half a connection still takes a place.
    drop(first);
    assert_eq!(second.take(1), b"x");
}

#[test]
fn tls_passes_through_to_the_server_whose_name_it_asks_for() {
    let named = |name: &'static str| {
        Origin::start(move |conn| {
            conn.take(10)?;
            conn.send(name)?;
            conn.finish();
            conn.wait_for_end();
            Some(())
        })
    };
    let (one, below, other) = (named("one"), named("below"), named("other"));
    let text = format!(
        "admin.address = \"127.0.0.1:0\"\n[listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\n\
         access_log = {{ format = \"{{route}} {{reason}}\", output = \"file:{{dir}}/access.log\" }}\n\
         [[listener.web.route]]\nsni = \"one.test\"\nupstream = \"one\"\n\
         [[listener.web.route]]\nsni = \"*.one.test\"\nupstream = \"below\"\n\
         [[listener.web.route]]\nsource = \"127.0.0.9\"\nupstream = \"below\"\n\
         [[listener.web.route]]\nname = \"rest\"\nupstream = \"other\"\n\
         [upstream.one]\nservers = [\"{}\"]\n[upstream.below]\nservers = [\"{}\"]\n[upstream.other]\nservers = [\"{}\"]\n",
        one.address(),
        below.address(),
        other.address()
    );
    let weir = Weir::start(&text);
    let ask = |bytes: &[u8], bytewise: bool| {
        let mut client = Client::connect(weir.web());
        match bytewise {
            true => client.send_bytewise(bytes).expect("it is taken"),
            false => client.send(bytes),
        }
        String::from_utf8(client.take_to_end().0).expect("a name")
    };
    assert_eq!(ask(&hello("one.test"), false), "one");
    assert_eq!(ask(&hello("ONE.test"), true), "one");
    assert_eq!(ask(&hello("deep.in.one.test"), false), "below");
    assert_eq!(ask(&hello("two.test"), false), "other");
    assert_eq!(ask(b"GET / HTTP/1.0\r\n\r\n", false), "other");
    assert_eq!(latin(&one.connection(0).received), latin(&hello("one.test")), "it went on untouched");
    let mut far = Client::connect_from("127.0.0.9", weir.web());
    far.send(hello("two.test"));
    assert_eq!(far.take_to_end().0, b"below");
    // A hello whose lengths contradict each other.
    let mut broken = hello("one.test");
    broken[8] ^= 0x40;
    let mut client = Client::connect(weir.web());
    client.send(&broken);
    client.finish();
    client.take_to_end();
    eventually("it is logged", || {
        std::fs::read_to_string(weir.folder().join("access.log")).is_ok_and(|text| text.contains("- tls-"))
    });
}

fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

#[test]
fn a_hello_that_does_not_end_is_not_waited_for() {
    let server = echo();
    let text = format!(
        "admin.address = \"127.0.0.1:0\"\n[listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\ntimeouts.tls = \"200ms\"\n\
         access_log = {{ format = \"{{reason}}\", output = \"file:{{dir}}/access.log\" }}\n\
         [[listener.web.route]]\nsni = \"one.test\"\nupstream = \"one\"\n[upstream.one]\nservers = [\"{}\"]\n",
        server.address()
    );
    let weir = Weir::start(&text);
    let mut slow = Client::connect(weir.web());
    slow.send(&hello("one.test")[..20]);
    let mut nameless = Client::connect(weir.web());
    nameless.send(hello("two.test"));
    nameless.take_to_end();
    slow.take_to_end();
    let mut lines = log_lines(&weir, 2);
    lines.sort();
    assert_eq!(lines, ["no-route", "tls-handshake-timeout"]);
    assert_eq!(server.connections(), 0);
}

#[test]
fn much_goes_both_ways_at_once() {
    const BYTES: usize = 8 << 20;
    let server = Origin::start(|conn| {
        mirror(conn, BYTES)?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    send_and_take(&mut client, BYTES);
    client.finish();
    assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
}

/// A server that takes all it gets and returns it when there is room, behind a client that sends everything before it reads anything: both
/// ways are full at times, and neither must hold up the other.
#[test]
fn a_full_direction_does_not_stop_the_other() {
    const BYTES: usize = 48 << 20;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        let (mut from, _) = listener.accept().expect("somebody comes");
        let mut to = from.try_clone().expect("one more descriptor");
        let (taken, kept) = std::sync::mpsc::channel::<Vec<u8>>();
        std::thread::spawn(move || kept.into_iter().try_for_each(|bytes| to.write_all(&bytes)));
        let mut buf = vec![0; 64 * 1024];
        while let Ok(len @ 1..) = from.read(&mut buf) {
            if taken.send(buf[..len].to_vec()).is_err() {
                break;
            }
        }
    });
    let weir = Weir::start(&config(&[&address], "", ""));
    let mut client = Client::connect(weir.web());
    for _ in 0..BYTES / 65_536 {
        client.send(vec![7; 65_536]);
    }
    assert!(client.take(BYTES).iter().all(|byte| *byte == 7));
}

/// A client that is gone before its connection was accepted is no client that has ended its direction and goes on reading.
#[test]
fn a_reset_before_the_first_byte_is_a_reset() {
    let server = Origin::start(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    weir.pause();
    Client::connect(weir.web()).reset();
    weir.signal(rustix::process::Signal::CONT);
    let line = log_lines(&weir, 1).remove(0);
    assert!(line.ends_with("client client-reset"), "{line}");
}

/// At a stop, tunnels have until shortly before the grace ends, and their end is a proper one.
#[test]
fn a_stop_drains_tunnels_and_ends_them_in_time() {
    let server = echo();
    let mut weir =
        Weir::start(&format!("process.stop_grace = \"1500ms\"\n{}", config(&[&address(&server)], "", "")));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    let began = now();
    weir.signal(rustix::process::Signal::TERM);
    while began.elapsed() < Duration::from_millis(500) {
        client.send([1]);
        assert_eq!(client.take(1), [2], "it goes on meanwhile");
        crate::harness::watchdog::pause();
    }
    assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    assert_eq!(weir.wait_for_exit().code(), Some(3), "a tunnel was cut");
    let line = log_lines(&weir, 1).remove(0);
    assert!(line.ends_with("weir relay-draining"), "{line}");
}
