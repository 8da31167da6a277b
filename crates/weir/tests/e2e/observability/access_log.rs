//! One line for each exchange, whatever the exchange holds, wherever the lines go.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::Signal;

use crate::harness::scripts::gated;
use crate::harness::stream::Address;
use crate::harness::watchdog::WATCHDOG;
use crate::harness::{
    CLOSED_PORT, Client, Gate, Origin, ReservedAddress, Weir, eventually, origin::ok, temporary_folder,
};

fn logging(origin: &Origin, format: &str) -> Weir {
    Weir::proxying_with(
        origin,
        &format!("access_log.format = '{format}'\naccess_log.output = \"file:{{dir}}/access.log\""),
    )
}

/// Waits until the file has `count` lines, and returns them.
fn lines(path: &Path, count: usize) -> Vec<String> {
    let read = || fs::read_to_string(path).unwrap_or_default();
    eventually(&format!("{path:?} has {count} lines"), || read().lines().count() >= count);
    let text = read();
    assert!(text.ends_with('\n'), "lines are written whole: {text:?}");
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), count, "{text}");
    lines
}

fn ask(weir: &Weir) {
    let request =
        "GET /a?b=c HTTP/1.1\r\nHost: a.test\r\nUser-Agent: probe/1 (x)\r\nReferer: http://r.test/\r\n\r\n";
    assert_eq!(Client::exchange(weir.web(), request).status, 200);
}

#[test]
fn common_and_combined() {
    let origin = Origin::serving("fine");
    for (format, end) in [("common", ""), ("combined", " \"http://r.test/\" \"probe/1 (x)\"")] {
        let weir = logging(&origin, format);
        ask(&weir);
        let line = &weir.access_log(1)[0];
        let (before, time) = line.split_once('[').expect("the time is in brackets");
        let (time, after) = time.split_once(']').expect("the time is in brackets");
        assert_eq!(before, "127.0.0.1 - - ");
        assert_eq!((time.len(), time.matches('/').count(), time.matches(':').count()), (26, 2, 3), "{time}");
        assert_eq!(after, format!(" \"GET /a?b=c HTTP/1.1\" 200 4{end}"));
    }
}

#[test]
fn json() {
    let origin = Origin::serving("fine");
    let weir = logging(&origin, "json");
    ask(&weir);
    let json: serde_json::Value = serde_json::from_str(&weir.access_log(1)[0]).expect("a JSON object");
    let expected = [
        ("listener", "web"),
        ("client_address", "127.0.0.1"),
        ("method", "GET"),
        ("host", "a.test"),
        ("target", "/a?b=c"),
        ("user_agent", "probe/1 (x)"),
        ("upstream", "app"),
    ];
    for (key, value) in expected {
        assert_eq!(json[key].as_str(), Some(value), "{key} in {json}");
    }
    assert_eq!((json["status"].as_u64(), json["body_bytes_out"].as_u64()), (Some(200), Some(4)), "{json}");
    assert_eq!(json["server"].as_str(), Some(origin.address().to_string().as_str()));
    assert!(json["reason"].is_null(), "{json}");
    for phase in ["accept", "request", "route", "queue", "connect", "send", "response", "relay", "finish"] {
        assert!(json.get(format!("phase.{phase}")).is_some(), "phase.{phase} in {json}");
    }
}

#[test]
fn httplog() {
    let origin = Origin::serving("fine");
    let weir = logging(&origin, "httplog");
    ask(&weir);
    let line = weir.access_log(1).remove(0);
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words[0].starts_with("127.0.0.1:"), "{line}");
    assert_eq!(words[2], "web", "{line}");
    assert_eq!(words[3], format!("app/{}", origin.address()), "{line}");
    assert_eq!(words[4].split('/').count(), 5, "five timers: {line}");
    assert_eq!(words[5], "200", "{line}");
    assert!(line.contains(" ---- "), "{line}");
    assert!(line.ends_with("\"GET /a?b=c HTTP/1.1\""), "{line}");
}

/// An attempt that waits for a response in vain has waited for a response, whatever comes after it.
#[test]
fn the_time_of_failed_attempts_counts_where_they_failed() {
    let silent = Origin::start(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let other = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "[listener.web]\naddress = \"127.0.0.1:0\"\nupstream = \"app\"\n\
         access_log = {{ format = '{{attempts}} {{phase.queue}} {{phase.connect}} {{phase.response}} {{timer.Tc}}', output = \"file:{{dir}}/access.log\" }}\n\
         [upstream.app]\nservers = [\"{}\", {{ address = \"{}\", backup = true }}]\n\
         timeouts.response = \"700ms\"\nretry = {{ on_timeout = true, elapsed_max = \"10s\" }}\n",
        silent.address(),
        other.address()
    ));
    assert_eq!(Client::get(weir.web(), "/").text(), "fine");
    let line = weir.access_log(1).remove(0);
    let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().expect("numbers")).collect();
    let [attempts, queue, connect, response, tc] = numbers[..] else { panic!("{line}") };
    assert_eq!(attempts, 2);
    assert!(response >= 700_000 && connect < response && queue < response && tc < 700, "{line}");
}

/// On a TCP listener there is no request and no status: the line is that of `option tcplog`.
#[test]
fn httplog_of_a_tcp_listener() {
    let origin = Origin::start(|conn| {
        conn.take(4)?;
        conn.send("answer")?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying_with(
        &origin,
        "listener.web.protocol = \"tcp\"\naccess_log.format = \"httplog\"\naccess_log.output = \"file:{dir}/access.log\"",
    );
    let mut client = Client::connect(weir.web());
    client.send("ping");
    assert_eq!(client.take(6), b"answer");
    client.finish();
    client.take_to_end();
    let line = weir.access_log(1).remove(0);
    let words: Vec<&str> = line.split(' ').collect();
    assert!(words[0].starts_with("127.0.0.1:"), "{line}");
    assert_eq!((words[2], words[3]), ("web", &*format!("app/{}", origin.address())), "{line}");
    assert_eq!(words[4].split('/').count(), 3, "Tw/Tc/Tt: {line}");
    assert!(words[4].split('/').all(|timer| timer.parse::<u64>().is_ok()), "{line}");
    assert_eq!(words[5..], ["6", "--", "1/1/1/1/0", "0/0"], "{line}");
}

#[test]
fn an_own_format() {
    let origin = Origin::answering("HTTP/1.1 200 OK\r\nX-Cache: hit\r\nContent-Length: 4\r\n\r\nfine");
    let weir = logging(&origin, "{method} {status} {header.referer} {response.header.x-cache} {{}}");
    ask(&weir);
    assert_eq!(weir.access_log(1), ["GET 200 http://r.test/ hit {}"]);
}

#[test]
fn failures_say_phase_party_and_cause() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("garbage\r\n\r\n")
    });
    let weir = logging(&origin, "{status} {reason} {failure.phase} {failure.party} {target}");
    let path = weir.folder().join("access.log");
    assert_eq!(
        Client::exchange(weir.web(), "POST /garbage HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n")
            .status,
        502
    );
    assert_eq!(lines(&path, 1)[0], "502 response-bad-status-line response server /garbage");
    assert_eq!(Client::exchange(weir.web(), "GET /bad HTTP/1.1\r\nHost : a.test\r\n\r\n").status, 400);
    assert!(lines(&path, 2)[1].starts_with("400 space-before-colon request client "));
    let mut gone = Client::connect(weir.web());
    gone.send("POST /half HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhe");
    origin.wait_for_connections(2);
    gone.reset();
    let last = &lines(&path, 3)[2];
    assert!(last.starts_with("499 ") && last.contains(" client ") && last.ends_with("/half"), "{last}");
}

/// A request that a kept connection loses, and for which no other can be opened.
#[test]
fn the_connection_is_that_of_the_last_attempt() {
    let place = ReservedAddress::new();
    let listener = place.listener();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("Weir opens a connection");
        drop(listener);
        let mut request = [0; 4096];
        for response in [ok("fine"), String::new()] {
            assert!(stream.read(&mut request).expect("Weir sends a request") > 0);
            stream.write_all(response.as_bytes()).expect("Weir is still there");
        }
    });
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{}\"]\n\
         listener.web.access_log = {{ format = '{{status}} {{reason}} {{server_connection}}', output = \"file:{{dir}}/access.log\" }}\n",
        place.address()
    ));
    let mut client = Client::connect(weir.web());
    for status in [200, 502] {
        assert_eq!(client.fetch("/").status, status);
    }
    server.join().expect("the server has seen two requests");
    assert_eq!(weir.access_log(2), ["200 - new", "502 connect-refused new"]);
}

/// The bodies that Weir gives itself count as those of servers do, and as little where none is sent.
#[test]
fn bodies_of_weirs_own_have_a_length() {
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nupstream.gone.servers = [\"{CLOSED_PORT}\"]\nlistener.web.route = [\n\
         {{ path = \"/fixed\", respond = {{ body = \"hello\" }} }},\n\
         {{ path = \"/empty\", respond = {{ status = 204 }} }},\n\
         {{ path = \"/moved\", redirect = {{ to = \"https://a.test/\" }} }},\n\
         {{ path = \"/gone\", upstream = \"gone\" }},\n]\n\
         access_log = {{ format = '{{method}} {{target}} {{body_bytes_out}} end', output = \"file:{{dir}}/access.log\" }}\n",
    ));
    let mut expected = Vec::new();
    let mut client = Client::connect(weir.web());
    for (method, target) in [
        ("GET", "/fixed"),
        ("HEAD", "/fixed"),
        ("GET", "/empty"),
        ("GET", "/moved"),
        ("GET", "/gone"),
        ("HEAD", "/gone"),
        ("GET", "/unknown"),
    ] {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let len = client.response_to(method).body.bytes.len();
        assert_eq!(len > 0, method == "GET" && !["/empty", "/moved"].contains(&target), "{method} {target}");
        expected.push(format!("{method} {target} {len} end"));
    }
    assert_eq!(weir.access_log(expected.len()), expected);
}

/// A listener on every address of the machine says which of them the client chose.
#[test]
fn where_the_client_connected_to() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "listener.web = {{ address = [\":0\", \"unix:{{dir}}/web\"], upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n\
         access_log = {{ format = '{{target}} {{local_address}} {{local_port}}', output = \"file:{{dir}}/access.log\" }}\n",
        origin.address()
    ));
    let (port, path) = (weir.web().port(), weir.folder().join("access.log"));
    for (n, ip) in (1..).zip(["127.0.0.1", "127.0.0.2"]) {
        let address: SocketAddr = format!("{ip}:{port}").parse().expect("an address");
        let mut client = Client::connect(address);
        for target in ["/a", "/b"] {
            assert_eq!(client.fetch(target).status, 200);
        }
        assert_eq!(lines(&path, 2 * n)[2 * n - 2..], [format!("/a {ip} {port}"), format!("/b {ip} {port}")]);
    }
    assert_eq!(Client::get(Address::Unix(weir.folder().join("web")), "/c").status, 200);
    assert_eq!(lines(&path, 5)[4], "/c unix -");
}

/// Three requests for a server that takes one at a time: the third finds one before it in the queue.
#[test]
fn the_place_in_the_queue() {
    for (format, first, last) in
        [("{queue_position} {target} end", "0", "1"), ("httplog", " 0/0 \"GET", " 0/1 \"GET")]
    {
        let gate = Gate::new();
        let origin = gated(&gate, "/", "fine");
        let weir = Weir::proxying_with(
            &origin,
            &format!(
                "upstream.app.max_requests = 1\nadmin.address = \"127.0.0.1:0\"\n\
                 access_log = {{ format = '{format}', output = \"file:{{dir}}/access.log\" }}"
            ),
        );
        let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(weir.web())).collect();
        for (n, client) in clients.iter_mut().enumerate() {
            client.send_get(&format!("/{n}"));
            origin.wait_for_requests(1);
            let queued = || weir.metrics().sum("weir_upstream_queue_length", &[]);
            eventually("the request waits", || queued() == n as f64);
        }
        gate.open();
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        // In any order: each worker writes when it suits it.
        let lines = weir.access_log(3);
        for (n, place) in [first, first, last].into_iter().enumerate() {
            let part = format!("{place} /{n} ");
            assert!(lines.iter().any(|line| line.contains(&part)), "{part:?} in {lines:?}");
        }
    }
}

/// Whatever a client sends, a line is one line and a value is one value.
#[test]
fn injection_is_impossible() {
    let origin = Origin::serving("fine");
    let nasty = [
        "GET /%0d%0a127.0.0.1%20-%20- HTTP/1.1\r\nHost: a.test\r\nUser-Agent: \" 200 0 \"-\" \"forged\r\n\r\n".as_bytes().to_vec(),
        b"GET / HTTP/1.1\r\nHost: a.test\r\nUser-Agent: \xc2\x85\xe2\x80\xa8\xff\\n\\x22\r\n\r\n".to_vec(),
        b"GET /\\\"x HTTP/1.1\r\nHost: a.test\r\nReferer: a\tb \\ \"}{\r\n\r\n".to_vec(),
        b"GET /\n127.0.0.1 HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec(),
        b"\x16\x03\x01\r\n\r\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: a.test\r\nX\x00: \x1b[2J\r\n\r\n".to_vec(),
    ];
    for format in ["combined", "json", "httplog", "{method} {target} {user_agent} {referer} {header.x} end"] {
        let weir = logging(&origin, format);
        for request in &nasty {
            let mut client = Client::connect(weir.web());
            client.send(request);
            client.response();
        }
        for line in weir.access_log(nasty.len()) {
            assert!(line.chars().all(|c| !c.is_control() && c != '\u{2028}'), "{format}: {line:?}");
            match format {
                "json" => {
                    let json: serde_json::Value = serde_json::from_str(&line).expect("a JSON object");
                    assert!(json.is_object(), "{line}");
                }
                "combined" => assert_eq!(line.matches('"').count(), 6, "{line}"),
                "httplog" => assert_eq!(line.matches('"').count(), 2, "{line}"),
                _ => assert_eq!(line.split(' ').count(), 6, "{line}"),
            }
        }
    }
}

#[test]
fn many_lines_stay_whole() {
    let origin = Origin::serving("fine");
    let weir = logging(&origin, "{target}|{status}|{user_agent}|");
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(weir.web())).collect();
    for round in 0..50 {
        for (n, client) in clients.iter_mut().enumerate() {
            client.send(format!(
                "GET /{n}/{round} HTTP/1.1\r\nHost: a.test\r\nUser-Agent: {}\r\n\r\n",
                "u".repeat(300)
            ));
        }
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    }
    let mut lines = weir.access_log(1_000);
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), 1_000, "each exchange has its own line, once");
    let end = format!("|200|{}|", "u".repeat(300));
    assert!(lines.iter().all(|line| line.ends_with(&end)));
}

/// On the signal for that, and on the one for a reload, also of a config with errors.
#[test]
fn the_file_is_opened_again_on_sigusr1_and_sighup() {
    for signal in [Signal::USR1, Signal::HUP] {
        let origin = Origin::serving("fine");
        let weir = logging(&origin, "{target}");
        let path = weir.folder().join("access.log");
        let moved = weir.folder().join("access.log.1");
        let ask = |target: &str| assert_eq!(Client::get(weir.web(), target).status, 200);
        ask("/before");
        assert_eq!(lines(&path, 1), ["/before"]);
        if signal == Signal::HUP {
            weir.write_config("no config");
        }
        fs::rename(&path, &moved).expect("the test owns the file");
        weir.signal(signal);
        eventually("the file is there again", || path.exists());
        ask("/after");
        assert_eq!(lines(&path, 1), ["/after"]);
        assert_eq!(lines(&moved, 1), ["/before"]);
    }
}

#[test]
fn a_file_is_appended_to() {
    let origin = Origin::serving("fine");
    let folder = temporary_folder();
    let path = folder.path().join("access.log");
    fs::write(&path, "kept\n").expect("the test owns the folder");
    let weir = Weir::proxying_with(
        &origin,
        &format!("access_log = {{ format = '{{target}}', output = \"file:{}\" }}", path.display()),
    );
    assert_eq!(Client::get(weir.web(), "/new").status, 200);
    assert_eq!(lines(&path, 2), ["kept", "/new"]);
}

#[test]
fn nothing_is_lost_at_the_end() {
    let origin = Origin::serving("fine");
    let mut weir = logging(&origin, "{target}");
    let path = weir.folder().join("access.log");
    for n in 0..20 {
        assert_eq!(Client::get(weir.web(), &format!("/{n}")).status, 200);
    }
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
    assert_eq!(fs::read_to_string(path).expect("the log is there").lines().count(), 20);
}

/// Neither of what was finished nor of what was cut; and the log can be rotated up to the end.
#[test]
fn nothing_is_lost_when_the_end_comes_at_once() {
    let gate = Gate::new();
    let origin = gated(&gate, "/held", "fine");
    let settings = "process.stop_grace = \"1h\"\naccess_log = { format = '{target} {status} {reason}', output = \"file:{dir}/access.log\" }";
    let mut weir = Weir::proxying_with(&origin, settings);
    let (path, moved) = (weir.folder().join("access.log"), weir.folder().join("access.log.1"));
    let mut held = Client::connect(weir.web());
    held.send_get("/held");
    origin.wait_for_requests(1);
    assert_eq!(Client::get(weir.web(), "/done").status, 200);
    let address = weir.web();
    weir.signal(Signal::TERM);
    eventually("the first signal was taken", || std::net::TcpStream::connect(address).is_err());
    fs::rename(&path, &moved).expect("the test owns the file");
    weir.signal(Signal::USR1);
    eventually("the file is there again", || path.exists());
    weir.signal(Signal::TERM);
    assert_eq!(held.response().status, 503);
    assert_eq!(weir.wait_for_exit().code(), Some(3), "{}", weir.stderr());
    let read = |path: &Path| fs::read_to_string(path).expect("the log is there");
    let text = read(&moved) + &read(&path);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["/done 200 -", "/held 503 killed-by-operator"]);
    gate.open();
}

/// RFC 5424 over a Unix datagram socket, one message for each line.
#[test]
fn syslog_over_a_unix_socket() {
    let origin = Origin::serving("fine");
    let folder = temporary_folder();
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).expect("the test owns the folder");
    socket.set_read_timeout(Some(WATCHDOG)).expect("a time limit is fine");
    let weir = Weir::proxying_with(
        &origin,
        &format!(
            "access_log = {{ format = '{{method}} {{target}} {{status}}', output = \"syslog:{}\" }}",
            path.display()
        ),
    );
    let receive = || {
        let mut buf = [0; 8192];
        let len = socket.recv(&mut buf).expect("a message comes");
        String::from_utf8_lossy(&buf[..len]).into_owned()
    };
    for n in 0..3 {
        assert_eq!(Client::get(weir.web(), &format!("/{n}")).status, 200);
        let message = receive();
        let words: Vec<&str> = message.splitn(8, ' ').collect();
        assert!(words[0].starts_with('<') && words[0].ends_with(">1"), "priority and version: {message}");
        assert!(words[1].contains('T') && words[1].ends_with('Z'), "time: {message}");
        assert_eq!(words[3], "weir", "{message}");
        assert_eq!(words[7], format!("GET /{n} 200"), "{message}");
    }
}

#[test]
fn syslog_over_udp() {
    let origin = Origin::serving("fine");
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    socket.set_read_timeout(Some(WATCHDOG)).expect("a time limit is fine");
    let address = socket.local_addr().expect("a bound socket has an address");
    let weir = Weir::proxying_with(
        &origin,
        &format!("access_log = {{ format = '{{target}}', output = \"syslog+udp://{address}\" }}"),
    );
    assert_eq!(Client::get(weir.web(), "/udp").status, 200);
    let mut buf = [0; 8192];
    let len = socket.recv(&mut buf).expect("a message comes");
    let message = String::from_utf8_lossy(&buf[..len]).into_owned();
    assert!(message.starts_with('<') && message.ends_with(" /udp"), "{message}");
}

/// A listener's own log replaces the common one.
#[test]
fn one_log_for_each_listener() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         listener.quiet.address = \"127.0.0.1:0\"\nlistener.quiet.upstream = \"app\"\nlistener.quiet.access_log.format = \"off\"\n\
         listener.own.address = \"127.0.0.1:0\"\nlistener.own.upstream = \"app\"\n\
         listener.own.access_log = {{ format = 'own {{target}}', output = \"file:{{dir}}/own.log\" }}\n\
         access_log = {{ format = '{{listener}} {{target}}', output = \"file:{{dir}}/access.log\" }}\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    for listener in ["quiet", "own", "web"] {
        assert_eq!(Client::get(weir.address(listener), &format!("/{listener}")).status, 200);
    }
    assert_eq!(lines(&weir.folder().join("own.log"), 1), ["own /own"]);
    assert_eq!(weir.access_log(1), ["web /web"]);
}

/// A FIFO takes lines without a reader.
#[test]
fn a_fifo() {
    let origin = Origin::serving("fine");
    let folder = temporary_folder();
    let path = folder.path().join("access.log");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).expect("the test owns the folder");
    let mut weir = Weir::proxying_with(
        &origin,
        &format!("access_log = {{ format = '{{target}}', output = \"file:{}\" }}", path.display()),
    );
    assert_eq!(Client::get(weir.web(), "/first").status, 200);
    let mut reader = BufReader::new(File::open(&path).expect("it has a writer already"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line comes");
    assert_eq!(line, "/first\n");
    drop(reader);
    assert_eq!(Client::get(weir.web(), "/second").status, 200);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
}

/// Health checks of another balancer are not worth a line; failures are.
#[test]
fn a_route_may_have_no_lines() {
    let origin = crate::harness::scripts::echo();
    let weir = Weir::start(&crate::harness::config_with(
        &[origin.named("a")],
        &format!(
            "listener.web.access_log = {{ format = '{{target}} {{status}}', output = \"file:{{dir}}/access.log\" }}
             listener.web.route = [
                 {{ path = \"/quiet\", upstream = \"app\", access_log = false }},
                 {{ path = \"/down\", upstream = \"down\", access_log = false }},
             ]
             upstream.down = {{ servers = [\"{CLOSED_PORT}\"], retry = {{ attempts_max = 1 }} }}"
        )
        .replace("{{dir}}", "{dir}"),
    ));
    let mut client = Client::connect(weir.web());
    for target in ["/quiet", "/down", "/loud"] {
        client.fetch(target);
    }
    assert_eq!(weir.access_log(2), ["/down 502", "/loud 200"]);
}
